"""Eight groups with a mean each and known errors: the same law in two parametrisations.

Centred, the spread τ of the groups is the neck of a funnel: the groups' curvature is 1/τ², which spans orders of
magnitude within the posterior, no constant coordinates fit it, and the density has no mode at all (it grows without
bound as τ → 0). It is there to be refused or warned of. Non-centred, groups are μ + τ·η with standard normal η, and
the law is nearly Gaussian but for τ and η, which multiply each other.
"""

from typing import Any

import numpy as np
import numpyro
import numpyro.distributions as dist

from classics.classic import Classic, Values


def _hyperparameters() -> tuple[Any, Any]:
    return numpyro.sample("mu", dist.Normal(0.0, 10.0)), numpyro.sample("tau", dist.HalfCauchy(5.0))


def centred_model(y: Any, errors: Any) -> None:
    """θ_j ~ N(μ, τ²)."""
    mu, tau = _hyperparameters()
    theta = numpyro.sample("theta", dist.Normal(mu, tau).expand([len(errors)]).to_event(1))
    numpyro.sample("y", dist.Normal(theta, errors).to_event(1), obs=y)


def non_centred_model(y: Any, errors: Any) -> None:
    """θ_j = μ + τ·η_j, η_j ~ N(0, 1)."""
    mu, tau = _hyperparameters()
    eta = numpyro.sample("eta", dist.Normal(0.0, 1.0).expand([len(errors)]).to_event(1))
    theta = numpyro.deterministic("theta", mu + tau * eta)
    numpyro.sample("y", dist.Normal(theta, errors).to_event(1), obs=y)


def _data() -> dict[str, Any]:
    return {
        "y": np.array([21.0, 4.0, -6.0, 9.0, 1.0, -2.0, 16.0, 12.0]),
        "errors": np.array([14.0, 9.0, 17.0, 10.0, 12.0, 9.0, 13.0, 16.0]),
    }


def _centre(sites: Values) -> Values:
    theta = sites["mu"][:, None] + sites["tau"][:, None] * sites["eta"]
    return {"mu": sites["mu"], "tau": sites["tau"], "theta": theta}


def centred() -> Classic:
    """Ten parameters, eight data; its reference is sampled non-centred."""
    return Classic(centred_model, _data(), reference_model=non_centred_model, to_sites=_centre)


def non_centred() -> Classic:
    """Ten parameters, eight data."""
    return Classic(non_centred_model, _data())
