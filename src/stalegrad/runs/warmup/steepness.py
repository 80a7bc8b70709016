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

    @property
    def largest(self) -> float:
        """That of the steepest of all points."""
        return float(self.points.max())

    @property
    def typical(self) -> float:
        """That nine tenths of the points do not exceed."""
        return float(np.quantile(self.points, 0.9))


def steepness(gradient: Callable[[Array], Array], points: Array, dtype: np.dtype[Any], seed: int) -> Steepness:
    """The largest curvature at each of some points, by power iteration on differences of gradients.

    Args:
        gradient: ∇V, in coordinates in which curvatures are about 1; always on the same data. A part of the data makes
            the largest curvature appear larger than it is, the more so the fewer there are.
        points: (point, n).
        dtype: in which gradients are computed.
        seed: of the directions to begin with.
    """
    generator = np.random.Generator(np.random.Philox(key=seed))
    step = 1e-3 if dtype == np.float64 else 3e-2
    values = np.empty(len(points))
    for k, point in enumerate(points):
        direction: Array = np.asarray(generator.standard_normal(points.shape[1]))
        value = 0.0
        for _ in range(_ITERATIONS):
            direction = np.asarray(direction / np.linalg.norm(direction))
            ahead, behind = (gradient((point + sign * step * direction).astype(dtype)) for sign in (1, -1))
            change: Array = np.asarray((ahead.astype(np.float64) - behind) / (2 * step))
            value = float(np.linalg.norm(change))
            if not np.isfinite(value) or value == 0:
                break
            direction = change
        values[k] = value if np.isfinite(value) else 1e12
    return Steepness(np.maximum(values, 1e-12))
