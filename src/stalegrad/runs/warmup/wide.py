"""Mode and curvature where a full Hessian is out of reach: a diagonal, and the directions that stand out from it."""

from dataclasses import replace

import numpy as np

from stalegrad._internal.types import Array
from stalegrad.potentials import Potential
from stalegrad.potentials.coordinates import Coordinates
from stalegrad.potentials.mode import find_mode
from stalegrad.potentials.wrappers.whitened import InCoordinates
from stalegrad.runs.warmup.lanczos import Spectrum, lanczos
from stalegrad.runs.warmup.mode import Mode

_PASSES, _LAST_PASSES = 150, 60  # on a part of the data; the second in coordinates in which no more are needed
_FIRST_PROBES, _PROBES = (12, 12), (24, 24)  # random vectors: of the first diagonal, of the one that counts
_DIRECTIONS = 160  # of Lanczos' method at most
_LAST_DIRECTIONS = 64  # of the last look
_LEAST = 1e-8  # of the median: no diagonal entry is taken to be smaller
_OUTSTANDING = 2.0  # a direction whose curvature differs from 1 by less than this factor is left to the diagonal
_STEP = 0.1  # of a standard deviation: of differences of gradients
_FLATTEST = 1e-4  # of the diagonal: what curves less is taken for rounding
_CLOSE = 0.1  # of √n standard deviations, that a mode may be off


def wide_mode(potential: Potential, start: Array, *, low_rank: bool, seed: int) -> Mode:
    """L-BFGS, and coordinates in which the Hessian at the mode is about the identity.

    With random signs v the mean of v ∘ ∇²U v is the diagonal of ∇²U (Hutchinson 1989). Its error is what stands beside
    the diagonal, which a few directions of large curvature make far larger than most of the diagonal itself. So it is
    done twice: the first diagonal gives units in which Lanczos' method finds these directions, ∇²U ≈ VᵀΛV + R, and
    then comes the diagonal D of what is left of it, R (Meyer et al. 2021). The coordinates are those of D + VᵀΛV. A
    last look there finds what it has missed: 150 + 2 (24 + 160 + 48 + 64) + 60 gradients at most, whatever n is.

    Args:
        potential: U, whose full gradients are used.
        start: θ_0.
        low_rank: whether to look for directions that stand out.
        seed: of the random signs.
    """
    generator = np.random.Generator(np.random.Philox(key=seed))
    centre = np.asarray(find_mode(potential, start, passes=_PASSES, progress=False), potential.dtype)
    first = (1e-3 if potential.dtype == np.float64 else 0.1) * max(float(np.abs(centre).mean()), 1e-3)
    coordinates = Coordinates(centre, scale=np.full(potential.size, first, potential.dtype))
    for count in _FIRST_PROBES:
        coordinates = _rescaled(coordinates, _units(potential, coordinates, None, count, generator))
    if low_rank:
        coordinates = _with_directions(potential, coordinates, generator)
    target, origin = InCoordinates(potential, coordinates), np.zeros(potential.size, potential.dtype)
    rest = find_mode(target, origin, passes=_LAST_PASSES, tolerance=_CLOSE, progress=False)
    coordinates = replace(coordinates, centre=target.original(rest))
    left = float(np.linalg.norm(InCoordinates(potential, coordinates).full_gradient(origin)))
    return Mode(coordinates, left < _CLOSE * np.sqrt(potential.size), left)


def _hessian(potential: Potential, coordinates: Coordinates, vector: Array) -> Array:
    """∇²V · vector at z = 0, by a central difference."""
    target = InCoordinates(potential, coordinates)
    ahead, behind = (target.full_gradient(sign * _STEP * vector) for sign in (1, -1))
    change = (ahead.astype(np.float64) - behind) / (2 * _STEP)
    return np.where(np.isfinite(change), change, 0.0)


