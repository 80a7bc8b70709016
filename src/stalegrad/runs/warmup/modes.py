"""Whether there are other modes: searches from far around, and how high what they find lies."""

from typing import NamedTuple

import numpy as np

from stalegrad._internal.types import Array
from stalegrad.potentials import Potential
from stalegrad.potentials.coordinates import Coordinates
from stalegrad.potentials.mode import find_mode
from stalegrad.potentials.wrappers.whitened import InCoordinates
from stalegrad.runs.warmup.mode import Mode, dense_mode

_SPREADS = (4.0, 12.0, 12.0, 40.0, 40.0)  # of random starts, in standard deviations, each with its mirror image
_PASSES = 80
_APART = 1.5  # times as far from the mean as the farthest draw of the pilot
_RESTING = 0.05  # of n: |∇V|² at a point that counts as a mode
_HEIGHT = 6.0  # a mode so much lower in log density, e⁻⁶, does not matter
_PANELS, _NODES = 24, 8  # of the integral along the way there


class OtherMode(NamedTuple):
    """A place where the posterior is about as high, away from where the pilot chains have been."""

    distance: float
    """From their mean, in standard deviations."""
    height: float
    """U there less U here."""
    place: Array
    """θ there."""
    here: Array
    """θ of the mode where the pilot chains have been."""

    def heavier(self, potential: Potential) -> bool:
        """Whether next to nothing of the posterior is here, and the most of it there, by Laplace's approximation.

        The mass of a mode is about exp(−U) det S for coordinates θ = c + S z in which its Hessian is the identity. A
        place that is higher and narrower need not be heavier.

        Args:
            potential: U, whose full gradients are used.
        """
        if self.height > -_HEIGHT:
            return False
        there, here = (dense_mode(potential, place) for place in (self.place, self.here))
        wider = _log_volume(there) - _log_volume(here) if here.found else 0.0
        return there.found and wider - self.height > _HEIGHT


def other_mode(potential: Potential, coordinates: Coordinates, draws: Array, seed: int) -> OtherMode | None:
    """The most probable of the modes found from a dozen starts, or None if all lead to where the pilot chains were.

    Two of them are what symmetries of models make of the mean: every vector of parameters in reversed order, as where
    the components of a mixture have no order, and θ with other signs, as of factors and networks. The others are
    random. Values of U are not asked for: the difference is the integral of the slope along the straight way.

    U may be that of a part of the data, whose mode is some standard deviations away from that of all of them, where the
    pilot chains were. So what counts as the same mode is what is near to where a search from their last draw ends.

    Args:
        potential: U, whose full gradients are used.
        coordinates: in which the posterior has about unit scale.
        draws: of the pilot chains, (chain, draw, n), in z.
        seed: of the starts.
    """
    target = InCoordinates(potential, coordinates)
    size = potential.size
    flat = draws.reshape(-1, size)
    mean = flat.mean(axis=0)
    near = _APART * float(np.linalg.norm(flat - mean, axis=1).max())
    generator = np.random.Generator(np.random.Philox(key=seed))
    found = None
    with np.errstate(all="ignore"):
        here = find_mode(target, draws[0, -1].astype(potential.dtype), passes=_PASSES, progress=False).astype(
            np.float64
        )
        random = [spread * generator.standard_normal(size) for spread in _SPREADS]
        starts = [mean + sign * far for far in random for sign in (1.0, -1.0)]
        theta = coordinates.original(mean[None].astype(potential.dtype))[0]
        starts += [coordinates.inverse(other[None])[0] for other in (_reversed(theta, potential), -theta)]
        for begin in starts:
            start = np.asarray(begin, potential.dtype)
            if not np.isfinite(target.full_gradient(start)).all():
                continue
            z = find_mode(target, start, passes=_PASSES, progress=False).astype(np.float64)
            slope = target.full_gradient(z.astype(potential.dtype)).astype(np.float64)
            distance = float(np.linalg.norm(z - mean))
            if (
                min(distance, float(np.linalg.norm(z - here))) < near
                or not float(np.square(slope).sum()) < _RESTING * size
            ):
                continue
            height = _rise(target, here, z)
            if height < _HEIGHT and (found is None or height < found.height):
                found = OtherMode(distance, height, _theta(coordinates, z), _theta(coordinates, here))
    return found


def _theta(coordinates: Coordinates, z: Array) -> Array:
    return np.asarray(coordinates.original(z[None].astype(coordinates.centre.dtype))[0], np.float64)


def _log_volume(mode: Mode) -> float:
    """log det S."""
    return float(np.linalg.slogdet(mode.coordinates.matrix())[1])


def _reversed(theta: Array, potential: Potential) -> Array:
    """θ with the entries of every vector of parameters in reversed order along its first axis."""
    parts, first = [], 0
    for shape in potential.layout.values():
        size = int(np.prod(shape))
        part = theta[first : first + size].reshape(shape)
        parts.append((part[::-1] if part.ndim else part).ravel())
        first += size
    return np.concatenate(parts)


def _rise(target: InCoordinates, begin: Array, end: Array) -> float:
    """U(end) − U(begin), by Gauss's rule on panels of the straight way between them; infinite where it overflows."""
    nodes, weights = np.polynomial.legendre.leggauss(_NODES)
    way, total = end - begin, 0.0
    for panel in range(_PANELS):
        for node, weight in zip(nodes, weights, strict=True):
            share = (panel + (node + 1) / 2) / _PANELS
            point = (begin + share * way).astype(target.dtype)
            total += weight / (2 * _PANELS) * float(target.full_gradient(point).astype(np.float64) @ way)
    return total if np.isfinite(total) else np.inf
