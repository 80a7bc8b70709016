"""Models as the samplers see them: gradients of a potential on minibatches."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from stalegrad.errors import MissingExtra
from stalegrad.potentials.base import Potential
from stalegrad.potentials.from_gradient import from_gradient
from stalegrad.potentials.from_loader import from_loader
from stalegrad.potentials.gaussian import GaussianMean
from stalegrad.potentials.linear import Linear
from stalegrad.potentials.logistic import Logistic
from stalegrad.potentials.minibatches import Minibatches
from stalegrad.potentials.softmax import Softmax

if TYPE_CHECKING:
    from stalegrad.potentials.jax import JaxPotential

__all__ = [
    "GaussianMean",
    "Linear",
    "Logistic",
    "Minibatches",
    "Potential",
    "Softmax",
    "from_gradient",
    "from_jax",
    "from_loader",
]


def from_jax(
    log_prior: Callable[[Any], Any],
    log_likelihood: Callable[[Any, Any], Any],
    data: Any,
    params: Any,
    batch_size: int | None = None,
    scheme: str = "subset",
    dtype: Any = None,
) -> "JaxPotential":
    """The potential U(θ) = −log p(θ) − Σ_i log p(d_i | θ) of a model written in JAX, differentiated by JAX.

    Args:
        log_prior: log p(θ), a function from the parameters to a scalar.
        log_likelihood: log p(d | θ), a function from the parameters and ONE datum to a scalar.
        data: a pytree of arrays whose first axes all have length N; a datum is the same pytree without that axis. NaN
            is left alone, since it may be your mark for a missing value.
        params: a pytree of floating-point arrays: the structure of the parameters and where chains start.
        batch_size: J; None for all data.
        scheme: how minibatches are drawn, see :class:`Minibatches`.
        dtype: of the flat θ. None means float64 if any leaf of ``params`` is, which needs JAX's 64-bit mode.

    Returns:
        A :class:`Potential` that has, besides, ``unravel(theta)``: the flat θ as a pytree like ``params``.

    >>> import jax.numpy as jnp
    >>> model = from_jax(
    ...     log_prior=lambda p: -0.5 * p["mean"] ** 2,
    ...     log_likelihood=lambda p, d: -0.5 * (d - p["mean"]) ** 2,
    ...     data=jnp.array([1.0, 2.0, 3.0]),
    ...     params={"mean": jnp.array(0.0)},
    ... )
    >>> model.full_gradient(model.initial())
    array([-6.], dtype=float32)
    """
    try:
        from stalegrad.potentials.jax import JaxPotential
    except ModuleNotFoundError as error:
        if error.name is None or error.name.partition(".")[0] not in ("jax", "jaxlib"):
            raise
        raise MissingExtra("from_jax", "jax") from error
    return JaxPotential(log_prior, log_likelihood, data, params, batch_size, scheme, dtype)
