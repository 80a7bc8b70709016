"""Mixtures of two normals, their labels summed out.

With ordered means the posterior has one mode that matters, skew where the components overlap, and flat ground where one
component has lost all its data. Without an order it has two mirror images that no local chain can travel between: every
chain sees half of the truth and looks perfect by itself. The second is there to be warned of.
"""

from typing import Any

import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist

from classics.classic import Classic, Values


def _mixture(y: Any, means: Any, batch_size: int | None) -> None:
    sigmas = numpyro.sample("sigmas", dist.LogNormal(0.0, 1.0).expand([2]).to_event(1))
    weight = numpyro.sample("weight", dist.Beta(2.0, 2.0))
    with numpyro.plate("data", len(y), subsample_size=batch_size) as batch:
        mixing = dist.Categorical(probs=jnp.stack([weight, 1 - weight]))
        numpyro.sample("y", dist.MixtureSameFamily(mixing, dist.Normal(means, sigmas)), obs=y[batch])


def ordered_model(y: Any, batch_size: int | None = None) -> None:
    """m_1 < m_2."""
    first = numpyro.sample("first", dist.Normal(0.0, 5.0))
    gap = numpyro.sample("gap", dist.HalfNormal(5.0))
    _mixture(y, jnp.stack([first, first + gap]), batch_size)


def unordered_model(y: Any, batch_size: int | None = None) -> None:
    """Means that may change places."""
    _mixture(y, numpyro.sample("means", dist.Normal(0.0, 5.0).expand([2]).to_event(1)), batch_size)


def _mirror(sites: Values) -> Values:
    """Both labellings of a draw are equally likely: the even draws keep theirs, the odd ones change it."""
    means = jnp.stack([sites["first"], sites["first"] + sites["gap"]], -1)
    odd = (jnp.arange(len(means)) % 2 == 1)[:, None]
    return {
        "means": jnp.where(odd, means[:, ::-1], means),
        "sigmas": jnp.where(odd, sites["sigmas"][:, ::-1], sites["sigmas"]),
        "weight": jnp.where(odd[:, 0], 1 - sites["weight"], sites["weight"]),
    }


def _data() -> dict[str, Any]:
    rng = np.random.default_rng(171)
    first = rng.random(500) < 0.35
    return {"y": np.where(first, rng.normal(-1.0, 0.7, 500), rng.normal(1.5, 1.1, 500))}


def ordered() -> Classic:
    """500 data, five parameters."""
    return Classic(ordered_model, _data(), batch_size=50)


def unordered() -> Classic:
    """500 data, five parameters, two modes; its reference is that of the ordered means, mirrored."""
    return Classic(unordered_model, _data(), batch_size=50, reference_model=ordered_model, to_sites=_mirror)
