"""Posteriors of three NumPyro models, on minibatches, against NUTS on all data.

Wanted are means within 0.1 posterior standard deviations and standard deviations within 10 %, at the step sizes stated
here. The standard errors of the two samplers together are held below 0.03 standard deviations and 3 %. Minibatches hold
a quarter or a fifth of the data, and the thermostat takes up their noise.
"""

import jax
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest
from numpyro.infer import MCMC, NUTS

import stalegrad as sg
from stalegrad.analysis.estimates import mcse

pytestmark = pytest.mark.long

jnp = jax.numpy


def logistic(x, y, subsample_size=None):
    weights = numpyro.sample("weights", dist.Normal(0, 1).expand([x.shape[1]]).to_event(1))
    intercept = numpyro.sample("intercept", dist.Normal(0, 2))
    with numpyro.plate("data", len(x), subsample_size=subsample_size) as batch:
        numpyro.sample("y", dist.Bernoulli(logits=x[batch] @ weights + intercept), obs=y[batch])


def hierarchical(group, y, n_groups, subsample_size=None):
    mean = numpyro.sample("mean", dist.Normal(0, 1))
    spread = numpyro.sample("spread", dist.HalfNormal(1))
    with numpyro.plate("groups", n_groups):
        level = numpyro.sample("level", dist.Normal(mean, spread))
    numpyro.deterministic("best", level.max())
    with numpyro.plate("data", len(y), subsample_size=subsample_size) as batch:
        numpyro.sample("y", dist.Normal(level[group[batch]], 1.0), obs=y[batch])


def normal(y, subsample_size=None):
    mean = numpyro.sample("mean", dist.Normal(0, 5))
    scale = numpyro.sample("scale", dist.Gamma(2, 1))
    with numpyro.plate("data", len(y), subsample_size=subsample_size) as batch:
        numpyro.sample("y", dist.Normal(mean, scale), obs=y[batch])


def logistic_data(rng):
    x = rng.normal(size=(500, 4))
    return x, (rng.random(500) < 1 / (1 + np.exp(-x @ [1, -0.5, 0.25, 0] - 0.5))).astype(int)


def hierarchical_data(rng):
    group = np.repeat(np.arange(12), 15)
    return group, rng.normal(0.5, 1.0, size=12)[group] + rng.normal(size=group.size), 12


def normal_data(rng):
    return (rng.normal(1.5, 2.0, size=100),)


@pytest.mark.parametrize(("model", "data", "batch_size", "step_size", "noise"), [
    (logistic, logistic_data, 100, 0.03, 8.0),
    (hierarchical, hierarchical_data, 45, 0.06, 2.5),
    (normal, normal_data, 25, 0.05, 5.0),
])  # fmt: skip
def test_agrees_with_nuts(model, data, batch_size, step_size, noise):
    data = data(np.random.default_rng(1))
    potential = sg.potentials.from_numpyro(model, *data, subsample_size=batch_size)
    kernel = sg.SGNHT(step_size=step_size, noise=noise, thermostats="each", integrator="splitting")
    run = sg.sample(potential, kernel, steps=36_000, burn_in=1_000, thin=5, seed=3, engine="inline", progress=False)
    draws = potential.variables(run.draws)
    reference = nuts(model, data)
    assert draws.keys() == reference.keys()
    for name in reference:
        (mean, mean_error), (spread, spread_error) = comparison(draws[name], reference[name])
        print(f"{name}: means differ by {mean} ± {mean_error} deviations, deviations by {spread} ± {spread_error}")
        assert np.all(np.abs(mean) < 0.1)
        assert np.all(np.abs(spread) < 0.1)
        assert np.all(mean_error < 0.03)
        assert np.all(spread_error < 0.03)


def nuts(model, data):
    sampler = MCMC(NUTS(model), num_warmup=500, num_samples=6_000, progress_bar=False)
    sampler.run(jax.random.key(0), *(jnp.asarray(d) if isinstance(d, np.ndarray) else d for d in data))
    return sampler.get_samples(group_by_chain=True)


def comparison(draws, reference):
    """By how much means and deviations differ, in units of the reference's deviation, with standard errors."""
    centre, unit = np.mean(reference, (0, 1)), np.std(reference, (0, 1))
    ours, theirs = ((np.asarray(d, np.float64) - centre) / unit for d in (draws, reference))
    mean_error = np.hypot(mcse(ours), mcse(theirs))
    spread_error = np.hypot(mcse(ours**2), mcse(theirs**2)) / 2  # a deviation changes by half its square's change
    return (ours.mean((0, 1)), mean_error), (ours.std((0, 1)) - 1, spread_error)
