"""Time series, whose data cannot be subsampled: every gradient is a pass through time.

ARMA(1, 1) has a ridge along which autoregression and moving average cancel each other, and bounds at which stationarity
ends. GARCH(1, 1) has a variance that depends on all shocks before it; its persistence α + β leans against 1, where the
unconditional variance does not exist.
"""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist

from classics.classic import Classic


def arma_model(y: Any) -> None:
    """y_t = m + φ y_{t−1} + e_t + ϑ e_{t−1}."""
    mean = numpyro.sample("mean", dist.Normal(0.0, 5.0))
    phi = numpyro.sample("phi", dist.Uniform(-1.0, 1.0))
    theta = numpyro.sample("theta", dist.Uniform(-1.0, 1.0))
    sigma = numpyro.sample("sigma", dist.HalfNormal(2.0))

    def shock(carried: Any, now: Any) -> tuple[Any, Any]:
        before, error = carried
        error = now - (mean + phi * before + theta * error)
        return (now, error), error

    first = y[0] - mean / (1 - phi)
    _, errors = jax.lax.scan(shock, (y[0], jnp.zeros_like(mean)), y[1:])
    numpyro.factor("first", dist.Normal(0.0, sigma / jnp.sqrt(1 - phi**2)).log_prob(first))
    numpyro.factor("others", dist.Normal(0.0, sigma).log_prob(errors).sum())


def garch_model(y: Any) -> None:
    """y_t ~ N(m, σ²_t), σ²_t = ω + α (y_{t−1} − m)² + β σ²_{t−1}, α + β < 1."""
    mean = numpyro.sample("mean", dist.Normal(0.0, 1.0))
    omega = numpyro.sample("omega", dist.HalfNormal(1.0))
    persistence = numpyro.sample("persistence", dist.Uniform(0.0, 1.0))
    share = numpyro.sample("share", dist.Uniform(0.0, 1.0))
    alpha, beta = persistence * share, persistence * (1 - share)

    def variance(before: Any, last: Any) -> tuple[Any, Any]:
        now = omega + alpha * jnp.square(last - mean) + beta * before
        return now, now

    start = omega / (1 - 0.95 * persistence)
    _, variances = jax.lax.scan(variance, start, y[:-1])
    scales = jnp.sqrt(jnp.concatenate([start[None], variances]))
    numpyro.factor("returns", dist.Normal(mean, scales).log_prob(y).sum())


def arma() -> Classic:
    """200 points, four parameters."""
    rng = np.random.default_rng(151)
    errors, y = rng.normal(0, 0.8, 201), np.zeros(201)
    for t in range(1, 201):
        y[t] = 0.5 + 0.7 * y[t - 1] + errors[t] + 0.3 * errors[t - 1]
    return Classic(arma_model, {"y": y[1:]})


def garch() -> Classic:
    """300 points, four parameters."""
    rng = np.random.default_rng(152)
    y, variance = np.zeros(300), 1.0
    for t in range(300):
        y[t] = 0.1 + np.sqrt(variance) * rng.normal()
        variance = 0.1 + 0.25 * (y[t] - 0.1) ** 2 + 0.65 * variance
    return Classic(garch_model, {"y": y})
