"""What the checks assume of a kernel's error, held against the theory and against runs whose errors are large."""

from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

import stalegrad as sg
from stalegrad.protocol.chain import Chain
from stalegrad.protocol.executor import execute
from stalegrad.theory import stale_sghmc, stale_sgld

from .cases import KERNELS, STALENESS, case, metric_error
from .conjugate import NormalMean
from .exact_law import joint_moments, law_after
from .joint_distribution import allowances, marginal_conditional, successive_conditional

pytestmark = pytest.mark.long

FALSE_ALARM = 1e-6
ROWS = 1000
MODEL = NormalMean(coordinates=8)
LINEAR = ("SGLD", "SGHMC-euler", "SGHMC-splitting")
COARSE = 0.04  # a relative step with errors of 5 to 30 %
Z = stats.norm.isf(FALSE_ALARM / 2)


def variance_at_end(sampler, model, trace):
    """λ times the variance of θ over repetitions, on average over coordinates; its standard error; and s²."""
    rng = np.random.Generator(np.random.Philox(key=5))
    data = model.data(model.parameters(rng), rng)
    potential = model.potential(data)
    mean = potential.posterior()[0]
    chain = Chain(sampler.kernel, np.repeat(mean[np.newaxis], ROWS, axis=0), 5, 0)
    sampler.prepare(chain.state, rng)
    execute(trace.chains[0], potential, chain, lambda *_: None)
    squares = model.curvature * ((chain.position - mean) ** 2).mean(axis=1)
    return squares.mean(), squares.std() / ROWS**0.5, data.var(axis=0, ddof=1).mean()


@pytest.mark.parametrize("tau", [0, 3])
@pytest.mark.parametrize(
    "recursion_at",
    [lambda tau: stale_sgld(3.0, 0.05, tau), lambda tau: stale_sghmc(3.0, 0.1, 2.0, tau, integrator="splitting")],
)
def test_at_constant_staleness_it_is_the_law_of_the_theory(recursion_at, tau):
    recursion = recursion_at(tau)
    expected = recursion.after(recursion.start(0.0, momentum_variance=1.0), 30).covariance
    np.testing.assert_allclose(law_after(recursion_at, [tau] * 30).covariance, expected, rtol=1e-12, atol=1e-15)


@pytest.mark.parametrize("kernel", LINEAR)
def test_law_of_a_linear_chain_along_a_trace(kernel):
    sampler = case(kernel, MODEL, COARSE)
    trace = STALENESS["random"](60)
    measured, error, spread = variance_at_end(sampler, MODEL, trace)
    v = float(MODEL.gradient_variance(spread))
    law = law_after(lambda tau: sampler.recursion(tau, v, 1.0), trace.chains[0].staleness.tolist())
    exact = MODEL.curvature * law.covariance[0, 0]
    assert abs(exact - 1) > 5 * error, "the step is too small for the law to matter"
    assert abs(measured - exact) < Z * error


@pytest.mark.parametrize("kernel", LINEAR)
def test_joint_moments_of_a_linear_chain_along_a_trace(kernel):
    model = NormalMean(coordinates=64)
    sampler, trace, block = case(kernel, model, COARSE), STALENESS["random"](180), 6
    given = {"prior": 1.0, "weight": model.weight_of_data, "error": model.noise_scale**2 / model.n_data}
    v = float(model.gradient_variance())
    exact = joint_moments(
        lambda tau: sampler.recursion(tau, v, 1.0), trace.chains[0].staleness.tolist(), block, **given
    )
    assert max(np.abs(np.array(exact) - 1)) > 0.05, "the step is too small for the law to matter"
    runs = successive_conditional(sampler, trace, model, model, block=block, chains=40, seed=6)
    assert stats.ttest_1samp(runs[:, 1:3], exact).pvalue.min() > FALSE_ALARM


@pytest.mark.parametrize("kind", ["fresh", "random"])
@pytest.mark.parametrize("kernel", [name for name in KERNELS if name.startswith("SGNHT")])
def test_error_of_thermostats_is_within_its_bound(kernel, kind):
    """In the posterior and in the joint law; and the bound on Euler's error is nearly reached."""
    sampler = case(kernel, MODEL, COARSE)
    trace = STALENESS[kind](150)
    bound = sampler.beyond(int(trace.chains[0].staleness.max()))
    measured, error, _ = variance_at_end(sampler, MODEL, trace)
    assert abs(measured - 1) < bound + Z * error
    if "euler" in kernel and kind == "fresh":
        assert measured - 1 < -bound / 2
    model = NormalMean(coordinates=64)
    joint, marginal = case(kernel, model, COARSE), marginal_conditional(model, pairs=2000, seed=8)
    runs = successive_conditional(joint, trace, model, model, block=6, chains=20, seed=7)
    standard_error = runs.std(axis=0, ddof=1) / len(runs) ** 0.5
    limit = stats.t.isf(FALSE_ALARM / 2, len(runs) - 1)
    difference = np.abs(runs.mean(axis=0) - marginal.mean(axis=0))
    assert (difference < allowances(joint, trace, model, block=6) + limit * standard_error).all()


def test_error_of_a_moving_metric_is_within_its_bound():
    """Exact gradients, so that all of V is due to θ, and a memory short enough to see it."""
    model, memory = replace(MODEL, batch_size=MODEL.n_data), 0.998
    right = case("PSGLD", model, 0.01)
    sampler = replace(right, kernel=replace(right.kernel, decay=memory))
    trace = sg.Trace.constant_staleness(0, 1000)
    measured, error, _ = variance_at_end(sampler, model, trace)
    step = stale_sgld(model.curvature, 0.01 / model.curvature).variance * model.curvature - 1
    bound = metric_error(0.01, memory, 1.0)
    assert bound / 3 < measured - 1 - step < bound + Z * error
