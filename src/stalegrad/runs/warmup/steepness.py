"""How much U curves at some points: what limits the steps of a chain that passes there."""

from typing import NamedTuple

import numpy as np

from stalegrad._internal.types import Array
from stalegrad.potentials import Potential

_ITERATIONS = 6


class Steepness(NamedTuple):
    """Curvatures at some points."""

    points: Array
    """The largest at each, (point,)."""

    @property
    def largest(self) -> float:
        """Of all points."""
        return float(self.points.max())

    @property
    def typical(self) -> float:
        """That nine tenths of the points do not exceed."""
        return float(np.quantile(self.points, 0.9))


def steepness(potential: Potential, points: Array, seed: int) -> Steepness:
    """The largest curvature at each of some points, by power iteration on differences of gradients on the same data.

    Args:
        potential: V, in coordinates in which its curvatures are about 1.
        points: (point, n).
        seed: of the data and of the directions to begin with.
    """
    generator = np.random.Generator(np.random.Philox(key=seed))
    step = 1e-3 if potential.dtype == np.float64 else 3e-2
    values = np.empty(len(points))
    for k, point in enumerate(points):
        indices = potential.minibatches.draw_outside_run(seed % (1 << 63), k)
        direction = generator.standard_normal(potential.size)
        value = 0.0
        for _ in range(_ITERATIONS):
            direction /= np.linalg.norm(direction)
            moved = [
                potential.gradient((point + sign * step * direction).astype(potential.dtype), indices)
                for sign in (1, -1)
            ]
            change = (moved[0].astype(np.float64) - moved[1]) / (2 * step)
            value = float(np.linalg.norm(change))
            if not np.isfinite(value) or value == 0:
                break
            direction = change
        values[k] = value if np.isfinite(value) else 1e12
    return Steepness(np.maximum(values, 1e-12))
