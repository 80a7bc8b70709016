"""Ordinal regression: five ordered answers, cut points that must stay in order.

The cut points' unconstrained form is the first of them and the logarithms of the gaps; a rare category in the middle
makes its gap's posterior skew, and all cut points move together with the scale of the coefficients.
"""

from typing import Any

import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist

from classics.classic import Classic


def model(x: Any, y: Any, batch_size: int | None = None) -> None:
    """P(y ≤ k) = logit⁻¹(c_k − x β)."""
    beta = numpyro.sample("beta", dist.Normal(0.0, 2.5).expand([x.shape[1]]).to_event(1))
    ordered = dist.transforms.OrderedTransform()
    base = dist.Normal(0.0, 2.0).expand([4]).to_event(1)
    cuts = numpyro.sample("cuts", dist.TransformedDistribution(base, ordered))
    with numpyro.plate("data", len(y), subsample_size=batch_size) as batch:
        numpyro.sample("y", dist.OrderedLogistic(x[batch] @ beta, jnp.asarray(cuts)), obs=y[batch])


def ordinal() -> Classic:
    """600 rows, four coefficients, four cut points, of which two are close."""
    rng = np.random.default_rng(161)
    x = rng.normal(size=(600, 4))
    latent = x @ np.array([1.2, -0.8, 0.4, 0.0]) + rng.logistic(size=600)
    y = np.searchsorted([-2.0, 0.0, 0.15, 2.5], latent).astype(np.int32)
    return Classic(model, {"x": x, "y": y}, batch_size=60)
