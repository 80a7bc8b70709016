"""A potential in other coordinates: the constant preconditioner."""

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from stalegrad._internal.types import Array, IntArray
from stalegrad.potentials.base import Potential
from stalegrad.potentials.compiled import gradient_of, gradient_with
from stalegrad.potentials.coordinates import (
    Coordinates,
    dense_backward,
    dense_forward,
    scaled_backward,
    scaled_forward,
)
from stalegrad.potentials.prediction import Predictive
from stalegrad.potentials.traced import Traced, TracedGradient
from stalegrad.potentials.wrappers.control_variates import ControlVariates, refuse_addressed


class InCoordinates(Potential):
    """V(z) = U(c + S z), whose gradient is Sᵀ ∇U(c + S z), on the same minibatches.

    SGLD on z is SGLD on θ with the constant preconditioner S Sᵀ: it samples the same posterior.

    Args:
        potential: U.
        coordinates: c and S; with an ``anchor_gradient`` the gradients of U are those of
            :class:`~stalegrad.potentials.ControlVariates` with the anchor c.
    """

    def __init__(self, potential: Potential, coordinates: Coordinates) -> None:
        refuse_addressed(potential)
        super().__init__(potential.size, potential.minibatches, potential.dtype)
        self.coordinates = coordinates
        if coordinates.anchor_gradient is not None:
            potential = ControlVariates(potential, coordinates.centre, coordinates.anchor_gradient)
        self.potential = potential
        self.fork_safe = potential.fork_safe
        if potential.bound is not None:
            kind = DenseBound if coordinates.factor is not None else ScaledBound
            self.bound = kind(potential.bound, *coordinates.bound)

    @property
    def centre(self) -> Array:
        """c, the point at which z is 0."""
        return self.coordinates.centre

    def original(self, z: Array) -> Array:
        """θ = c + S z of every row of ``z``."""
        return self.coordinates.original(z)

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
        self.coordinates.pull(inner, out)

    @property
    def traced(self) -> Traced | None:
        """The same of a model that JAX can follow."""
        inner = self.potential.traced
        if inner is None or type(self).gradients is not InCoordinates.gradients:
            return None
        kind = _TracedDense if self.coordinates.factor is not None else _TracedScaled
        return Traced(kind(inner.gradient), (inner.data, self.coordinates.bound), inner.programs)

    def full_gradient(self, theta: Array) -> Array:
        """∇V(z) = Sᵀ∇U(c + S z) on all data."""
        return self.coordinates.pulled(self.potential.full_gradient(self.original(theta)))

    def variables(self, draws: Array) -> dict[str, Array]:
        """Of draws of z, the named variables of the model within."""
        return self.potential.variables(self.original(draws))

    def predictive(self, *args: Any, **kwargs: Any) -> Predictive:
        """Of z, what the model within predicts."""
        within = self.potential.predictive(*args, **kwargs)
        return lambda z: within(self.original(z))

    def log_likelihood(self, theta: Array) -> Array:
        """At one z, of the data of the model within."""
        return self.potential.log_likelihood(self.original(theta))

    @property
    def layout(self) -> dict[str, tuple[int, ...]]:
        """z has no names: one vector."""
        return {"z": (self.size,)}


class Whitened(InCoordinates):
    """V(z) = U(θ* + S z) with S = C^{−ᵀ}, where C Cᵀ is the Hessian of U at its minimum θ*.

    The curvature of V at its minimum 0 is the identity, so that every direction mixes at the same rate.

    Args:
        potential: U.
        centre: θ*.
        factor: C, lower triangular, such as ``np.linalg.cholesky`` gives.
    """

    def __init__(self, potential: Potential, centre: Array, factor: Array) -> None:
        upper = np.linalg.inv(np.asarray(factor, np.float64)).T
        dtype = potential.dtype
        super().__init__(potential, Coordinates(np.asarray(centre, dtype), factor=np.asarray(np.triu(upper), dtype)))


@dataclass(frozen=True)
class _TracedDense:
    """Sᵀ g̃(c + S z) of the dense form, for JAX."""

    inner: TracedGradient

    def __call__(self, z: Any, indices: Any, data: Any) -> Any:
        within, (centre, _, factor) = data
        return self.inner(centre + factor @ z, indices, within) @ factor


@dataclass(frozen=True)
class _TracedScaled:
    """The same of the other forms, of which the diagonal one has no directions V."""

    inner: TracedGradient

    def __call__(self, z: Any, indices: Any, data: Any) -> Any:
        within, (centre, scale, basis, stretch) = data
        if not len(basis):
            return scale * self.inner(centre + scale * z, indices, within)
        theta = centre + scale * (z + (stretch * (basis @ z)) @ basis)
        g = scale * self.inner(theta, indices, within)
        return g + (stretch * (basis @ g)) @ basis


class DenseBound(NamedTuple):
    """What compiled callers need of a model in dense coordinates whose U is compiled too."""

    inner: Any
    centre: Any
    columns: Any
    rows: Any


class ScaledBound(NamedTuple):
    """The same of diagonal coordinates, and of those of low rank."""

    inner: Any
    centre: Any
    scale: Any
    basis: Any
    stretch: Any


@gradient_with(DenseBound)
def _dense_gradient(bound, theta, indices, out):  # type: ignore[no-untyped-def]
    """At z, which compiled callers of any model call theta."""
    inner, centre, columns, rows = bound
    original, gradient = np.empty_like(theta), np.empty_like(theta)
    dense_forward(theta, centre, columns, original)
    if not gradient_of(inner, original, indices, gradient):  # type: ignore[no-untyped-call]
        return False
    dense_backward(gradient, rows, out)
    return True


@gradient_with(ScaledBound)
def _scaled_gradient(bound, theta, indices, out):  # type: ignore[no-untyped-def]
    """Likewise."""
    inner, centre, scale, basis, stretch = bound
    original, gradient = np.empty_like(theta), np.empty_like(theta)
    scaled_forward(theta, centre, scale, basis, stretch, original)
    if not gradient_of(inner, original, indices, gradient):  # type: ignore[no-untyped-call]
        return False
    scaled_backward(gradient, centre, scale, basis, stretch, out)
    return True
