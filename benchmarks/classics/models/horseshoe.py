"""Sparse regression with a horseshoe prior, non-centred.

Every coefficient is z_j λ_j τ with half-Cauchy λ_j and τ: a funnel in each of them. Those of the noise have λ_j that
the data do not bound above nor below, with tails that are heavy even in the logarithm; those of the signals sit on the
ridge z_j λ_j = const. NUTS fails on that ridge as on any funnel (R-hat 1.02, 625 divergences in 16,000 draws), so that
its reference, which is still to be made, is the same law with the coefficients of the signals centred: β_j itself,
whose conditional law is normal.
"""

from typing import Any

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


def partly_centred(x: Any, y: Any) -> None:
    """The same law, of β_j for the signals and of z_j for all others."""
    columns = x.shape[1]
    tau = numpyro.sample("tau", dist.HalfCauchy(0.1))
    local = numpyro.sample("local", dist.HalfCauchy(1.0).expand([columns]).to_event(1))
    strong = numpyro.sample("strong", dist.Normal(0.0, local[SIGNALS] * tau).to_event(1))
    z = numpyro.sample("z", dist.Normal(0.0, 1.0).expand([columns - len(SIGNALS)]).to_event(1))
    sigma = numpyro.sample("sigma", dist.HalfNormal(2.0))
    others = np.setdiff1d(np.arange(columns), SIGNALS)
    beta = jnp.zeros(columns).at[SIGNALS].set(strong).at[others].set(z * local[others] * tau)
    numpyro.sample("y", dist.Normal(x @ beta, sigma), obs=y)


def non_centred_sites(draws: Values) -> Values:
    """Draws of the partly centred model as those of the other: z_j = β_j / (λ_j τ) of the signals."""
    columns = draws["local"].shape[1]
    others = np.setdiff1d(np.arange(columns), SIGNALS)
    z = jnp.zeros(draws["local"].shape).at[:, others].set(draws["z"])
    z = z.at[:, SIGNALS].set(draws["strong"] / (draws["local"][:, SIGNALS] * draws["tau"][:, None]))
    return {"tau": draws["tau"], "local": draws["local"], "z": z, "sigma": draws["sigma"]}


def horseshoe() -> Classic:
    """200 rows, 15 coefficients of which three are not 0."""
    rng = np.random.default_rng(181)
    x = rng.normal(size=(200, 15))
    beta = np.zeros(15)
    beta[SIGNALS] = 1.5, -1.0, 0.6
    data = {"x": x, "y": x @ beta + rng.normal(0, 1.0, 200)}
    return Classic(
        model, data, batch_size=50, reference_model=partly_centred, to_sites=non_centred_sites, nuts=(8, 1500, 4000),
        acceptance=0.97,
    )  # fmt: skip
