"""The models of the peers that are written in JAX, each with its log-likelihood and with a gradient derived by hand."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from posterior import WhitenedRows


@dataclass(frozen=True)
class JaxModel:
    """A posterior with the prior N(0, 1) on every weight, up to constants.

    Args:
        rows: arrays on the device whose first axis counts the data.
        start: where chains start.
        log_prior: of a position.
        log_likelihood: of a position and one datum, as BlackJAX's ``grad_estimator`` wants it.
        gradient: ∇log p of a position on a minibatch, by hand.
    """

    rows: tuple[Any, ...]
    start: Any
    log_prior: Callable[[Any], Any]
    log_likelihood: Callable[[Any, Any], Any]
    gradient: Callable[[Any, Any], Any]

    @property
    def n_data(self) -> int:
        """N."""
        return int(self.rows[0].shape[0])


def logistic(X: np.ndarray, y: np.ndarray) -> JaxModel:
    """Labels in {0, 1}: the gradient is −θ + (N/J) Xᵀ(y − sigmoid(Xθ))."""
    import jax
    import jax.numpy as jnp

    def log_likelihood(position: Any, datum: Any) -> Any:
        x, y = datum
        logit = jnp.dot(x, position)
        return y * logit - jax.nn.softplus(logit)

    def gradient(position: Any, minibatch: Any) -> Any:
        x, y = minibatch
        residual = y - jax.nn.sigmoid(x @ position)
        return -position + (len(X) / x.shape[0]) * (residual @ x)

    rows = jnp.asarray(X), jnp.asarray(y)
    return JaxModel(rows, jnp.zeros(X.shape[1]), _log_normal, log_likelihood, gradient)


def softmax(X: np.ndarray, y: np.ndarray, classes: int) -> JaxModel:
    """Classes 0…K−1: the gradient is −θ + (N/J) (onehot − π)ᵀ X, with θ a matrix (K, d)."""
    import jax
    import jax.numpy as jnp

    def log_likelihood(position: Any, datum: Any) -> Any:
        x, y = datum
        return jax.nn.log_softmax(position @ x)[y]

    def gradient(position: Any, minibatch: Any) -> Any:
        x, y = minibatch
        residual = jax.nn.one_hot(y, classes) - jax.nn.softmax(x @ position.T)
        return -position + (len(X) / x.shape[0]) * (residual.T @ x)

    rows = jnp.asarray(X), jnp.asarray(y, jnp.int32)
    return JaxModel(rows, jnp.zeros((classes, X.shape[1])), _log_normal, log_likelihood, gradient)


def whitened(model: WhitenedRows) -> JaxModel:
    """Logistic regression in the coordinates z in which every curvature at the mode is 1, see :mod:`posterior`.

    The rows are whitened beforehand, so that a step costs what it costs in θ, plus one product with a matrix for the
    prior. Ours multiplies with two triangular ones.
    """
    import jax
    import jax.numpy as jnp

    shift, inverse = jnp.asarray(model.shift), jnp.asarray(model.inverse)

    def log_prior(z: Any) -> Any:
        return -jnp.dot(shift, z) - 0.5 * jnp.dot(z, inverse @ z)

    def log_likelihood(z: Any, datum: Any) -> Any:
        x, offset, y = datum
        logit = jnp.dot(x, z) + offset
        return y * logit - jax.nn.softplus(logit)

    def gradient(z: Any, minibatch: Any) -> Any:
        x, offset, y = minibatch
        residual = y - jax.nn.sigmoid(x @ z + offset)
        return -shift - inverse @ z + (model.n_data / x.shape[0]) * (residual @ x)

    rows = jnp.asarray(model.X), jnp.asarray(model.offset), jnp.asarray(model.y)
    return JaxModel(rows, jnp.zeros(model.X.shape[1]), log_prior, log_likelihood, gradient)


def _log_normal(position: Any) -> Any:
    import jax.numpy as jnp

    return -0.5 * jnp.vdot(position, position)
