"""Gaussian processes of few points: hyperparameters with the function integrated out, and a latent function of counts.

Length scale, amplitude and noise of a regression form a curved ridge: a long wave of large amplitude explains the data
nearly as well as a short one, and where the function is all noise the posterior flattens into the prior. The latent
function of counts is non-centred by a Cholesky factor that moves with the length scale, so that every coordinate's
meaning depends on it.
"""

from typing import Any

import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist

from classics.classic import Classic

JITTER = 1e-4
"""Relative to the amplitude: single precision needs it."""


def _kernel(x: Any, amplitude: Any, length: Any, diagonal: Any) -> Any:
    squared = jnp.square((x[:, None] - x[None, :]) / length)
    return amplitude**2 * jnp.exp(-0.5 * squared) + (diagonal + JITTER * amplitude**2) * jnp.eye(len(x))


def _hyperparameters() -> tuple[Any, Any]:
    amplitude = numpyro.sample("amplitude", dist.HalfNormal(2.0))
    return amplitude, numpyro.sample("length", dist.InverseGamma(3.0, 3.0))


def regression_model(x: Any, y: Any) -> None:
    """y ~ N(0, K + σ² I)."""
    amplitude, length = _hyperparameters()
    noise = numpyro.sample("noise", dist.HalfNormal(1.0))
    covariance = _kernel(x, amplitude, length, noise**2)
    numpyro.sample("y", dist.MultivariateNormal(jnp.zeros(len(x)), covariance_matrix=covariance), obs=y)


def counts_model(x: Any, y: Any) -> None:
    """y ~ Poisson(exp f), f = c + L η with K = L Lᵀ."""
    amplitude, length = _hyperparameters()
    level = numpyro.sample("level", dist.Normal(0.0, 2.0))
    eta = numpyro.sample("eta", dist.Normal(0.0, 1.0).expand([len(x)]).to_event(1))
    f = level + jnp.linalg.cholesky(_kernel(x, amplitude, length, 0.0)) @ eta
    numpyro.sample("y", dist.Poisson(jnp.exp(f)).to_event(1), obs=y)


def regression() -> Classic:
    """25 points, three hyperparameters."""
    rng = np.random.default_rng(141)
    x = np.sort(rng.uniform(-3, 3, 25))
    return Classic(regression_model, {"x": x, "y": np.sin(1.5 * x) + 0.3 * x + rng.normal(0, 0.4, 25)})


def counts() -> Classic:
    """20 points, 23 parameters."""
    rng = np.random.default_rng(142)
    x = np.linspace(-2, 2, 20)
    return Classic(counts_model, {"x": x, "y": rng.poisson(np.exp(1.0 + np.cos(2 * x))).astype(np.int32)})
