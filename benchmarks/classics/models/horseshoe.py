"""Sparse regression with a horseshoe prior, non-centred.

Every coefficient is z_j λ_j τ with half-Cauchy λ_j and τ: a funnel in each of them. Those of the noise have λ_j that
the data do not bound above nor below, with tails that are heavy even in the logarithm; those of the signals sit on the
ridge z_j λ_j = const. NUTS fails on that ridge as on any funnel (R-hat 1.02, 625 divergences in 16,000 draws). Its
reference is of the same law without coefficients: given scales and noise they are normal and are integrated out, so
that NUTS samples λ, τ and σ alone, and each draw then gets coefficients of their exact conditional law.
"""

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist

from classics.classic import Classic, Values

SIGNALS = np.array([2, 7, 11])
"""Coefficients that are not 0 in what makes up the data."""


def model(x: Any, y: Any, batch_size: int | None = None) -> None:
    """β_j = z_j λ_j τ."""
    columns = x.shape[1]
    tau = numpyro.sample("tau", dist.HalfCauchy(0.1))
    local = numpyro.sample("local", dist.HalfCauchy(1.0).expand([columns]).to_event(1))
    z = numpyro.sample("z", dist.Normal(0.0, 1.0).expand([columns]).to_event(1))
    sigma = numpyro.sample("sigma", dist.HalfNormal(2.0))
    beta = numpyro.deterministic("beta", z * local * tau)
    with numpyro.plate("data", len(y), subsample_size=batch_size) as batch:
        numpyro.sample("y", dist.Normal(x[batch] @ beta, sigma), obs=y[batch])


def _normal(scales: Any, sigma: Any, x: Any, y: Any) -> tuple[Any, Any]:
    """Of z given all else, N(P⁻¹ b, P⁻¹) with S = diag(λ τ): P = I + S Xᵀ X S/σ², by its Cholesky root, and b."""
    scaled = x * scales
    precision = jnp.eye(x.shape[1]) + scaled.T @ scaled / sigma**2
    return jnp.linalg.cholesky(precision), scaled.T @ y / sigma**2


def without_coefficients(x: Any, y: Any) -> None:
    """The law of λ, τ and σ: p(y) = N(0, σ² I + X S² Xᵀ), which is ∝ σ⁻ᴺ |P|^−½ exp(−(yᵀy/σ² − bᵀ P⁻¹ b)/2)."""
    tau = numpyro.sample("tau", dist.HalfCauchy(0.1))
    local = numpyro.sample("local", dist.HalfCauchy(1.0).expand([x.shape[1]]).to_event(1))
    sigma = numpyro.sample("sigma", dist.HalfNormal(2.0))
    root, b = _normal(local * tau, sigma, x, y)
    explained = jnp.square(jax.scipy.linalg.solve_triangular(root, b, lower=True)).sum()
    half = len(y) * jnp.log(sigma) + jnp.log(jnp.diagonal(root)).sum() + ((y @ y) / sigma**2 - explained) / 2
    numpyro.factor("y", -half)


def with_coefficients(draws: Values, x: Any, y: Any) -> Values:
    """Draws of λ, τ and σ with z drawn from its conditional law, P⁻¹ b + L⁻ᵀ ζ with P = L Lᵀ."""

    def conditional(draw: Values, normal: Any) -> Any:
        root, b = _normal(draw["local"] * draw["tau"], draw["sigma"], x, y)
        half = jax.scipy.linalg.solve_triangular(root, b, lower=True) + normal
        return jax.scipy.linalg.solve_triangular(root.T, half, lower=False)

    normals = np.random.default_rng(182).normal(size=draws["local"].shape)
    sites = {name: draws[name] for name in ("tau", "local", "sigma")}
    return {**sites, "z": jax.vmap(conditional)(sites, normals)}


def horseshoe() -> Classic:
    """200 rows, 15 coefficients of which three are not 0."""
    rng = np.random.default_rng(181)
    x = rng.normal(size=(200, 15))
    beta = np.zeros(15)
    beta[SIGNALS] = 1.5, -1.0, 0.6
    data = {"x": x, "y": x @ beta + rng.normal(0, 1.0, 200)}
    return Classic(
        model, data, batch_size=50, reference_model=without_coefficients, to_sites=partial(with_coefficients, **data),
        nuts=(8, 1000, 2000), acceptance=0.95,
    )  # fmt: skip
