"""From a run to everything that the tables and the pictures show."""

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from stalegrad._internal.types import Array, IntArray
from stalegrad.analysis.diagnostics import convergence
from stalegrad.analysis.estimates import Reliability, estimate
from stalegrad.datasets.digits import Digits
from stalegrad.experiments.demo.predictions import FUNCTIONS, Predictions, predict
from stalegrad.experiments.demo.task import REFERENCE, Settings
from stalegrad.potentials import Softmax
from stalegrad.protocol.chain_trace import ChainTrace
from stalegrad.runs.result import Run

HARDEST = 8
INTERVAL = (0.05, 0.95)


@dataclass(frozen=True, eq=False)
class Analysis:
    """Numbers for people and programs, and arrays for pictures.

    Args:
        numbers: plain numbers by name, as they go into summary.json.
        predictions: of the draws and averaged.
        chains: the trace of every chain.
        updates: number of the update at each of the curves' points.
        reliability: of the averaged prediction.
        hardest: rows of the test digits that the averaged prediction is least sure of.
        hardest_mean: its probabilities for them, (digit, class).
        hardest_interval: where 90 % of the draws' probabilities lie, (2, digit, class).
    """

    numbers: dict[str, Any]
    predictions: Predictions
    chains: tuple[ChainTrace, ...]
    updates: IntArray
    reliability: Reliability
    hardest: IntArray
    hardest_mean: Array
    hardest_interval: Array


def analyse(run: Run, model: Softmax, data: Digits, settings: Settings, seconds: float) -> Analysis:
    """All of it.

    Args:
        run: the draws and their trace.
        model: the posterior.
        data: the digits.
        settings: of the run.
        seconds: that the sampling took.
    """
    predictions = predict(run, model, data)
    averaged = predictions.average.probabilities
    confidence = averaged.max(axis=1)
    hardest = np.argsort(confidence, kind="stable")[:HARDEST]
    each_draw = run.evaluate(model.predictive(data.test[hardest]))
    numbers = {
        "settings": asdict(settings) | {"burn_in": settings.burn_in, "thin": settings.thin},
        "data": {"train": len(data.train), "test": len(data.test), "classes": 10, "parameters": model.size},
        "draws": {"chains": run.draws.shape[0], "per_chain": run.draws.shape[1]},
        "sampling": _sampling(run, seconds),
        "scores": {
            "averaged": predictions.average.scores(data.test_y).as_dict(),
            "single_draw": predictions.draw_scores,
            "last_draw": predictions.last_scores,
        },
        "confidence": {"averaged": float(confidence.mean()), "single_draw": _mean_confidence(predictions)},
        "hardest": {
            "row": hardest.tolist(),
            "truth": data.test_y[hardest].tolist(),
            "named": averaged[hardest].argmax(axis=1).tolist(),
        },
        "test_functions": _test_functions(predictions, run.step_sizes),
        "reference": REFERENCE,
    }
    return Analysis(
        numbers=numbers,
        predictions=predictions,
        chains=run.trace.chains,
        updates=settings.burn_in + predictions.points * settings.thin,
        reliability=predictions.average.reliability(data.test_y),
        hardest=hardest,
        hardest_mean=averaged[hardest],
        hardest_interval=np.quantile(each_draw, INTERVAL, axis=(0, 1)),
    )


def _sampling(run: Run, seconds: float) -> dict[str, Any]:
    """How the run went, chain by chain where it is a list."""
    accepted = [int(np.count_nonzero(taken)) for taken in run.accepted]
    staleness = [tau[taken] for tau, taken in zip(run.staleness, run.accepted, strict=True)]
    return {
        "engine": "" if run.trace.record is None else run.trace.record.engine.get("name", ""),
        "seconds": seconds,
        "updates_per_second": sum(accepted) / seconds,
        "accepted": accepted,
        "dropped": [len(all_) - taken for all_, taken in zip(run.accepted, accepted, strict=True)],
        "mean_staleness": [float(tau.mean()) for tau in staleness],
        "max_staleness": [int(tau.max()) for tau in staleness],
        "interrupted": run.interrupted,
    }


def _test_functions(predictions: Predictions, step_sizes: Array) -> dict[str, dict[str, float]]:
    """φ̂, its standard error, R-hat and ESS of each test function; and R-hat and ESS of the worst of all test digits."""
    result = {}
    for index, name in enumerate(FUNCTIONS):
        phi = predictions.functions[:, :, index]
        average, mixing = estimate(phi, step_sizes=step_sizes), convergence(phi)
        result[name] = {
            "value": float(average),
            "standard_error": float(average.standard_error),
            "rhat": float(mixing.rhat),
            "ess": float(mixing.ess),
        }
    mixing = convergence(predictions.truth)
    result["worst_digit"] = {"rhat": float(np.nanmax(mixing.rhat)), "ess": float(np.nanmin(mixing.ess))}
    return result


def _mean_confidence(predictions: Predictions) -> float:
    curve = predictions.draw_reliability
    return float(np.nansum(curve.count * curve.confidence) / curve.count.sum())
