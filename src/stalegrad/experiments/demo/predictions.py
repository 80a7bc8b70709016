"""One pass over the draws: what each of them predicts for the test digits, averaged and scored, nothing of it kept."""

from dataclasses import dataclass

import numpy as np

from stalegrad._internal.types import Array, IntArray
from stalegrad.analysis.estimates import (
    PredictiveAverage,
    Reliability,
    mean_log_likelihood,
    predictions,
    reliability_curve,
    score,
)
from stalegrad.datasets.digits import Digits
from stalegrad.potentials import Softmax
from stalegrad.runs.result import Run

CURVE_POINTS = 200
FUNCTIONS = ("log_likelihood", "entropy", "square_weight")
"""Test functions of a draw: mean log-likelihood of the test digits, mean entropy of their predictions, |θ|²/n."""


@dataclass(frozen=True, eq=False)
class Predictions:
    """What the pass gives.

    Args:
        average: the prediction averaged over all draws of all chains.
        points: after how many draws of each chain the curves were read.
        chain_curves: log-likelihood of each chain's averaged prediction, (chain, point).
        curve: log-likelihood of the prediction averaged over all chains, (point,).
        draw_scores: mean over draws of every score of the single draw.
        last_scores: the scores of the last draw.
        draw_reliability: reliability of single draws, all of them together.
        functions: FUNCTIONS of every draw, (chain, draw, 3).
        truth: the probability of what each test digit is, (chain, draw, row).
    """

    average: PredictiveAverage
    points: IntArray
    chain_curves: Array
    curve: Array
    draw_scores: dict[str, float]
    last_scores: dict[str, float]
    draw_reliability: Reliability
    functions: Array
    truth: Array


def predict(run: Run, model: Softmax, data: Digits) -> Predictions:
    """Predict the test digits with every draw."""
    chains, draws, _ = run.draws.shape
    y, rows = data.test_y, np.arange(data.test_y.size)
    averages = [PredictiveAverage() for _ in range(chains)]
    points = np.unique(np.linspace(1, draws, min(CURVE_POINTS, draws)).astype(int))
    chain_curves, curve = np.empty((chains, points.size)), np.empty(points.size)
    functions, truth = np.empty((chains, draws, len(FUNCTIONS))), np.empty((chains, draws, rows.size))
    scores, curves = [], []
    for each in predictions(run.draws, run.step_sizes, model.predictive(data.test)):
        p = each.prediction
        averages[each.chain].add(p, each.weight)
        scores.append(score(p, y).as_dict())
        curves.append(reliability_curve(p, y))
        truth[each.chain, each.draw] = p[rows, y]
        square = np.square(each.theta, dtype=np.float64).mean()
        functions[each.chain, each.draw] = scores[-1]["mean_log_likelihood"], _entropy(p), square
        at = int(np.searchsorted(points, each.draw + 1))
        if points[at] == each.draw + 1 and each.chain == chains - 1:  # all chains have their draw of this number
            chain_curves[:, at] = [mean_log_likelihood(average.probabilities, y) for average in averages]
            curve[at] = mean_log_likelihood(_together(averages).probabilities, y)
    return Predictions(
        average=_together(averages),
        points=points,
        chain_curves=chain_curves,
        curve=curve,
        draw_scores={name: float(np.mean([each[name] for each in scores])) for name in scores[0]},
        last_scores=scores[-1],
        draw_reliability=sum(curves[1:], curves[0]),
        functions=functions,
        truth=truth,
    )


def _together(averages: list[PredictiveAverage]) -> PredictiveAverage:
    return sum(averages[1:], averages[0])


def _entropy(p: Array) -> float:
    """Mean over rows of −Σ_k p_ik log p_ik."""
    return float(-(p * np.log(np.maximum(p, 1e-300))).sum(axis=1).mean())
