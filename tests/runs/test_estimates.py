"""From draws to answers: φ of every draw, running averages, and φ̂ = Σ_s (T_s/T) φ̂_s."""

import numpy as np
import pytest

import stalegrad as sg

from .cases import KERNELS, RANDOM_ORDER, SIZE, gaussian, sample


def mean_square(theta):
    return (theta**2).mean(axis=-1)


def first_two(theta):
    return theta[..., :2]


@pytest.fixture(scope="module")
def run():
    """Two chains whose step sizes differ and vary."""
    kernels = [KERNELS["SGLD-schedule"], sg.SGLD(step_size=sg.schedules.Polynomial(1e-3, gamma=0.2))]
    return sample(gaussian(), kernels, steps=80, workers=3, servers=2, burn_in=8, thin=3, engine=RANDOM_ORDER)


@pytest.fixture(scope="module")
def repeated(run):
    kernels = [KERNELS["SGLD"], KERNELS["SGLD-schedule"]]  # the trace's own step sizes are used
    return sg.replay(run.trace, gaussian(), kernels, repeats=4)


PHIS = [(mean_square, ()), (first_two, (2,)), (lambda theta: theta.sum(-1) > 0, ())]


@pytest.mark.parametrize(("phi", "shape"), PHIS)
def test_evaluate_is_phi_of_every_draw(run, repeated, phi, shape):
    for given in (run, repeated):
        one_by_one, at_once = given.evaluate(phi), given.evaluate(phi, batched=True)
        assert one_by_one.shape == given.draws.shape[:-1] + shape
        np.testing.assert_array_equal(one_by_one, at_once)
        np.testing.assert_array_equal(at_once, phi(given.draws))


def test_a_batched_phi_that_is_not_is_refused(run):
    with pytest.raises(sg.ArgumentError, match=r"phi=.*gave shape \(\) for 48 draws\. A batched phi returns one row"):
        run.evaluate(lambda theta: theta.sum(), batched=True)


@pytest.mark.parametrize("phi", [mean_square, first_two])
def test_estimate_by_hand(run, phi):
    values, h = phi(run.draws.astype(float)), run.step_sizes
    assert h.shape == (2, 24)
    total = h.sum()
    by_hand = sum(h[s, i] / total * values[s, i] for s in range(2) for i in range(24))
    estimate = run.estimate(phi)
    np.testing.assert_allclose(estimate.value, by_hand, rtol=1e-6)
    np.testing.assert_allclose(estimate.weights, h.sum(axis=1) / total, rtol=1e-12)
    for s in range(2):
        np.testing.assert_allclose(estimate.chains[s], np.average(values[s], axis=0, weights=h[s]), rtol=1e-6)
    np.testing.assert_array_equal(estimate.value, run.estimate(phi, batched=True).value)
    assert not np.any(estimate.standard_error <= 0)  # of chains still on their way it is not known
    assert np.shape(estimate.standard_error) == np.shape(estimate.value)


def test_chains_with_different_constant_steps_count_by_their_time():
    """T_s = L h_s: a chain with three times the step has three times the weight."""
    run = sample(gaussian(), [sg.SGLD(step_size=1e-3), sg.SGLD(step_size=3e-3)], steps=50, servers=2)
    estimate = run.estimate(mean_square)
    np.testing.assert_allclose(estimate.weights, [0.25, 0.75], rtol=1e-12)
    means = mean_square(run.draws.astype(float)).mean(axis=1)
    np.testing.assert_allclose(float(estimate), 0.25 * means[0] + 0.75 * means[1], rtol=1e-6)


def test_each_server_uses_its_own_kernel():
    kernels = [KERNELS["SGHMC-splitting"], KERNELS["SGLD"], KERNELS["PSGLD"]]
    run = sample(gaussian(), kernels, steps=30, workers=2, servers=3)
    for s, kernel in enumerate(kernels):
        alone = sample(gaussian(), kernel, steps=30, workers=2, servers=3)
        np.testing.assert_array_equal(run.draws[s], alone.draws[s])
    assert [table["name"] for table in run.trace.record.kernels] == ["SGHMC", "SGLD", "PSGLD"]


@pytest.mark.parametrize("phi", [mean_square, first_two])
def test_estimates_of_repetitions_are_those_of_each(run, repeated, phi):
    estimate = repeated.estimate(phi, batched=True)
    np.testing.assert_allclose(estimate.value[0], run.estimate(phi).value, rtol=1e-12)
    np.testing.assert_allclose(estimate.standard_error[0], run.estimate(phi).standard_error, rtol=1e-9)
    for r in range(4):
        by_hand = sum(np.tensordot(repeated.step_sizes[s], phi(repeated.draws[r, s]), 1) for s in range(2))
        np.testing.assert_allclose(estimate.value[r], by_hand / repeated.step_sizes.sum(), rtol=1e-5)


@pytest.mark.parametrize("phi", [mean_square, first_two])
def test_running_averages(run, repeated, phi):
    for given in (run, repeated):
        running, values = given.running(phi, batched=True), phi(given.draws)
        assert running.shape == values.shape
        np.testing.assert_array_equal(running, given.running(phi))
        draws = np.moveaxis(values, given.draws.ndim - 2, 0)  # (draw, …, chain, φ)
        for stop in (1, 2, 10, 24):
            for s in range(2):
                weights = given.step_sizes[s, :stop]
                chain = (slice(None),) * (given.draws.ndim - 3) + (s,)
                expected = np.tensordot(weights, np.stack([d[chain] for d in draws[:stop]]), 1) / weights.sum()
                average = np.moveaxis(running, given.draws.ndim - 2, 0)[stop - 1][chain]
                np.testing.assert_allclose(average, expected, rtol=1e-5)


def test_running_ends_at_the_estimate_of_the_chain(run):
    np.testing.assert_allclose(run.running(first_two)[:, -1], run.estimate(first_two).chains, rtol=1e-12)


def test_phi_may_be_an_identity_with_many_coordinates(run):
    assert run.estimate(lambda theta: theta).value.shape == (SIZE,)


def test_averages_are_taken_in_double_precision():
    run = sample(gaussian(np.float32), KERNELS["SGLD"], steps=20)
    assert run.running(mean_square).dtype == np.float64
    assert run.estimate(mean_square).value.dtype == np.float64


def test_a_chain_that_has_not_arrived_has_no_standard_error():
    model = sg.potentials.GaussianMean(np.zeros(50), dtype=np.float64)
    run = sg.sample(
        model, sg.SGLD(step_size=1e-5), steps=400, initial=np.array([50.0]), engine="inline", progress=False
    )
    travelling = run.estimate(lambda theta: theta[0])
    assert np.isnan(travelling.standard_error)
    assert repr(travelling).endswith("± ?")
    assert run.estimate(lambda theta: 1.0).standard_error < 1e-12
