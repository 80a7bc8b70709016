"""Regression with Student-t errors, of which a tenth are gross.

Far from the mode each gradient vanishes instead of pulling harder, so that a start beyond the outliers sees nearly flat
ground; degrees of freedom and scale trade off along a banana; and the degrees of freedom have a long right tail on
their own scale.
"""

from typing import Any

import numpy as np
import numpyro
import numpyro.distributions as dist

from classics.classic import Classic


def model(x: Any, y: Any, batch_size: int | None = None) -> None:
    """y ~ t_ν(x β, σ), ν ~ Gamma(2, 0.1)."""
    beta = numpyro.sample("beta", dist.Normal(0.0, 5.0).expand([x.shape[1]]).to_event(1))
    sigma = numpyro.sample("sigma", dist.HalfNormal(5.0))
    nu = numpyro.sample("nu", dist.Gamma(2.0, 0.1))
    with numpyro.plate("data", len(y), subsample_size=batch_size) as batch:
        numpyro.sample("y", dist.StudentT(nu, x[batch] @ beta, sigma), obs=y[batch])


def student_t() -> Classic:
    """500 rows, five coefficients; 50 errors ten times as large."""
    rng = np.random.default_rng(121)
    x = np.column_stack([np.ones(500), rng.normal(size=(500, 4))])
    errors = rng.normal(0, 1.0, 500) * np.where(rng.random(500) < 0.1, 10.0, 1.0)
    return Classic(model, {"x": x, "y": x @ np.array([2.0, 1.0, -1.0, 0.5, 0.0]) + errors}, batch_size=50)