def _units(
    potential: Potential, coordinates: Coordinates, known: Array | None, count: int, generator: np.random.Generator
) -> Array:
    """1/√diagonal of ∇²V − KᵀK at z = 0, by Hutchinson's method; where it is not known, 1/√ of what it may well be."""
    terms = np.empty((count, potential.size))
    for term in terms:
        signs = generator.choice([-1.0, 1.0], potential.size)
        term[:] = signs * _hessian(potential, coordinates, signs)
        if known is not None:
            term -= signs * ((known @ signs) @ known)
    mean, error = terms.mean(axis=0), terms.std(axis=0) / np.sqrt(count)
    diagonal = np.hypot(np.maximum(mean, 0.0), error)
    positive = diagonal[diagonal > 0]
    usual = float(np.median(positive)) if positive.size else 1.0
    return np.asarray(1 / np.sqrt(np.maximum(diagonal, _LEAST * usual)))


def _with_directions(potential: Potential, coordinates: Coordinates, generator: np.random.Generator) -> Coordinates:
    """Coordinates of the diagonal and of the directions whose curvature is not about 1."""
    size, dtype = potential.size, potential.dtype
    first = lanczos(lambda v: _hessian(potential, coordinates, v), size, _DIRECTIONS, generator, until=_enough)
    large = first.values > _OUTSTANDING
    known = np.sqrt(first.values[large])[:, None] * first.vectors[large]
    for count in _PROBES:
        left = _units(potential, coordinates, known, count, generator)
        coordinates, known = _rescaled(coordinates, left), known * left
    _, roots, rows = np.linalg.svd(known, full_matrices=False)
    stretch = 1 / np.sqrt(1 + roots**2)
    found = replace(coordinates, basis=rows.astype(dtype), stretch=stretch.astype(dtype))
    return looked_over(potential, found, generator)


def looked_over(potential: Potential, coordinates: Coordinates, generator: np.random.Generator) -> Coordinates:
    """With the scale 1 also along directions that still stand out at the centre: 2 · 64 gradients at most.

    Args:
        potential: U, whose full gradients are used.
        coordinates: of low rank.
        generator: of the direction to begin with.
    """
    seen = lanczos(
        lambda v: _hessian(potential, coordinates, v), potential.size, _LAST_DIRECTIONS, generator, until=_enough
    )
    return _stretched(coordinates, seen)


def _rescaled(coordinates: Coordinates, units: Array) -> Coordinates:
    """Diagonal coordinates in other units."""
    assert coordinates.scale is not None, "of this form"
    return replace(coordinates, scale=(coordinates.scale * units).astype(coordinates.scale.dtype))


def _enough(seen: Spectrum) -> bool:
    """Whether everything that stands out has been found."""
    return bool((seen.certain | ~_outstanding(seen.values)).all())


def _outstanding(values: Array) -> Array:
    return np.asarray((values > _OUTSTANDING) | ((values > _FLATTEST) & (values < 1 / _OUTSTANDING)))


def _stretched(coordinates: Coordinates, seen: Spectrum) -> Coordinates:
    """With the scale 1 also along the directions that still stand out, as far as they are certain.

    For S = D(I + V(s − 1)Vᵀ) and curvatures λ along directions W of z, the covariance is S(I + W(1/λ − 1)Wᵀ)Sᵀ, which
    is the identity but in the span of V and W, where it has a root of the same form.
    """
    chosen = _outstanding(seen.values) & seen.certain
    if not chosen.any():
        return coordinates
    assert coordinates.basis is not None, "of this form"
    assert coordinates.stretch is not None, "of this form"
    old, stretch = coordinates.basis.astype(np.float64), coordinates.stretch.astype(np.float64)
    new, values = seen.vectors[chosen], seen.values[chosen]
    span = np.linalg.qr(np.concatenate([old, new]).T)[0].T
    inside, along = span @ old.T, span @ new.T
    root = np.eye(len(span)) + inside * (stretch - 1) @ inside.T
    middle = np.eye(len(span)) + along * (1 / values - 1) @ along.T
    variances, rotation = np.linalg.eigh(root @ middle @ root)
    dtype = coordinates.centre.dtype
    return Coordinates(
        coordinates.centre, scale=coordinates.scale, basis=(rotation.T @ span).astype(dtype),
        stretch=np.sqrt(np.maximum(variances, 1e-12)).astype(dtype),
    )  # fmt: skip
