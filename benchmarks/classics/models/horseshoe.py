"""Sparse regression with a horseshoe prior, non-centred.

Every coefficient is z_j λ_j τ with half-Cauchy λ_j and τ: a funnel in each of them. Those of the noise have λ_j that
the data do not bound above nor below, with tails that are heavy even in the logarithm; those of the signals sit on the
ridge z_j λ_j = const. The reference itself is hard to come by.
"""

from typing import Any

import numpy as np
import numpyro
import numpyro.distributions as dist

from classics.classic import Classic


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


def horseshoe() -> Classic:
    """200 rows, 15 coefficients of which three are not 0."""
    rng = np.random.default_rng(181)
    x = rng.normal(size=(200, 15))
    beta = np.zeros(15)
    beta[[2, 7, 11]] = 1.5, -1.0, 0.6
    data = {"x": x, "y": x @ beta + rng.normal(0, 1.0, 200)}
    return Classic(model, data, batch_size=50, nuts=(8, 1500, 4000), acceptance=0.99)
