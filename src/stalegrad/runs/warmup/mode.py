"""Where the posterior is highest, from anywhere and in any units; or that there is no such place."""

from typing import NamedTuple

import numpy as np

from stalegrad._internal.errors import ArgumentError
from stalegrad._internal.types import Array
from stalegrad.potentials import Potential
from stalegrad.potentials.coordinates import Coordinates
from stalegrad.potentials.mode import find_mode
from stalegrad.potentials.wrappers.whitened import InCoordinates
from stalegrad.runs.warmup.curvature import Bowl, bowl, whitening
from stalegrad.runs.warmup.descent import downhill, finite_start
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

    Where that ends nowhere, it begins anew where the signs of gradients lead (:func:`downhill`), and at last at the
    model's own start.

    Args:
        potential: U, whose full gradients are used.
        start: θ_0.
    """
    first = finite_start(potential, start)
    mode = _from(potential, first)
    for begin in (first, potential.initial()):
        if mode is not None and mode.found:
            break
        other = _from(potential, downhill(potential, begin))
        if other is not None and (mode is None or other.found or other.distance < mode.distance):
            mode = other
    if mode is None:
        unit = np.ones(potential.size, potential.dtype)
        return Mode(Coordinates(first.astype(potential.dtype), scale=unit), False, np.inf)
    return mode


def _from(potential: Potential, start: Array) -> Mode | None:
    dtype = potential.dtype
    scale = units(potential, start).astype(dtype)
    rounds = _ROUNDS if potential.size <= _DEAR else _FEW_ROUNDS
    return refined(potential, Coordinates(np.asarray(start, dtype), scale=scale), rounds=rounds)


def refined(potential: Potential, coordinates: Coordinates, *, rounds: int) -> Mode | None:
    """The search from coordinates whose units are about right, at their centre; None if it overflows at once.

    A point without a slope from which U curves downwards in some direction is a saddle: it is left along the direction
    in which U falls most, by as much as is one unit there.

    Args:
        potential: U, whose full gradients are used.
        coordinates: where to begin.
        rounds: at most so many Hessians, of 2n full gradients each.
    """
    mode = None
    for number in range(rounds):
        target = InCoordinates(potential, coordinates)
        origin = np.zeros(potential.size)
        with np.errstate(all="ignore"):  # what overflows is not taken
            z = find_mode(target, origin, passes=_PASSES[min(number, 1)], tolerance=_CLOSE / 100, progress=False)
            centre = target.original(z.astype(potential.dtype))
            if not np.isfinite(centre).all():
                break
            there = Coordinates(centre, factor=coordinates.factor, scale=coordinates.scale)
            seen = bowl(potential, there)
            try:
                whitened = whitening(there, seen)
            except ArgumentError:  # scales beyond what the model's type can hold
                break
            slope = InCoordinates(potential, whitened).full_gradient(origin)
            left = float(np.square(slope).sum()) / 2
        if not np.isfinite(left):
            break
        close = left < _CLOSE * max(1.0, potential.size / 10)
        mode = Mode(whitened, seen.upward and close, float(np.sqrt(2 * left)))
        if mode.found:
            break
        beside = whitened if seen.upward or not close else _beside(there, whitened, seen)
        if beside is None:
            break
        coordinates = beside
    return mode


def _beside(saddle: Coordinates, whitened: Coordinates, seen: Bowl) -> Coordinates | None:
    """Coordinates around a point off the saddle, along the direction in which U falls most; None if there is none."""
    with np.errstate(all="ignore"):
        step = saddle.matrix() @ seen.vectors[:, 0] / np.sqrt(-seen.values[0])
        centre = (saddle.centre + step).astype(saddle.centre.dtype)
    if not np.isfinite(centre).all():
        return None
    return Coordinates(centre, factor=whitened.factor, scale=whitened.scale)
