"""A small neural network, judged by its predictions.

Ten tanh units may change places and signs, so the posterior of the weights has 10!·2¹⁰ mirror images with valleys
between them, and no chain ever mixes over them; nor does anybody want it to. What is asked for is the predicted curve
and its noise, which are the same in all images.
"""

from typing import Any

import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist

from classics.classic import Classic, Values

UNITS = 10
GRID = np.linspace(-2.2, 2.2, 12)


def curve(sites: Values, x: Any) -> Any:
    """The network's output at x."""
    hidden = jnp.tanh(x[:, None] * sites["in_weights"] + sites["in_bias"])
    return hidden @ sites["out_weights"] / jnp.sqrt(UNITS) + sites["out_bias"]


def model(x: Any, y: Any, batch_size: int | None = None) -> None:
    """y ~ N(f(x), σ²)."""
    sites = {
        name: numpyro.sample(name, dist.Normal(0.0, scale).expand([UNITS]).to_event(1))
        for name, scale in (("in_weights", 2.0), ("in_bias", 2.0), ("out_weights", 2.0))
    }
    sites["out_bias"] = numpyro.sample("out_bias", dist.Normal(0.0, 1.0))
    sigma = numpyro.sample("sigma", dist.HalfNormal(1.0))
    with numpyro.plate("data", len(y), subsample_size=batch_size) as batch:
        numpyro.sample("y", dist.Normal(curve(sites, x[batch]), sigma), obs=y[batch])


def predictions(sites: Values) -> Any:
    """The curve on a grid that reaches a little beyond the data, and log σ."""
    return jnp.concatenate([curve(sites, jnp.asarray(GRID)), sites["sigma"][None]])


def network() -> Classic:
    """200 points, 32 weights."""
    rng = np.random.default_rng(201)
    x = rng.uniform(-2, 2, 200)
    y = np.sin(2 * x) + 0.5 * x + rng.normal(0, 0.3, 200)
    return Classic(model, {"x": x, "y": y}, batch_size=50, predictions=predictions, nuts=(8, 1000, 2000))
