"""Where the posterior is highest, from anywhere and in any units; or that there is no such place."""

from typing import NamedTuple

import numpy as np

from stalegrad._internal.types import Array
from stalegrad.potentials import Potential
from stalegrad.potentials.coordinates import Coordinates
from stalegrad.potentials.mode import find_mode
from stalegrad.potentials.wrappers.whitened import InCoordinates
from stalegrad.runs.warmup.curvature import bowl, whitening
from stalegrad.runs.warmup.scales import units

_ROUNDS, _FEW_ROUNDS = 8, 3  # the second where a Hessian is dear
_DEAR = 200  # parameters
_PASSES = (200, 60)  # full gradients of the first round, and of each of the others
_CLOSE = 1e-3  # ½ |∇V|² in whitened coordinates, about U(θ) − U(θ*), at which a mode counts as found


class Mode(NamedTuple):
    """Where the search has ended."""

    coordinates: Coordinates
    """Around that point, with the Hessian there the identity."""
    found: bool
    """Whether it is a minimum of U: no slope is left, and U curves upwards."""
    distance: float
    """√(2(U − U*)) as the slope there says, in standard deviations."""


def dense_mode(potential: Potential, start: Array) -> Mode:
    """L-BFGS in coordinates that are whitened again and again, until no slope is left.

    Args:
        potential: U, whose full gradients are used.
        start: θ_0.
    """
    dtype = potential.dtype
    coordinates = Coordinates(np.asarray(start, dtype), scale=units(potential, start).astype(dtype))
    return refined(potential, coordinates, rounds=_ROUNDS if potential.size <= _DEAR else _FEW_ROUNDS)


def refined(potential: Potential, coordinates: Coordinates, *, rounds: int) -> Mode:
    """The search from coordinates whose units are about right, at their centre.

    Args:
        potential: U, whose full gradients are used.
        coordinates: where to begin.
        rounds: at most so many Hessians, of 2n full gradients each.
    """
    left, found = np.inf, False
    for number in range(rounds):
        target = InCoordinates(potential, coordinates)
        origin = np.zeros(potential.size)
        z = find_mode(target, origin, passes=_PASSES[min(number, 1)], tolerance=_CLOSE / 100, progress=False)
        centre = target.original(z.astype(potential.dtype))
        if not np.isfinite(centre).all():
            break
        there = Coordinates(centre, factor=coordinates.factor, scale=coordinates.scale)
        seen = bowl(potential, there)
        coordinates = whitening(there, seen)
        slope = InCoordinates(potential, coordinates).full_gradient(origin)
        left = float(np.square(slope).sum()) / 2
        found = seen.upward and left < _CLOSE * max(1.0, potential.size / 10)
        if found:
            break
    return Mode(coordinates, found, float(np.sqrt(2 * left)))
