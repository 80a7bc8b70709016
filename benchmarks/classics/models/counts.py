"""Regressions of counts and of yes and no, with their usual links.

A Poisson regression with a log link has rates from 0.1 to some hundred: a few rows carry nearly all curvature,
minibatches that hold one of them have gradients many times those of others, and far from the mode the exponential
makes curvature explode. The negative binomial adds a dispersion that is tied to the intercept and has a skew
posterior. Logistic regression of a rare outcome (6 %) has a skew intercept and minibatches with hardly any positive.
"""

from typing import Any

import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist

from classics.classic import Classic


def logistic_model(x: Any, y: Any, batch_size: int | None = None) -> None:
    """y ~ Bernoulli(logit⁻¹ x β)."""
    beta = numpyro.sample("beta", dist.Normal(0.0, 2.5).expand([x.shape[1]]).to_event(1))
    with numpyro.plate("data", len(y), subsample_size=batch_size) as batch:
        numpyro.sample("y", dist.Bernoulli(logits=x[batch] @ beta), obs=y[batch])


def poisson_model(x: Any, exposure: Any, y: Any, batch_size: int | None = None) -> None:
    """y ~ Poisson(exposure · exp(x β))."""
    beta = numpyro.sample("beta", dist.Normal(0.0, 2.5).expand([x.shape[1]]).to_event(1))
    with numpyro.plate("data", len(y), subsample_size=batch_size) as batch:
        numpyro.sample("y", dist.Poisson(exposure[batch] * jnp.exp(x[batch] @ beta)), obs=y[batch])


def negative_binomial_model(x: Any, y: Any, batch_size: int | None = None) -> None:
    """y ~ NegativeBinomial with mean exp(x β) and concentration κ."""
    beta = numpyro.sample("beta", dist.Normal(0.0, 2.5).expand([x.shape[1]]).to_event(1))
    concentration = numpyro.sample("concentration", dist.Gamma(2.0, 0.5))
    with numpyro.plate("data", len(y), subsample_size=batch_size) as batch:
        rate = jnp.exp(x[batch] @ beta)
        numpyro.sample("y", dist.NegativeBinomial2(rate, concentration), obs=y[batch])


def _table(rng: Any, rows: int, columns: int) -> Any:
    return np.column_stack([np.ones(rows), rng.normal(size=(rows, columns - 1))])


def logistic() -> Classic:
    """2,000 rows, ten coefficients, 6 % positive."""
    rng = np.random.default_rng(111)
    x = _table(rng, 2000, 10)
    beta = np.concatenate([[-3.5], rng.normal(0, 0.6, 9)])
    y = (rng.random(2000) < 1 / (1 + np.exp(-x @ beta))).astype(np.int32)
    return Classic(logistic_model, {"x": x, "y": y}, batch_size=100)


def poisson() -> Classic:
    """1,000 rows, six coefficients, exposures over two orders of magnitude."""
    rng = np.random.default_rng(112)
    x = _table(rng, 1000, 6)
    exposure = np.exp(rng.normal(0, 1.0, 1000))
    beta = np.array([0.5, 0.8, -0.6, 0.3, 0.0, 0.4])
    y = rng.poisson(exposure * np.exp(x @ beta)).astype(np.int32)
    return Classic(poisson_model, {"x": x, "exposure": exposure, "y": y}, batch_size=100)


def negative_binomial() -> Classic:
    """800 rows, five coefficients, concentration 0.8."""
    rng = np.random.default_rng(113)
    x = _table(rng, 800, 5)
    rate = np.exp(x @ np.array([1.0, 0.5, -0.7, 0.2, 0.0]))
    y = rng.poisson(rng.gamma(0.8, rate / 0.8)).astype(np.int32)
    return Classic(negative_binomial_model, {"x": x, "y": y}, batch_size=80)
