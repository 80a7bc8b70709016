"""A potential in other coordinates: the constant preconditioner."""

from typing import Any, NamedTuple

import numpy as np

from stalegrad._internal.jit import compiled
from stalegrad._internal.types import Array, IntArray
from stalegrad.potentials.base import Potential
from stalegrad.potentials.compiled import gradient_of, gradient_with
from stalegrad.potentials.wrappers.control_variates import refuse_addressed


class Whitened(Potential):
    """V(z) = U(θ* + S z), whose gradient is Sᵀ ∇U(θ* + S z).

    SGLD on z is SGLD on θ with the constant preconditioner S Sᵀ: it samples the same posterior. With S = C^{−ᵀ}, where
    C Cᵀ is the Hessian of U at its minimum θ*, the curvature of V at its minimum 0 is the identity, so that every
    direction mixes at the same rate.

    Args:
        potential: U.
        centre: θ*.
        factor: C, lower triangular, such as ``np.linalg.cholesky`` gives.
    """

    def __init__(self, potential: Potential, centre: Array, factor: Array) -> None:
        refuse_addressed(potential)
        super().__init__(potential.size, potential.minibatches, potential.dtype)
        self.potential = potential
        self.fork_safe = potential.fork_safe
        self.centre = np.ascontiguousarray(centre, self.dtype)
        self.factor = np.asarray(factor, np.float64)
        upper = np.linalg.inv(self.factor).T  # S, upper triangular
        self._columns, self._rows = (np.ascontiguousarray(m, self.dtype) for m in (upper.T, upper))
        if potential.bound is not None:
            self.bound = WhitenedBound(potential.bound, self.centre, self._columns, self._rows)

    def original(self, z: Array) -> Array:
        """θ = θ* + S z of every row of ``z``."""
        theta = np.empty(z.shape, self.dtype)
        _forward(np.ascontiguousarray(z, self.dtype), self.centre, self._columns, theta)
        return theta

    def gradient(self, theta: Array, indices: IntArray) -> Array:
        """g̃ at one z on the data ``indices``."""
        out = np.empty((1, self.size), self.dtype)
        self.gradients(np.ascontiguousarray(theta, self.dtype)[None], np.asarray(indices, np.int64)[None], out)
        row: Array = out[0]
        return row

    def gradients(self, theta: Array, indices: IntArray, out: Array) -> None:
        """g̃ for R repetitions at once, each row with the bits that ``gradient`` gives."""
        inner = np.empty_like(theta)
        self.potential.gradients(self.original(theta), indices, inner)
        _backward(inner, self._rows, out)


@compiled
def _forward(z, centre, columns, out):  # type: ignore[no-untyped-def]
    """out[r] ← centre + Σ_c z[r, c] S_{·c}, where column c of S ends at entry c."""
    for r in range(z.shape[0]):
        row = out[r]
        row[:] = centre
        for c in range(z.shape[1]):
            weight, column = z[r, c], columns[c]
            for i in range(c + 1):
                row[i] += weight * column[i]


@compiled
def _backward(gradient, rows, out):  # type: ignore[no-untyped-def]
    """out[r] ← Σ_c gradient[r, c] S_{c·}, where row c of S begins at entry c."""
    for r in range(gradient.shape[0]):
        out[r, :] = 0
        for c in range(gradient.shape[1]):
            weight, row, part = gradient[r, c], rows[c, c:], out[r, c:]
            for i in range(row.shape[0]):
                part[i] += weight * row[i]


class WhitenedBound(NamedTuple):
    """What compiled callers need of a whitened model whose U is compiled too."""

    inner: Any
    centre: Any
    columns: Any
    rows: Any


@gradient_with(WhitenedBound)
def _bound_gradient(bound, theta, indices, out):  # type: ignore[no-untyped-def]
    """At z, which compiled callers of any model call theta."""
    inner, centre, columns, rows = bound
    original, gradient = np.empty_like(theta), np.empty_like(theta)
    _forward(theta, centre, columns, original)
    if not gradient_of(inner, original, indices, gradient):  # type: ignore[no-untyped-call]
        return False
    _backward(gradient, rows, out)
    return True
