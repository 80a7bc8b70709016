"""Mode and curvature where a full Hessian is out of reach: a diagonal, and the directions that stand out from it."""

import numpy as np

from stalegrad._internal.types import Array
from stalegrad.potentials import Potential
from stalegrad.potentials.coordinates import Coordinates
from stalegrad.potentials.mode import find_mode
from stalegrad.potentials.wrappers.whitened import InCoordinates
from stalegrad.runs.warmup.mode import Mode

_PASSES = 150  # on a part of the data
_PROBES = 48  # random vectors of the diagonal
_DIRECTIONS = 24  # of Lanczos' method
_LEAST = 0.2  # of the median: no diagonal entry is taken to be smaller
_OUTSTANDING = 2.0  # a direction whose curvature differs from 1 by less than this factor is left to the diagonal
_CLOSE = 0.1  # of √n standard deviations, that a mode may be off


def wide_mode(potential: Potential, start: Array, *, low_rank: bool, seed: int) -> Mode:
    """L-BFGS, the diagonal of the Hessian by Hutchinson's method, and its outstanding directions by Lanczos'.

    With random signs v the mean of v ∘ ∇²U v is the diagonal of ∇²U. In the coordinates that it gives, Lanczos' method
    finds the ends of the spectrum: (150 + 2 · 48 + 2 · 24) gradients of the potential in all, whatever n is.

    Args:
        potential: U, whose full gradients are used.
        start: θ_0.
        low_rank: whether to look for directions that stand out.
        seed: of the random signs.
    """
    generator = np.random.Generator(np.random.Philox(key=seed))
    centre = np.asarray(find_mode(potential, start, passes=_PASSES, progress=False), potential.dtype)
    size = potential.size
    step = (1e-4 if potential.dtype == np.float64 else 1e-2) * max(float(np.abs(centre).mean()), 1e-3)
    total = np.zeros(size)
    for _ in range(_PROBES):
        signs = generator.choice([-1.0, 1.0], size)
        total += signs * _product(potential, np.asarray(centre, np.float64), signs, step)
    diagonal = np.abs(total / _PROBES)
    positive = diagonal[diagonal > 0]
    floor = _LEAST * float(np.median(positive)) if positive.size else 1.0
    scale = 1 / np.sqrt(np.maximum(diagonal, floor))
    coordinates = Coordinates(centre, scale=scale.astype(potential.dtype))
    if low_rank:
        coordinates = _with_directions(potential, coordinates, generator)
    slope = InCoordinates(potential, coordinates).full_gradient(np.zeros(size, potential.dtype))
    left = float(np.linalg.norm(slope))
    return Mode(coordinates, left < _CLOSE * np.sqrt(size), left)


def _product(potential: Potential, theta: Array, vector: Array, step: float) -> Array:
    """∇²U · vector, by a central difference."""
    ahead, behind = (potential.full_gradient(theta + sign * step * vector) for sign in (1, -1))
    change = (ahead.astype(np.float64) - behind) / (2 * step)
    return np.where(np.isfinite(change), change, 0.0)


def _with_directions(potential: Potential, coordinates: Coordinates, generator: np.random.Generator) -> Coordinates:
    """The same, stretched along directions whose curvature is not about 1."""
    target = InCoordinates(potential, coordinates)
    origin = np.zeros(potential.size)
    count = min(_DIRECTIONS, potential.size)
    vectors = np.empty((count, potential.size))
    products = np.empty_like(vectors)
    direction = generator.standard_normal(potential.size)
    for k in range(count):
        for _ in range(2):  # twice is enough to be orthogonal
            direction -= vectors[:k].T @ (vectors[:k] @ direction)
        vectors[k] = direction / np.linalg.norm(direction)
        direction = products[k] = _product(target, origin, vectors[k], 0.1)
    values, inner = np.linalg.eigh((vectors @ products.T + products @ vectors.T) / 2)
    chosen = (values > _OUTSTANDING) | ((values > 1e-4) & (values < 1 / _OUTSTANDING))
    basis = inner.T[chosen] @ vectors
    dtype = potential.dtype
    stretch = (1 / np.sqrt(values[chosen])).astype(dtype)
    return Coordinates(coordinates.centre, scale=coordinates.scale, basis=basis.astype(dtype), stretch=stretch)
