"""What is expected of a sampler along a direction, against real chains."""

import numpy as np
import pytest

import stalegrad as sg
from stalegrad.analysis.diagnostics.kernel_theory import relaxation, variance_error
from stalegrad.protocol.chain import Chain
from stalegrad.theory import Direction, stale_baoab, stale_sghmc, stale_sgld, stale_ubu

SIZE = 64  # directions alike: one long chain is 64
LAMBDA = 50.0


def measured_error(kernel, tau, steps=3000, seed=2):
    """Relative error of the variance of an isotropic Gaussian in 64 dimensions, and its standard error."""
    potential = sg.potentials.from_gradient(lambda theta, _: LAMBDA * theta, SIZE, n_data=1, dtype=np.float64)
    trace = sg.Trace.constant_staleness(tau, steps, seed=seed)
    run = sg.replay(trace, potential, kernel, burn_in=steps // 6, thin=5)
    variance = sg.estimates.estimate((run.draws**2).mean(axis=2))
    return float(variance) * LAMBDA / kernel.temperature - 1, float(variance.standard_error) * LAMBDA


@pytest.mark.parametrize("integrator", ["euler", "splitting"])
@pytest.mark.parametrize("thermostats", ["shared", "each"])
@pytest.mark.parametrize(("tau", "h_frequency"), [(0, 0.6), (3, 0.2)])
def test_thermostats(integrator, thermostats, tau, h_frequency):
    h = h_frequency / np.sqrt(LAMBDA)
    kernel = sg.SGNHT(step_size=h, noise=2.0, integrator=integrator, thermostats=thermostats)
    expected = variance_error(kernel, tau, Direction(LAMBDA, mean_curvature=LAMBDA))
    found, error = measured_error(kernel, tau)
    assert abs(found - expected) < 5 * error + 0.03 * (1 + expected)


@pytest.mark.parametrize("h_frequency", [1.9, 2.1])
def test_thermostats_at_the_limit_of_stability_and_beyond(h_frequency):
    """The momentum's temperature is right, and the draws are four and five times too cold."""
    h = h_frequency / np.sqrt(LAMBDA)
    kernel = sg.SGNHT(step_size=h, noise=1.0, integrator="splitting")
    expected = variance_error(kernel, 0, Direction(LAMBDA, mean_curvature=LAMBDA))
    found, error = measured_error(kernel, 0)
    assert expected < -0.7
    assert abs(found - expected) < 5 * error + 0.02


def test_a_thermostat_that_nothing_holds():
    far = sg.SGNHT(step_size=3.0, noise=1.0)
    assert variance_error(far, 0, Direction(LAMBDA, mean_curvature=LAMBDA)) == np.inf
    assert variance_error(far, 0, Direction(LAMBDA)) == np.inf


def test_samplers_without_a_thermostat_are_the_recursions_of_the_theory():
    law = (0.25, 0.5, 0.25)
    direction = Direction(4.0, noise=3.0)
    sgld, psgld = sg.SGLD(step_size=0.02, temperature=2.0), sg.PSGLD(step_size=0.02, temperature=2.0)
    exact = stale_sgld(4.0, 0.02, law, temperature=2.0, gradient_variance=3.0).variance * 4.0 / 2.0 - 1
    assert variance_error(sgld, law, direction) == variance_error(psgld, law, direction) == exact
    for integrator in ("euler", "splitting"):
        sghmc = sg.SGHMC(step_size=0.1, friction=3.0, integrator=integrator)
        exact = stale_sghmc(4.0, 0.1, 3.0, law, integrator=integrator, gradient_variance=3.0).variance * 4.0 - 1
        assert variance_error(sghmc, law, direction) == pytest.approx(exact)
    for made, recursion in ((sg.BAOAB, stale_baoab), (sg.UBU, stale_ubu)):
        exact = recursion(4.0, 0.1, 3.0, law, gradient_variance=3.0).variance * 4.0 - 1
        assert variance_error(made(step_size=0.1, friction=3.0), law, direction) == pytest.approx(exact)
    assert variance_error(sg.SGLD(step_size=1.0), 3, direction) == np.inf


@pytest.mark.parametrize(
    "kernel",
    [
        sg.SGHMC(step_size=0.1, friction=5.0),
        sg.SGHMC(step_size=0.1, friction=5.0, integrator="splitting", temperature=0.5),
        sg.SGNHT(step_size=0.1, noise=5.0, temperature=2.0),
        sg.BAOAB(step_size=0.1, friction=5.0, temperature=2.0),
        sg.UBU(step_size=0.1, friction=5.0, temperature=0.5),
    ],
    ids=["euler", "splitting", "thermostat", "baoab", "ubu"],
)
def test_kinetic_temperature_without_a_force(kernel):
    chain = Chain(kernel, np.zeros((1, 4096)), 3, 0)
    total = 0.0
    for update in range(600):
        chain.advance(np.zeros((1, 4096)))
        total += float(np.square(chain.state.momentum).mean()) * (update >= 100)
    assert total / 500 == pytest.approx(kernel.free_kinetic_temperature(0.1), rel=0.02)
    assert sg.SGLD(step_size=0.1).free_kinetic_temperature(0.1) is None


@pytest.mark.parametrize(
    "kernel",
    [
        sg.SGLD(step_size=1e-4),
        sg.SGHMC(step_size=1e-3, friction=5.0),
        sg.SGNHT(step_size=1e-3, noise=2.0),
        sg.BAOAB(step_size=1e-3, friction=5.0),
        sg.UBU(step_size=1e-3, friction=5.0),
    ],
)
@pytest.mark.parametrize("noise", [100.0, 4000.0])
def test_relative_noise_is_what_noise_adds_to_the_variance_as_the_step_goes_to_zero(kernel, noise):
    h = kernel.step_size
    direction = Direction(1.0, noise=noise, mean_noise=0.3 * noise, mean_curvature=1.0)
    without = Direction(1.0, noise=0.3 * noise, mean_noise=0.3 * noise, mean_curvature=1.0)
    added = variance_error(kernel, 0, direction)
    if kernel.thermostat is None:
        without = Direction(1.0)
    assert kernel.relative_noise(h, direction) == pytest.approx(added - variance_error(kernel, 0, without), rel=0.02)


def test_relaxation_is_the_time_in_which_a_chain_forgets_all_but_one_eth():
    kernel = sg.SGLD(step_size=0.3 / LAMBDA)
    assert relaxation(kernel, 0, Direction(LAMBDA)) == pytest.approx(-1 / np.log(0.7))
    assert relaxation(sg.SGLD(step_size=3 / LAMBDA), 0, Direction(LAMBDA)) == np.inf


def test_the_noise_of_minibatches_beside_the_injected_noise():
    """h²V beside 2hT of SGLD, and beside 2γhT of SGHMC."""
    direction = Direction(LAMBDA, 6.0)
    assert sg.SGLD(step_size=0.1, temperature=2.0).relative_noise(0.1, direction) == pytest.approx(0.01 * 6 / 0.4)
    kernel = sg.SGHMC(step_size=0.1, friction=3.0, temperature=2.0)
    assert kernel.relative_noise(0.1, direction) == pytest.approx(0.01 * 6 / (3 * 0.4))
