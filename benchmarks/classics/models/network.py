"""A small neural network, judged by its predictions.

Ten tanh units may change places and signs, so the posterior of the weights has 10!·2¹⁰ mirror images with valleys
between them, and no chain ever mixes over them; nor does anybody want it to. What is asked for is the predicted curve
and its noise, which are the same in all images. Even so NUTS takes some 900 gradients a draw, and with 200 points and
wider priors it did not end; hence few points and priors of scale 1.
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
        name: numpyro.sample(name, dist.Normal(0.0, 1.0).expand([UNITS]).to_event(1))
        for name in ("in_weights", "in_bias", "out_weights")
    }
    sites["out_bias"] = numpyro.sample("out_bias", dist.Normal(0.0, 1.0))
    sigma = numpyro.sample("sigma", dist.HalfNormal(1.0))
    with numpyro.plate("data", len(y), subsample_size=batch_size) as batch:
        numpyro.sample("y", dist.Normal(curve(sites, x[batch]), sigma), obs=y[batch])


def predictions(sites: Values) -> Any:
    """The curve on a grid that reaches a little beyond the data, and log σ."""
    return jnp.concatenate([curve(sites, jnp.asarray(GRID)), sites["sigma"][None]])


def network() -> Classic:
    """40 points, 32 weights."""
    rng = np.random.default_rng(201)
    x = rng.uniform(-2, 2, 40)
    y = np.sin(2 * x) + 0.5 * x + rng.normal(0, 0.3, 40)
    data = {"x": x, "y": y}
    return Classic(model, data, batch_size=20, predictions=predictions, nuts=(8, 400, 500), acceptance=0.8)
