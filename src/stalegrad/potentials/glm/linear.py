"""Bayesian linear regression, whose posterior is known in closed form."""

import math
from typing import Any, NamedTuple

import numpy as np

from stalegrad._internal import validation as checks
from stalegrad._internal.jit import compiled
from stalegrad._internal.types import Array, IntArray
from stalegrad.potentials.compiled import CompiledPotential, fits, gradient_with
from stalegrad.potentials.glm.design_matrix import DesignMatrix, accumulate, margins, response
from stalegrad.potentials.minibatches.scheme import Minibatches
from stalegrad.potentials.prediction import Predictive, over_draws, own_data


@compiled
def _gradients(theta, indices, out, matrix, n_columns, width, y, noise_precision, prior_precision):  # type: ignore[no-untyped-def]
    n_data, batch_size = y.shape[0], indices.shape[1]
    if not fits(theta, indices, out, width, n_data):
        return False
    number = theta.dtype.type
    scale, precision = number(noise_precision * n_data / batch_size), number(prior_precision)
    weights = np.empty(batch_size, theta.dtype)
    for r in range(theta.shape[0]):
        margins(matrix, n_columns, theta[r], indices[r], weights)
        for j in range(batch_size):
            weights[j] = scale * (weights[j] - y[indices[r, j]])
        for c in range(width):
            out[r, c] = precision * theta[r, c]
        accumulate(matrix, n_columns, weights, indices[r], out[r])
    return True


class _Bound(NamedTuple):
    """What :func:`_gradients` is given besides its arguments."""

    matrix: Any
    n_columns: Any
    width: Any
    y: Any
    noise_precision: Any
    prior_precision: Any


@gradient_with(_Bound)
def _bound_gradient(bound, theta, indices, out):  # type: ignore[no-untyped-def]
    matrix, n_columns, width, y, noise_precision, prior_precision = bound
    return _gradients(theta, indices, out, matrix, n_columns, width, y, noise_precision, prior_precision)


class Linear(CompiledPotential):
    """y_i ~ N(x_iᵀθ, σ²) with the prior N(0, ς²) on every weight.

    Up to a constant U(θ) = |θ|² / 2ς² + Σ_i (x_iᵀθ − y_i)² / 2σ², and on a minibatch of J of the N data

        g̃(θ) = θ / ς² + (N/J) Σ_{i ∈ batch} (x_iᵀθ − y_i) x_i / σ².

    Args:
        X: the x_i, (N, d): an array or a SciPy sparse matrix. Not copied if it is C-contiguous and of ``dtype``.
        y: the N responses.
        noise_scale: σ.
        prior_scale: ς.
        batch_size: J; None for all data.
        intercept: append a weight for a constant regressor 1, under the same prior.
        scheme: how minibatches are drawn, see :class:`Minibatches`.
        dtype: of θ and the gradient, np.float32 or np.float64.

    >>> model = Linear([[1.0], [2.0], [3.0]], [2.0, 4.0, 6.0], prior_scale=10.0, dtype=np.float64)
    >>> mean, covariance = model.posterior()
    >>> mean.round(3), covariance.round(4)
    (array([1.999]), array([[0.0714]]))
    >>> bool(abs(model.full_gradient(mean)) < 1e-12)
    True
    >>> model.predict(mean, [[10.0]]).round(2)
    array([19.99])
    """

    _compiled = staticmethod(_gradients)

    def __init__(
        self,
        X: Any,
        y: Any,
        noise_scale: float = 1.0,
        prior_scale: float = 1.0,
        batch_size: int | None = None,
        intercept: bool = False,
        scheme: str = "subset",
        dtype: Any = np.float32,
    ) -> None:
        dtype = checks.float_dtype("dtype", dtype)
        self.noise_scale = checks.real_number("noise_scale", noise_scale, above=0)
        self.prior_scale = checks.real_number("prior_scale", prior_scale, above=0)
        self.intercept = bool(intercept)
        self._design = DesignMatrix(X, dtype, intercept=self.intercept)
        self._y = response(y, self._design.n_rows).astype(dtype)
        super().__init__(self._design.width, Minibatches.of(self._design.n_rows, batch_size, scheme), dtype)
        precisions = self.noise_scale**-2, self.prior_scale**-2
        self.bound = _Bound(self._design.matrix, self._design.n_columns, self.size, self._y, *precisions)

    def posterior(self) -> tuple[Array, Array]:
        """Mean m = Σ Xᵀy / σ² and covariance Σ = (XᵀX / σ² + I / ς²)⁻¹ of the normal posterior, in float64."""
        square, product = self._design.gram(self._y)
        precision = square / self.noise_scale**2 + np.eye(self.size) / self.prior_scale**2
        covariance = np.linalg.inv(precision)
        return np.linalg.solve(precision, product / self.noise_scale**2), (covariance + covariance.T) / 2

    def predict(self, theta: Array, X: Any) -> Array:
        """The mean x_iᵀθ of the response for each row of ``X``, in float64."""
        return self._means(theta, self._design.like(X))

    def predictive(self, X: Any) -> Predictive:
        """The function θ ↦ (x_iᵀθ, σ²), mean and variance of the response for the rows of ``X``, checked once.

        It is what :meth:`stalegrad.Run.predict` averages.
        """
        design = self._design.like(X)
        return over_draws(lambda theta: (self._means(theta, design), self.noise_scale**2))

    def log_likelihood(self, theta: Array, X: Any = None, y: Any = None) -> Array:
        """Each row's log p(y_i | x_i, θ), in float64, of the model's own data or of others."""
        design = self._design if own_data(X, y) else self._design.like(X)
        responses = self._y if X is None else response(y, design.n_rows)
        standardised = (responses - self._means(theta, design)) / self.noise_scale
        result: Array = -0.5 * np.square(standardised) - math.log(self.noise_scale * math.sqrt(2 * math.pi))
        return result

    def potential(self, theta: Array) -> float:
        """U(θ) on all data, up to a constant."""
        residuals = self._means(theta, self._design) - self._y
        return self._normal_prior(theta, self.prior_scale) + float(residuals @ residuals) / (2 * self.noise_scale**2)

    def minibatch_loss(self, theta: Array, indices: IntArray) -> float:
        """The mean of −log p(y_i | x_i, θ) over some rows, up to a constant."""
        residuals = (self._means(theta, self._design) - self._y)[indices]
        return float(np.square(residuals).mean()) / (2 * self.noise_scale**2)

    def _means(self, theta: Array, design: DesignMatrix) -> Array:
        return design.times(self._checked(theta)).astype(np.float64)
