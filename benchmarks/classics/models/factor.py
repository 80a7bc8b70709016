"""A factor model: six measurements of two unseen factors, which are integrated out.

The data are N(m, Λ Λᵀ + Ψ). Loadings are known up to a rotation, which a triangular Λ with a positive diagonal takes
away; what is left are products of loadings, strongly correlated, and a log-diagonal with a tail towards 0, where a
factor loses its anchor. There, with the second factor's other loadings of the opposite sign, is another mode. Its mass
is e⁻⁷⁸ of all (by Laplace's approximation). Five of twelve searches from random places end in it, and NUTS from random
starts has an R-hat of 10. So its reference is to be of chains that start in the mode that has the mass.
"""

from typing import Any

import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist

from classics.classic import Classic

MEASUREMENTS, FACTORS = 6, 2
_FREE = np.tril_indices(MEASUREMENTS, -1, FACTORS)


def priors() -> tuple[Any, Any]:
    """m and Λ Λᵀ + Ψ, Λ lower triangular with a positive diagonal."""
    mean = numpyro.sample("mean", dist.Normal(0.0, 5.0).expand([MEASUREMENTS]).to_event(1))
    anchors = numpyro.sample("anchors", dist.HalfNormal(1.5).expand([FACTORS]).to_event(1))
    free = numpyro.sample("free", dist.Normal(0.0, 1.0).expand([len(_FREE[0])]).to_event(1))
    noise = numpyro.sample("noise", dist.HalfNormal(1.0).expand([MEASUREMENTS]).to_event(1))
    loadings = jnp.zeros((MEASUREMENTS, FACTORS)).at[_FREE].set(free)
    loadings = loadings.at[jnp.arange(FACTORS), jnp.arange(FACTORS)].set(anchors)
    return mean, loadings @ loadings.T + jnp.diag(noise**2)


def model(x: Any, batch_size: int | None = None) -> None:
    """Rows of x ~ N(m, Λ Λᵀ + Ψ)."""
    mean, covariance = priors()
    with numpyro.plate("data", len(x), subsample_size=batch_size) as batch:
        numpyro.sample("x", dist.MultivariateNormal(mean, covariance_matrix=covariance), obs=x[batch])


def summed(x: Any) -> None:
    """The same law from the mean and the scatter of the rows, which is all that a normal law knows of them."""
    mean, covariance = priors()
    centre = x.mean(axis=0)
    scatter = (x - centre).T @ (x - centre) + len(x) * jnp.outer(centre - mean, centre - mean)
    root = jnp.linalg.cholesky(covariance)
    inverse = jnp.linalg.inv(root)
    half = len(x) * jnp.log(jnp.diagonal(root)).sum() + jnp.trace(inverse @ scatter @ inverse.T) / 2
    numpyro.factor("x", -half)


def factor() -> Classic:
    """300 rows, 23 parameters."""
    rng = np.random.default_rng(131)
    loadings = np.array([[1.0, 0.0], [0.5, 0.9], [0.8, -0.3], [0.2, 0.7], [-0.6, 0.4], [0.4, 0.5]])
    scores = rng.normal(size=(300, FACTORS))
    noise = np.array([0.5, 0.6, 0.4, 0.7, 0.5, 0.8])
    x = scores @ loadings.T + noise * rng.normal(size=(300, MEASUREMENTS)) + np.arange(MEASUREMENTS) / 2
    start = {"anchors": loadings[[0, 1], [0, 1]], "free": loadings[_FREE]}
    return Classic(model, {"x": x}, batch_size=50, reference_model=summed, start=start)
