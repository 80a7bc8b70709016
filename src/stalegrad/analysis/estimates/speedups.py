"""Speedup at equal precision: how much sooner W workers are as precise as one.

    iteration speedup = (iterations of a single worker) / (average iterations per worker)     at equal precision
    time speedup      = (seconds of a single worker)    / (seconds of W workers)              at equal precision

Both are one calculation, on curves of a loss (variance, MSE, anything that should fall) against x, where x is the
iterations per worker, or the seconds.

A curve reaches a level at the x from which on it **stays** at or below it. That reading ignores the transient of chains
that all start from one state, whose variance begins at 0, rises and then falls; and it does not take the luckiest dip
of a noisy curve for its precision.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from stalegrad._internal.errors import ArgumentError
from stalegrad._internal.types import Array
from stalegrad._internal.validation import finite_array

_FLOAT64 = np.dtype(np.float64)
_LEVELS = 20


@dataclass(frozen=True, eq=False)
class Speedup:
    """x of a single worker over x of W workers, at levels of equal precision.

    Args:
        levels: of the loss.
        ratios: the speedup at each level.
        x_single: where the single worker reaches each level.
        x_workers: where the W workers do.
    """

    levels: Array
    ratios: Array
    x_single: Array
    x_workers: Array

    @property
    def summary(self) -> float:
        """The geometric mean of the ratios."""
        return float(np.exp(np.log(self.ratios).mean()))

    def __float__(self) -> float:
        return self.summary


def iterations_to(level: npt.ArrayLike, x: npt.ArrayLike, curve: npt.ArrayLike) -> Array:
    """The x from which on ``curve`` stays at or below ``level``.

    Between the points, log x is interpolated linearly in the logarithm of the envelope max_{x' ≥ x} curve(x').

    Args:
        level: one loss or several, > 0.
        x: iterations per worker, or seconds: positive and increasing.
        curve: the loss at each x, not negative, and positive at the end.

    Raises:
        ArgumentError: if the curve ends above a level, or lies below it everywhere.

    >>> x = np.arange(1, 101)
    >>> float(iterations_to(0.25, x, 10 / x))
    40.0
    """
    points, loss = checked_curve("x", x, "curve", curve)
    wanted = _levels("level", level)
    return _reached("level", wanted, points, envelope(loss), "curve")


def speedup(
    x_single: npt.ArrayLike,
    loss_single: npt.ArrayLike,
    x_workers: npt.ArrayLike,
    loss_workers: npt.ArrayLike,
    levels: npt.ArrayLike | None = None,
) -> Speedup:
    """The speedup of W workers over a single one, at equal precision.

    Args:
        x_single: iterations, or seconds, of the single worker: positive and increasing.
        loss_single: its variance, MSE or other loss at each x.
        x_workers: average iterations per worker, or seconds, of the W workers.
        loss_workers: their loss at each x.
        levels: of the loss, at which to compare. By default 20 levels, evenly on the log scale, in the lower half of
            the range that both curves cover, which is the half away from the transient.

    Raises:
        ArgumentError: if a curve does not reach a level, or the two curves have no level in common.

    >>> x = np.arange(1, 1001)
    >>> result = speedup(x, 1 / x, x, 1 / (4 * x))
    >>> float(result)
    4.0
    """
    one, first = checked_curve("x_single", x_single, "loss_single", loss_single)
    many, second = checked_curve("x_workers", x_workers, "loss_workers", loss_workers)
    first, second = envelope(first), envelope(second)
    if levels is None:
        chosen = common_levels(first, second)
        if chosen is None:
            given = (f"{first[-1]:g} to {first[0]:g}", f"{second[-1]:g} to {second[0]:g}")
            remedy = "Run the less precise of the two for longer, or keep more of the start of the other."
            raise ArgumentError("loss_single, loss_workers", given, "the curves have no level in common", remedy)
    else:
        chosen = _levels("levels", levels)
    x_one = _reached("levels", chosen, one, first, "loss_single")
    x_many = _reached("levels", chosen, many, second, "loss_workers")
    return Speedup(chosen, x_one / x_many, x_one, x_many)


def envelope(loss: Array) -> Array:
    """max_{x' ≥ x} loss(x'), along the last axis: the least falling curve that is nowhere below ``loss``."""
    return np.asarray(np.maximum.accumulate(loss[..., ::-1], axis=-1)[..., ::-1])


def crossings(levels: Array, x: Array, falling: Array) -> Array:
    """Where an envelope has each level; NaN where it ends above the level or begins below it."""
    height, place = np.log(falling[::-1]), np.log(x[::-1])
    return np.asarray(np.exp(np.interp(np.log(levels), height, place, left=np.nan, right=np.nan)))


def common_levels(first: Array, second: Array) -> Array | None:
    """Levels in the lower half, on the log scale, of what both envelopes cover; None where they have nothing."""
    low, high = max(first[-1], second[-1]), min(first[0], second[0])
    return np.geomspace(low, np.sqrt(low) * np.sqrt(high), _LEVELS) if low < high else None


def checked_curve(x_name: str, x: npt.ArrayLike, name: str, loss: npt.ArrayLike) -> tuple[Array, Array]:
    """The axis and the loss as vectors of one length, fit for logarithms."""
    points = checked_axis(x_name, x)
    curve = finite_array(name, loss, _FLOAT64, ndim=1)
    if curve.size != points.size:
        problem = f"has {curve.size} entries where {x_name} has {points.size}"
        raise ArgumentError(name, loss, problem, "Give one loss for every x.")
    if np.any(curve < 0) or curve[-1] <= 0:
        raise ArgumentError(name, loss, "is negative somewhere, or 0 at the end", "Give a loss that is positive.")
    return points, curve


def checked_axis(name: str, x: npt.ArrayLike) -> Array:
    """Refuse anything but positive numbers that increase."""
    points = finite_array(name, x, _FLOAT64, ndim=1)
    if points.size < 2 or points[0] <= 0 or np.any(np.diff(points) <= 0):
        remedy = "Give two points or more, positive and increasing (leave out iteration 0, and time 0)."
        raise ArgumentError(name, x, "is not an axis to read a speedup on", remedy)
    return points


def _levels(name: str, value: npt.ArrayLike) -> Array:
    levels = finite_array(name, value, _FLOAT64)
    if levels.size == 0 or np.any(levels <= 0):
        raise ArgumentError(name, value, "is empty, or not positive", "Give one level or more, each > 0.")
    return levels


def _reached(name: str, levels: Array, x: Array, falling: Array, curve: str) -> Array:
    if levels.min() < falling[-1]:
        problem = f"{curve} does not reach {levels.min():g}: it ends at {falling[-1]:g}, at x = {x[-1]:g}"
        raise ArgumentError(name, levels, problem, f"Run longer, or give levels ≥ {falling[-1]:g}.")
    if levels.max() > falling[0]:
        problem = f"{curve} is below {levels.max():g} from its first point, x = {x[0]:g}, so where it passed is unknown"
        raise ArgumentError(name, levels, problem, f"Record from an earlier x, or give levels ≤ {falling[0]:g}.")
    return crossings(levels, x, falling)
