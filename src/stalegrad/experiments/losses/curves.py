"""From units to curves: φ̂ after every part of the way, with the band of the repetitions."""

from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from stalegrad._internal.types import Array
from stalegrad.experiments.losses.layouts import Layout
from stalegrad.experiments.losses.units import Unit

Results = Mapping[Unit, Mapping[str, Any]]


def running_average(result: Mapping[str, Any], points: int) -> Array:
    """φ̂_k = Σ_{j≤k} h_j φ(θ_j) / Σ_{j≤k} h_j of one chain; NaN if it has diverged."""
    if "loss" not in result:
        return np.full(points, np.nan)
    loss, weight = np.array(result["loss"], float), np.array(result["step_size"])
    return np.asarray(np.cumsum(weight * loss) / np.cumsum(weight))


def estimates(layout: Layout, seeds: int, results: Results, common: Mapping[str, Any]) -> Array:
    """φ̂ of each repetition, (R, points): the average over the layout's chains, which all have the same Σ h."""
    rows = [
        np.mean([running_average(results[unit], unit.points) for unit in layout.units(seed, **common)], axis=0)
        for seed in range(seeds)
    ]
    return np.array(rows)


def predictive_losses(
    layout: Layout, seeds: int, results: Results, common: Mapping[str, Any], likelihood: Callable[[Unit], Array]
) -> Array:
    """−(1/n) Σ_i log p̄_i of each repetition, (R, points), with p̄ the probability of the label averaged like φ̂.

    By Jensen's inequality it is below φ̂, and the more so the more the draws of one chain, or chains, disagree.
    """
    rows = []
    for seed in range(seeds):
        averages = []
        for unit in layout.units(seed, **common):
            if "loss" not in results[unit]:
                averages.append(np.full((unit.points, 1), np.nan))
                continue
            weight = np.array(results[unit]["step_size"])
            probabilities = np.exp(likelihood(unit).astype(np.float64))
            averages.append(np.cumsum(weight[:, None] * probabilities, axis=0) / np.cumsum(weight)[:, None])
        rows.append(-np.log(np.mean(averages, axis=0)).mean(1))
    return np.array(rows)


def summary(values: Array) -> tuple[Array, Array]:
    """Mean over the repetitions, and half the width of its 95 % interval by Student's t; NaN for one repetition."""
    from scipy.stats import t as student

    count = values.shape[0]
    if count == 1:
        return values[0], np.full(values.shape[1:], np.nan)
    return values.mean(0), student.ppf(0.975, count - 1) * values.std(0, ddof=1) / np.sqrt(count)


def comparisons(layouts: Sequence[Layout], values: Sequence[Array]) -> list[dict[str, Any]]:
    """Each layout's φ̂ at one place minus that of the one before it, repetition by repetition: starts are shared.

    ``holds`` says whether the difference is negative as the theory has it, and ``clear`` whether its interval is.
    """
    found = []
    for (first, second), (few, many) in zip(pairwise(layouts), pairwise(values), strict=True):
        mean, half = summary(many - few)
        found.append(
            {
                "from": [first.servers, first.workers],
                "to": [second.servers, second.workers],
                "difference": float(mean),
                "half_width": float(half),
                "holds": bool(mean < 0),
                "clear": bool(mean + half < 0),
            }
        )
    return found


def speedup(iterations: Array, one: Array, many: Array) -> float | None:
    """L̄ in which the first layout gets to its final φ̂, over that in which another does; None if it never does."""
    if np.array_equal(many, one):
        return 1.0
    below = np.flatnonzero(many <= one[-1])
    if not below.size:
        return None
    k = int(below[0])
    if k == 0:
        return float(iterations[-1] / iterations[0])
    share = (many[k - 1] - one[-1]) / (many[k - 1] - many[k])
    return float(iterations[-1] / (iterations[k - 1] + share * (iterations[k] - iterations[k - 1])))
