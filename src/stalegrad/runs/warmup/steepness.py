"""How much U curves at some points: what limits the steps of a chain that passes there."""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from stalegrad._internal.types import Array

_ITERATIONS = 6


class Steepness(NamedTuple):
    """The curvatures that were seen at some points."""

    points: Array
    """The largest at each, (point,)."""
    average: float
    """The largest of their average, E ∇²V: what the law of θ along a direction knows of curvature. By Stein's lemma the
    force on a normal θ acts on its variance as a linear one with the average slope would."""

    @property
    def largest(self) -> float:
        """That of the steepest of all points."""
        return float(self.points.max())

    @property
    def effective(self) -> float:
        """That which steps are chosen for: of the average, or half-way to what half of the points do not exceed.

        The average is the first order of what curvature does to a chain; its change from place to place is the second.
        """
        return max(self.average, float(np.sqrt(np.median(self.points))))


def steepness(gradient: Callable[[Array], Array], points: Array, dtype: np.dtype[Any], seed: int) -> Steepness:
    """The largest curvature at each of some points, and of their average: power iteration on differences of gradients.

    Args:
        gradient: ∇V, in coordinates in which curvatures are about 1; always on the same data. A part of the data makes
            the largest curvature appear larger than it is, the more so the fewer there are.
        points: (point, n).
        dtype: in which gradients are computed.
        seed: of the directions to begin with.
    """
    generator = np.random.Generator(np.random.Philox(key=seed))
    step = 1e-3 if dtype == np.float64 else 3e-2

    def product(point: Array, direction: Array) -> Array:
        """∇²V · direction."""
        ahead, behind = (gradient((point + sign * step * direction).astype(dtype)) for sign in (1, -1))
        return np.asarray((ahead.astype(np.float64) - behind) / (2 * step))

    def largest(among: Array) -> float:
        direction: Array = np.asarray(generator.standard_normal(points.shape[1]))
        value = 0.0
        for _ in range(_ITERATIONS):
            direction = np.asarray(direction / np.linalg.norm(direction))
            direction = np.mean([product(point, direction) for point in among], axis=0)
            value = float(np.linalg.norm(direction))
            if not np.isfinite(value) or value == 0:
                break
        return max(value, 1e-12) if np.isfinite(value) else 1e12

    with np.errstate(all="ignore"):
        values = np.array([largest(point[None]) for point in points])
        return Steepness(values, largest(points) if len(points) > 1 else float(values[0]))
