"""Linear regressions as they come: in raw units, and with predictors that say the same.

In raw units (dollars, square feet, years, metres) the posterior's standard deviations span five orders of magnitude,
and the intercept is a house of no size built in the year 0, which leaves it tied to the slope of the year by a
correlation of 0.9999. With collinear predictors, six of them noisy copies of two, only sums of coefficients are known,
and the curvatures of the sums and the differences are a thousandfold apart in directions that no scaling of single
coordinates can mend. Either way a step size for the raw coordinates crawls.
"""

from typing import Any

import numpy as np
import numpyro
import numpyro.distributions as dist

from classics.classic import Classic


def regression(x: Any, y: Any, coefficient_scale: Any, noise_scale: float, batch_size: int | None = None) -> None:
    """y ~ N(x β, σ²) with β_j ~ N(0, c_j²) and σ half-normal."""
    beta = numpyro.sample("beta", dist.Normal(0.0, coefficient_scale).to_event(1))
    sigma = numpyro.sample("sigma", dist.HalfNormal(noise_scale))
    with numpyro.plate("data", len(y), subsample_size=batch_size) as batch:
        numpyro.sample("y", dist.Normal(x[batch] @ beta, sigma), obs=y[batch])


def raw_units() -> Classic:
    """Prices of 1,000 houses by area, year, distance and bedrooms, nothing standardised."""
    rng = np.random.default_rng(101)
    area = rng.gamma(9.0, 200.0, 1000)
    year = np.round(rng.normal(1975.0, 20.0, 1000))
    distance = rng.gamma(2.0, 2500.0, 1000)
    bedrooms = np.clip(np.round(area / 600 + rng.normal(0, 0.7, 1000)), 1, None)
    x = np.column_stack([np.ones(1000), area, year, distance, bedrooms])
    y = x @ np.array([-1.5e6, 110.0, 800.0, -6.0, 9000.0]) + rng.normal(0, 40_000.0, 1000)
    return Classic(
        regression, {"x": x, "y": y, "coefficient_scale": np.array([5e6, 1e3, 5e3, 100.0, 1e5]), "noise_scale": 1e5},
        batch_size=100,
    )  # fmt: skip


def collinear() -> Classic:
    """500 rows, eight predictors of which each three copies share a factor, correlated by 0.999."""
    rng = np.random.default_rng(102)
    factors = rng.normal(size=(500, 2))
    copies = np.repeat(factors, 3, axis=1) + 0.03 * rng.normal(size=(500, 6))
    x = np.column_stack([np.ones(500), copies, rng.normal(size=500)])
    y = x @ np.array([1.0, 0.5, 0.5, 0.5, -0.4, 0.0, 0.4, 0.8]) + rng.normal(0, 0.7, 500)
    return Classic(
        regression, {"x": x, "y": y, "coefficient_scale": np.full(8, 5.0), "noise_scale": 2.0}, batch_size=50
    )
