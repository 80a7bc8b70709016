"""Bayesian logistic regression, for labels of two classes."""

from typing import Any, NamedTuple

import numpy as np

from stalegrad._internal import validation as checks
from stalegrad._internal.elementary import exp
from stalegrad._internal.errors import ArgumentError
from stalegrad._internal.jit import compiled
from stalegrad._internal.types import Array, IntArray
from stalegrad.potentials.compiled import CompiledPotential, fits, gradient_with
from stalegrad.potentials.glm.design_matrix import DesignMatrix, accumulate, margins, response
from stalegrad.potentials.minibatches.scheme import Minibatches
from stalegrad.potentials.prediction import Predictive, over_draws, own_data


@compiled
def _gradients(theta, indices, out, matrix, n_columns, width, signs, precision):  # type: ignore[no-untyped-def]
    n_data, batch_size = signs.shape[0], indices.shape[1]
    if not fits(theta, indices, out, width, n_data):
        return False
    number = theta.dtype.type
    scale, precision_, one = number(n_data / batch_size), number(precision), number(1)
    weights, sign = np.empty(batch_size, theta.dtype), np.empty(batch_size, theta.dtype)
    for r in range(theta.shape[0]):
        margins(matrix, n_columns, theta[r], indices[r], weights)
        for j in range(batch_size):
            sign[j] = number(signs[indices[r, j]])
        for j in range(batch_size):
            weights[j] = -scale * sign[j] / (one + exp(sign[j] * weights[j]))
        for c in range(width):
            out[r, c] = precision_ * theta[r, c]
        accumulate(matrix, n_columns, weights, indices[r], out[r])
    return True


class _Bound(NamedTuple):
    """What :func:`_gradients` is given besides its arguments."""

    matrix: Any
    n_columns: Any
    width: Any
    signs: Any
    precision: Any


@gradient_with(_Bound)
def _bound_gradient(bound, theta, indices, out):  # type: ignore[no-untyped-def]
    matrix, n_columns, width, signs, precision = bound
    return _gradients(theta, indices, out, matrix, n_columns, width, signs, precision)


class Logistic(CompiledPotential):
    """Labels s_i = ±1 with p(s_i | x_i, θ) = 1 / (1 + exp(−s_i x_iᵀθ)), and the prior N(0, ς²) on every weight.

    Up to a constant U(θ) = |θ|² / 2ς² + Σ_i log(1 + exp(−s_i x_iᵀθ)), and on a minibatch of J of the N data

        g̃(θ) = θ / ς² − (N/J) Σ_{i ∈ batch} s_i x_i / (1 + exp(s_i x_iᵀθ)),

    which overflows for no θ. Sums run in ``dtype``; take float64 where float32's seven digits are too few.

    Args:
        X: the x_i, (N, d): an array or a SciPy sparse matrix. Not copied if it is C-contiguous and of ``dtype``.
        y: N labels out of {0, 1}, {−1, +1} or {False, True}.
        prior_scale: ς.
        batch_size: J; None for all data.
        intercept: append a weight for a constant regressor 1, under the same prior.
        scheme: how minibatches are drawn, see :class:`Minibatches`.
        dtype: of θ and the gradient, np.float32 or np.float64.

    >>> model = Logistic([[1.0, 0.0], [1.0, 2.0], [1.0, 4.0]], [0, 1, 1], dtype=np.float64)
    >>> model.full_gradient(np.zeros(2))
    array([-0.5, -3. ])
    >>> model.predict(np.array([0.0, 0.5]), [[1.0, 0.0], [1.0, 4.0]]).round(3)
    array([0.5  , 0.881])
    """

    _compiled = staticmethod(_gradients)

    def __init__(
        self,
        X: Any,
        y: Any,
        prior_scale: float = 1.0,
        batch_size: int | None = None,
        intercept: bool = False,
        scheme: str = "subset",
        dtype: Any = np.float32,
    ) -> None:
        dtype = checks.float_dtype("dtype", dtype)
        self.prior_scale = checks.real_number("prior_scale", prior_scale, above=0)
        self.intercept = bool(intercept)
        self._design = DesignMatrix(X, dtype, intercept=self.intercept)
        self._signs = _signs(y, self._design.n_rows).astype(np.int8)  # a byte each: more of them are in the cache
        super().__init__(self._design.width, Minibatches.of(self._design.n_rows, batch_size, scheme), dtype)
        self.bound = _Bound(self._design.matrix, self._design.n_columns, self.size, self._signs, self.prior_scale**-2)

    def predict(self, theta: Array, X: Any) -> Array:
        """The probability of label +1 for each row of ``X``, in float64."""
        return self._probability(theta, self._design.like(X))

    def predictive(self, X: Any) -> Predictive:
        """The function from θ to the probabilities of the labels −1 (or 0) and +1 for the rows of ``X``, (rows, 2).

        X is checked once: it is what :meth:`stalegrad.Run.predict` averages. To score it, call the labels 0 and 1.
        """
        design = self._design.like(X)

        def both(theta: Array) -> Array:
            positive = self._probability(theta, design)
            return np.stack([1 - positive, positive], axis=1)

        return over_draws(both)

    def log_likelihood(self, theta: Array, X: Any = None, y: Any = None) -> Array:
        """Each row's log p(y_i | x_i, θ), in float64: minus their mean over a test set is the test loss.

        Without X and y it is that of the model's own data.
        """
        design = self._design if own_data(X, y) else self._design.like(X)
        signed = (self._signs if X is None else _signs(y, design.n_rows)) * self._margins(theta, design)
        result: Array = -np.logaddexp(0, -signed)
        return result

    def potential(self, theta: Array) -> float:
        """U(θ) on all data, up to a constant."""
        losses = np.logaddexp(0, -self._signs * self._margins(theta, self._design))
        return self._normal_prior(theta, self.prior_scale) + float(losses.sum())

    def minibatch_loss(self, theta: Array, indices: IntArray) -> float:
        """The mean of −log p(y_i | x_i, θ) over some rows."""
        margins = self._margins(theta, self._design)[indices]
        return float(np.logaddexp(0, -self._signs[indices] * margins).mean())

    def _probability(self, theta: Array, design: DesignMatrix) -> Array:
        """Of label +1."""
        return np.exp(-np.logaddexp(0, -self._margins(theta, design)))

    def _margins(self, theta: Array, design: DesignMatrix) -> Array:
        return design.times(self._checked(theta)).astype(np.float64)


def _signs(y: Any, n_rows: int) -> Array:
    labels = response(y, n_rows)
    for negative in (0, -1):
        if np.all((labels == negative) | (labels == 1)):
            return np.where(labels == 1, 1.0, -1.0)
    found = ", ".join(f"{label:g}" for label in np.unique(labels)[:5])
    raise ArgumentError("y", y, f"holds labels other than two (found {found})", "Give labels in {0, 1} or {-1, 1}.")
