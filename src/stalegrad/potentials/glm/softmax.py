"""Bayesian softmax (multinomial logistic) regression."""

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
def _gradients(theta, indices, out, matrix, n_columns, width, n_classes, classes, precision):  # type: ignore[no-untyped-def]
    n_data, batch_size = classes.shape[0], indices.shape[1]
    if not fits(theta, indices, out, width * n_classes, n_data):
        return False
    number = theta.dtype.type
    scale, precision_ = number(n_data / batch_size), number(precision)
    weights = np.empty((n_classes, batch_size), theta.dtype)
    top, total = np.empty(batch_size, theta.dtype), np.empty(batch_size, theta.dtype)
    for r in range(theta.shape[0]):
        for k in range(n_classes):
            margins(matrix, n_columns, theta[r, k * width : (k + 1) * width], indices[r], weights[k])
        for j in range(batch_size):
            top[j], total[j] = weights[0, j], number(0)
        for k in range(1, n_classes):
            for j in range(batch_size):
                top[j] = max(top[j], weights[k, j])
        for k in range(n_classes):
            for j in range(batch_size):
                weights[k, j] = exp(weights[k, j] - top[j])
                total[j] += weights[k, j]
        for k in range(n_classes):
            for j in range(batch_size):
                weights[k, j] *= scale / total[j]
        for j in range(batch_size):
            weights[classes[indices[r, j]], j] -= scale
        for c in range(theta.shape[1]):
            out[r, c] = precision_ * theta[r, c]
        for k in range(n_classes):
            accumulate(matrix, n_columns, weights[k], indices[r], out[r, k * width : (k + 1) * width])
    return True


class _Bound(NamedTuple):
    """What :func:`_gradients` is given besides its arguments."""

    matrix: Any
    n_columns: Any
    width: Any
    n_classes: Any
    classes: Any
    precision: Any


@gradient_with(_Bound)
def _bound_gradient(bound, theta, indices, out):  # type: ignore[no-untyped-def]
    matrix, n_columns, width, n_classes, classes, precision = bound
    return _gradients(theta, indices, out, matrix, n_columns, width, n_classes, classes, precision)


class Softmax(CompiledPotential):
    """Classes y_i out of 0…K−1 with p(y_i = k | x_i, θ) = π_ik ∝ exp(x_iᵀθ_k), and the prior N(0, ς²) on every weight.

    θ is the (K, d) matrix of the θ_k, flattened row by row; with an intercept (K, d + 1). Up to a constant
    U(θ) = |θ|² / 2ς² − Σ_i log π_{i y_i}, and on a minibatch of J of the N data

        g̃(θ)_k = θ_k / ς² + (N/J) Σ_{i ∈ batch} (π_ik − [y_i = k]) x_i,

    where the largest x_iᵀθ_k is taken off before any exponential, so that none overflows.

    Args:
        X: the x_i, (N, d): an array or a SciPy sparse matrix. Not copied if it is C-contiguous and of ``dtype``.
        y: N whole numbers from 0 to K − 1.
        n_classes: K; None for the largest y plus one.
        prior_scale: ς.
        batch_size: J; None for all data.
        intercept: append a weight for a constant regressor 1 to each class, under the same prior.
        scheme: how minibatches are drawn, see :class:`Minibatches`.
        dtype: of θ and the gradient, np.float32 or np.float64.

    >>> model = Softmax([[1.0], [2.0], [4.0]], [0, 1, 2], dtype=np.float64)
    >>> model.full_gradient(np.zeros(3)).round(3)
    array([ 1.333,  0.333, -1.667])
    >>> model.predict(np.array([0.0, 1.0, 1.0]), [[0.0], [50.0]]).round(3)
    array([[0.333, 0.333, 0.333],
           [0.   , 0.5  , 0.5  ]])
    """

    _compiled = staticmethod(_gradients)

    def __init__(
        self,
        X: Any,
        y: Any,
        n_classes: int | None = None,
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
        if n_classes is not None:
            n_classes = checks.whole_number("n_classes", n_classes, least=2)
        self._classes, self.n_classes = _classes(y, self._design.n_rows, n_classes)
        size = self.n_classes * self._design.width
        super().__init__(size, Minibatches.of(self._design.n_rows, batch_size, scheme), dtype)
        shape = self._design.n_columns, self._design.width, self.n_classes
        self.bound = _Bound(self._design.matrix, *shape, self._classes, self.prior_scale**-2)

    def predict(self, theta: Array, X: Any) -> Array:
        """The probabilities π_ik for each row of ``X``, (rows, K) in float64."""
        return np.exp(self._log_probabilities(theta, self._design.like(X)))

    def predictive(self, X: Any) -> Predictive:
        """The function θ ↦ π_ik for the rows of ``X``, checked once: what :meth:`stalegrad.Run.predict` averages."""
        design = self._design.like(X)
        return over_draws(lambda theta: np.exp(self._log_probabilities(theta, design)))

    def log_likelihood(self, theta: Array, X: Any = None, y: Any = None) -> Array:
        """Each row's log p(y_i | x_i, θ), in float64: minus their mean over a test set is the test loss.

        Without X and y it is that of the model's own data.
        """
        if own_data(X, y):
            return _of_classes(self._log_probabilities(theta, self._design), self._classes)
        design = self._design.like(X)
        classes, _ = _classes(y, design.n_rows, self.n_classes)
        return _of_classes(self._log_probabilities(theta, design), classes)

    def potential(self, theta: Array) -> float:
        """U(θ) on all data, up to a constant."""
        log_probabilities = self._log_probabilities(theta, self._design)
        return self._normal_prior(theta, self.prior_scale) - float(_of_classes(log_probabilities, self._classes).sum())

    def minibatch_loss(self, theta: Array, indices: IntArray) -> float:
        """The mean of −log p(y_i | x_i, θ) over some rows."""
        log_probabilities = self._log_probabilities(theta, self._design)[indices]
        return -float(_of_classes(log_probabilities, self._classes[indices]).mean())

    def _log_probabilities(self, theta: Array, design: DesignMatrix) -> Array:
        weights = self._checked(theta).reshape(self.n_classes, design.width)
        logits = np.stack([design.times(row) for row in weights], axis=1).astype(np.float64)
        logits -= logits.max(axis=1, keepdims=True)
        logits -= np.log(np.exp(logits).sum(axis=1, keepdims=True))
        return logits


def _of_classes(log_probabilities: Array, classes: IntArray) -> Array:
    picked: Array = log_probabilities[np.arange(classes.size), classes]
    return picked


def _classes(y: Any, n_rows: int, n_classes: int | None) -> tuple[IntArray, int]:
    values = response(y, n_rows)
    classes = values.astype(np.int64)
    if np.any(classes != values) or classes.min() < 0:
        raise ArgumentError("y", y, "holds values that are not classes", "Give whole numbers 0, 1, … for the classes.")
    if n_classes is None:
        return classes, checks.whole_number("n_classes (from y)", int(classes.max()) + 1, least=2)
    if classes.max() >= n_classes:
        problem = f"holds class {classes.max()}, but there are {n_classes} classes"
        raise ArgumentError("y", y, problem, f"Give whole numbers from 0 to {n_classes - 1}, or a larger n_classes.")
    return classes, n_classes
