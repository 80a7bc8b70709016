"""The mean of normal data, the smallest model with a posterior in closed form."""

import math
from typing import Any, NamedTuple

import numpy as np

from stalegrad._internal import validation as checks
from stalegrad._internal.errors import ArgumentError
from stalegrad._internal.jit import compiled
from stalegrad._internal.types import Array, IntArray
from stalegrad.potentials.compiled import CompiledPotential, fits, gradient_with
from stalegrad.potentials.minibatches.scheme import Minibatches


@compiled
def _gradients(theta, indices, out, data, prior_mean, noise_precision, prior_precision):  # type: ignore[no-untyped-def]
    n_data, size, batch_size = data.shape[0], data.shape[1], indices.shape[1]
    if not fits(theta, indices, out, size, n_data):
        return False
    number = theta.dtype.type
    scale, precision = number(noise_precision * n_data / batch_size), number(prior_precision)
    for r in range(theta.shape[0]):
        for c in range(size):
            out[r, c] = number(0)
        for j in range(batch_size):
            i = indices[r, j]
            for c in range(size):
                out[r, c] += theta[r, c] - data[i, c]
        for c in range(size):
            out[r, c] = precision * (theta[r, c] - prior_mean[c]) + scale * out[r, c]
    return True


class _Bound(NamedTuple):
    """What :func:`_gradients` is given besides its arguments."""

    data: Any
    prior_mean: Any
    noise_precision: Any
    prior_precision: Any


@gradient_with(_Bound)
def _bound_gradient(bound, theta, indices, out):  # type: ignore[no-untyped-def]
    data, prior_mean, noise_precision, prior_precision = bound
    return _gradients(theta, indices, out, data, prior_mean, noise_precision, prior_precision)


class GaussianMean(CompiledPotential):
    """d_i ~ N(θ, σ² I) with the prior θ ~ N(μ, ς² I).

    Up to a constant U(θ) = |θ − μ|² / 2ς² + Σ_i |θ − d_i|² / 2σ², and on a minibatch of J of the N data

        g̃(θ) = (θ − μ) / ς² + (N/J) Σ_{i ∈ batch} (θ − d_i) / σ².

    Args:
        data: the d_i, (N, n), or (N,) for n = 1. Not copied if it is C-contiguous and of ``dtype``.
        noise_scale: σ.
        prior_scale: ς.
        prior_mean: μ, a number for all coordinates or n of them.
        batch_size: J; None for all data.
        scheme: how minibatches are drawn, see :class:`Minibatches`.
        dtype: of θ and the gradient, np.float32 or np.float64.

    >>> model = GaussianMean([1.0, 2.0, 3.0], dtype=np.float64)
    >>> model.posterior()
    (array([1.5]), array([0.25]))
    >>> model.gradient(np.array([1.5]), np.array([0, 2]))
    array([0.])
    """

    _compiled = staticmethod(_gradients)

    def __init__(
        self,
        data: Any,
        *,
        noise_scale: float = 1.0,
        prior_scale: float = 1.0,
        prior_mean: Any = 0.0,
        batch_size: int | None = None,
        scheme: str = "subset",
        dtype: Any = np.float32,
    ) -> None:
        dtype = checks.float_dtype("dtype", dtype)
        self.noise_scale = checks.real_number("noise_scale", noise_scale, above=0)
        self.prior_scale = checks.real_number("prior_scale", prior_scale, above=0)
        array = checks.finite_array("data", data, dtype)
        if array.ndim not in (1, 2) or array.size == 0:
            raise ArgumentError("data", data, f"has shape {array.shape}", "Give an array (N,) or (N, n), not empty.")
        self._data = array.reshape(array.shape[0], -1)
        size = self._data.shape[1]
        mean = checks.finite_array("prior_mean", prior_mean, dtype)
        if mean.shape not in ((), (size,)):
            raise ArgumentError("prior_mean", prior_mean, f"has shape {mean.shape}", f"Give one number or {size}.")
        self.prior_mean = np.full(size, mean, dtype)
        super().__init__(size, Minibatches.of(self._data.shape[0], batch_size, scheme), dtype)
        self.bound = _Bound(self._data, self.prior_mean, self.noise_scale**-2, self.prior_scale**-2)

    def posterior(self) -> tuple[Array, Array]:
        """Mean v (μ / ς² + Σ_i d_i / σ²) and variance v = 1 / (1/ς² + N/σ²) of each coordinate, (n,) in float64."""
        variance = 1 / (self.prior_scale**-2 + self.n_data * self.noise_scale**-2)
        total = self._data.sum(axis=0, dtype=np.float64) * self.noise_scale**-2
        prior = self.prior_mean.astype(np.float64) * self.prior_scale**-2
        return variance * (prior + total), np.full(self.size, variance)

    def potential(self, theta: Array) -> float:
        """U(θ) on all data, up to a constant."""
        theta = self._checked(theta).astype(np.float64)
        residuals = float(np.square(theta - self._data).sum()) / (2 * self.noise_scale**2)
        return self._normal_prior(theta - self.prior_mean, self.prior_scale) + residuals

    def log_likelihood(self, theta: Array) -> Array:
        """log p(d_i | θ) of each datum, (N,), in float64."""
        residuals = self._data - self._checked(theta).astype(np.float64)
        constant = self.size * math.log(self.noise_scale * math.sqrt(2 * math.pi))
        result: Array = -np.square(residuals).sum(1) / (2 * self.noise_scale**2) - constant
        return result

    def minibatch_loss(self, theta: Array, indices: IntArray) -> float:
        """The mean of −log p(d_i | θ) over some data, up to a constant."""
        residuals = self._data[indices] - self._checked(theta).astype(np.float64)
        return float(np.square(residuals).sum(1).mean()) / (2 * self.noise_scale**2)
