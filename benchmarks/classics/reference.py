"""What NUTS says of a posterior: run it for long in double precision, keep the summary as JSON."""

import json
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from classics.catalogue import REFERENCES, file_name
from classics.classic import Classic
from classics.summary import Summary, summarise

FOLDER = REFERENCES
DIGITS = 6


def read(name: str) -> dict[str, Summary]:
    """The reference of a posterior, by site."""
    sites = json.loads((FOLDER / f"{file_name(name)}.json").read_text(encoding="utf-8"))["sites"]
    return {site: Summary(*(np.array(columns[field]) for field in Summary._fields)) for site, columns in sites.items()}


def write(name: str, found: Mapping[str, Summary], how: Mapping[str, Any]) -> Path:
    """Keep it, with how it was made: chains, draws, seconds, divergences."""
    sites = {site: {key: _rounded(value) for key, value in each._asdict().items()} for site, each in found.items()}
    worst = {
        "worst_ess": round(min(float(each.ess.min()) for each in found.values())),
        "worst_rhat": round(max(float(each.rhat.max()) for each in found.values()), 4),
    }
    file = FOLDER / f"{file_name(name)}.json"
    lines = [f" {json.dumps(key)}: {json.dumps(value)}" for key, value in ({"name": name, **how, **worst}).items()]
    columns = [f"  {json.dumps(site)}: {json.dumps(each)}" for site, each in sites.items()]
    text = "{\n" + ",\n".join([*lines, ' "sites": {\n' + ",\n".join(columns) + "\n }"]) + "\n}\n"
    file.write_text(text, encoding="utf-8")
    return file


def nuts(classic: Classic, seed: int = 0) -> tuple[dict[str, Summary], dict[str, Any]]:
    """Run it: the summaries of what is compared, and how they were made. JAX must be in its 64-bit mode."""
    import jax
    from numpyro.infer import MCMC, NUTS, init_to_uniform, init_to_value

    chains, adaptation, draws = classic.nuts
    begun = time.perf_counter()
    sampled = classic.reference_model or classic.model
    start = None
    if classic.whiten is None:
        begin = init_to_uniform if classic.start is None else init_to_value(values=dict(classic.start))
        kernel = NUTS(sampled, dense_mass=True, target_accept_prob=classic.acceptance, init_strategy=begin)
    else:
        energy, origin = _whitened(classic)
        kernel = NUTS(potential_fn=energy, target_accept_prob=classic.acceptance)
        start = jax.tree.map(lambda leaf: np.stack([leaf] * chains), origin)
    mcmc = MCMC(
        kernel, num_warmup=adaptation, num_samples=draws, num_chains=chains, chain_method="vectorized",
        progress_bar=False,
    )  # fmt: skip
    data = {} if start is not None else _arrays(classic)
    mcmc.run(jax.random.key(seed), init_params=start, extra_fields=("diverging", "num_steps"), **data)
    fields = jax.block_until_ready(mcmc.get_extra_fields())
    seconds = time.perf_counter() - begun
    how = {
        "sampler": "NumPyro NUTS, float64", "seed": seed, "chains": chains, "adaptation": adaptation, "draws": draws,
        "divergences": int(fields["diverging"].sum()), "gradients": int(fields["num_steps"].sum()),
        "seconds": round(seconds, 1),
    }  # fmt: skip
    return summarise(_judged(classic, mcmc.get_samples(), chains)), how


def _whitened(classic: Classic) -> tuple[Any, Any]:
    """U in the coordinates z, and their origin."""
    import jax.numpy as jnp
    from numpyro.infer.util import potential_energy

    data = _arrays(classic)
    origin = {name: jnp.zeros(site["value"].shape) for name, site in _latent(classic).items()}
    return lambda z: potential_energy(classic.model, (), data, classic.whiten(z)), origin


def _latent(classic: Classic) -> dict[str, Any]:
    """The sites that are sampled, in the order of θ."""
    from numpyro import handlers

    trace = handlers.trace(handlers.seed(classic.model, 0)).get_trace(**_arrays(classic))
    return {n: s for n, s in sorted(trace.items()) if s["type"] == "sample" and not s["is_observed"]}


def _judged(classic: Classic, samples: Any, chains: int) -> dict[str, Any]:
    """What is compared, (chain, draw, k) each, from the draws of NUTS, all chains after each other."""
    import jax
    from numpyro.infer.util import unconstrain_fn

    if classic.whiten is not None:
        free = jax.lax.map(classic.whiten, samples)
    else:
        sites = samples if classic.to_sites is None else classic.to_sites(samples)
        latent = {name: sites[name] for name in _latent(classic)}
        free = jax.vmap(lambda each: unconstrain_fn(classic.model, (), _arrays(classic), each))(latent)
    if classic.predictions is not None:
        free = {"predictions": jax.lax.map(classic.predictions, free)}
    return {name: np.asarray(each).reshape(chains, len(each) // chains, -1) for name, each in free.items()}


def _arrays(classic: Classic) -> dict[str, Any]:
    """The model's arguments, of which those that are arrays are JAX's, so that traced numbers may index them."""
    import jax.numpy as jnp

    return {
        name: jnp.asarray(value) if isinstance(value, np.ndarray) else value for name, value in classic.data.items()
    }


def _rounded(values: Any) -> list[float]:
    return [float(f"{value:.{DIGITS}g}") for value in values]
