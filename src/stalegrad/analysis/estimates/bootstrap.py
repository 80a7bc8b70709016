"""How sure a measured speedup is: a bootstrap over the repetitions."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from stalegrad._internal.errors import ArgumentError
from stalegrad._internal.types import Array
from stalegrad._internal.validation import finite_array, one_of, real_number, whole_number
from stalegrad.analysis.estimates.speedups import Speedup, checked_axis, common_levels, crossings, envelope, speedup

_FLOAT64 = np.dtype(np.float64)
_BLOCK = 64  # resampled curves at a time: bounds the memory


@dataclass(frozen=True, eq=False)
class SpeedupInterval:
    """A speedup and its confidence interval.

    Args:
        estimate: the speedup of the repetitions as they are.
        low: lower end of the interval.
        high: upper end of the interval.
        confidence: its level.
        resampled: the summary of every resample; NaN where its curves did not reach the levels.
    """

    estimate: Speedup
    low: float
    high: float
    confidence: float
    resampled: Array

    def __float__(self) -> float:
        return float(self.estimate)


def speedup_interval(
    x_single: npt.ArrayLike,
    estimates_single: npt.ArrayLike,
    x_workers: npt.ArrayLike,
    estimates_workers: npt.ArrayLike,
    *,
    seed: int,
    criterion: str = "variance",
    truth: float | None = None,
    levels: npt.ArrayLike | None = None,
    confidence: float = 0.95,
    resamples: int = 1000,
    paired: bool = False,
) -> SpeedupInterval:
    """The speedup at equal precision with a percentile bootstrap interval: repetitions are drawn anew with replacement.

    A resample whose curves do not reach the levels is not left out: it counts as 0 for the lower end and as ∞ for the
    upper one. So an interval that is (0, ∞) says that the levels are too close to the ends of the curves.

    Args:
        x_single: iterations, or seconds, of the single worker, (L₁,): positive and increasing.
        estimates_single: φ̂ at each x in each repetition, (R₁, L₁).
        x_workers: average iterations per worker, or seconds, of the W workers, (L_W,).
        estimates_workers: their φ̂, (R_W, L_W).
        seed: of the resampling; the same seed gives the same interval.
        criterion: "variance", or "mse", which needs ``truth``.
        truth: φ̄.
        levels: of the criterion; by default every resample finds its own, as
            :func:`~stalegrad.analysis.estimates.speedup` does.
        confidence: between 0 and 1.
        resamples: number of bootstrap samples.
        paired: repetition r of both shares its noise, as runs with one seed do: then whole pairs are drawn anew. What
            the two have in common cancels, and the interval is the narrower the more that is.

    >>> x, rng = np.arange(1, 201), np.random.Generator(np.random.Philox(3))
    >>> one = np.cumsum(rng.normal(size=(400, 200)), axis=1) / x  # averages of 1 draw an iteration, and of 4
    >>> four = np.cumsum(rng.normal(size=(400, 200)), axis=1) / x / 2
    >>> result = speedup_interval(x, one, x, four, seed=0, resamples=200)
    >>> result.low < 4 < result.high
    True
    """
    points = checked_axis("x_single", x_single), checked_axis("x_workers", x_workers)
    squares = one_of("criterion", criterion, ("variance", "mse")) == "mse"
    if squares and truth is None:
        raise ArgumentError("truth", truth, "is missing", "The MSE needs the true φ̄; or take criterion='variance'.")
    centre = real_number("truth", truth) if squares else None
    level = real_number("confidence", confidence, above=0)
    if level >= 1:
        raise ArgumentError("confidence", confidence, "is not a probability", "Give a number between 0 and 1.")
    count = whole_number("resamples", resamples, least=100)
    one = _repetitions("estimates_single", estimates_single, points[0].size, centre)
    many = _repetitions("estimates_workers", estimates_workers, points[1].size, centre)
    if paired and one.shape[0] != many.shape[0]:
        given = (one.shape[0], many.shape[0])
        raise ArgumentError("paired", paired, f"does not go with {given} repetitions", "Give as many of both.")
    whole = speedup(points[0], _loss(one, None, squares), points[1], _loss(many, None, squares), levels)

    seeds = np.random.SeedSequence(whole_number("seed", seed)).spawn(2)
    if paired:
        seeds = seeds[:1] * 2  # the same repetitions are drawn on both sides
    streams = [np.random.Generator(np.random.Philox(child)) for child in seeds]
    fixed = None if levels is None else whole.levels
    pairs = zip(
        *(_resampled(error, count, squares, rng) for error, rng in zip((one, many), streams, strict=True)), strict=True
    )
    summaries = np.array([_summary(points, pair, fixed) for pair in pairs])
    tail = (1 - level) / 2
    low = np.quantile(np.nan_to_num(summaries, nan=0.0), tail, method="lower")
    high = np.quantile(np.nan_to_num(summaries, nan=np.inf, posinf=np.inf), 1 - tail, method="higher")
    return SpeedupInterval(whole, float(low), float(high), level, summaries)


def _repetitions(name: str, estimates: npt.ArrayLike, length: int, centre: float | None) -> Array:
    """(R, L), measured from the truth, or from its mean over repetitions."""
    array = finite_array(name, estimates, _FLOAT64, ndim=2)
    if array.shape[0] < 3 or array.shape[1] != length:
        problem = f"has shape {array.shape}"
        raise ArgumentError(name, estimates, problem, f"Give 3 repetitions or more of {length} points: (R, {length}).")
    return np.asarray(array - (array.mean(0) if centre is None else centre))


def _loss(error: Array, counts: Array | None, squares: bool) -> Array:
    """MSE, or unbiased variance, of the repetitions taken ``counts`` times, (B, R) → (B, L); None is once each."""
    repetitions = error.shape[0]
    if counts is None:
        mean, second, correction = error.mean(0), (error**2).mean(0), repetitions / (repetitions - 1)
    else:
        # A resample's variance is short of the sample's by another factor (R − 1)/R on average.
        mean, second = counts @ error / repetitions, counts @ error**2 / repetitions
        correction = (repetitions / (repetitions - 1)) ** 2
    return np.asarray(second if squares else np.maximum(second - mean**2, 0) * correction)


def _resampled(error: Array, count: int, squares: bool, rng: np.random.Generator) -> Iterator[Array]:
    """The loss curve of one resample after the other."""
    repetitions = error.shape[0]
    for start in range(0, count, _BLOCK):
        size = min(_BLOCK, count - start)
        counts = rng.multinomial(repetitions, np.full(repetitions, 1 / repetitions), size=size)
        yield from _loss(error, counts.astype(np.float64), squares)


def _summary(points: tuple[Array, Array], losses: tuple[Array, Array], levels: Array | None) -> float:
    first, second = envelope(losses[0]), envelope(losses[1])
    if min(first[-1], second[-1]) <= 0:
        return np.nan
    chosen = common_levels(first, second) if levels is None else levels
    if chosen is None:
        return np.nan
    ratios = crossings(chosen, points[0], first) / crossings(chosen, points[1], second)
    return float(np.exp(np.log(ratios).mean()))
