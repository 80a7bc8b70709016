"""The formula written once: NumPy, JAX and torch agree; and what is special in one kernel or another."""

import numpy as np
import pytest
from scipy import linalg

from stalegrad.kernels import BAOAB, SGHMC, SGLD, SGNHT, UBU, Address
from stalegrad.kernels.schedules import Inverse
from stalegrad.protocol.chain import Chain
from stalegrad.theory.free_motion import flow_coefficients

from .samplers import EVERY_KERNEL

REPEATS, SIZE = 2, 300
every_kernel = pytest.mark.parametrize("name", EVERY_KERNEL)


def _start(kernel, dtype):
    """Positive positions, which every kernel can start from."""
    theta, gradient = np.random.default_rng(5).standard_normal((2, REPEATS, SIZE)).astype(dtype)
    return kernel.start(np.abs(theta), Address(7, 3, 0)), gradient


def _arrays(state):
    return [array for array in state if array is not None]


@every_kernel
def test_formula_runs_on_jax_and_torch(name):
    import jax
    import torch

    kernel = EVERY_KERNEL[name](0.02)
    state, gradient = _start(kernel, np.float32)
    noise = kernel.noise_at(state, Address(7, 3, 0))
    expected = kernel.step(state, gradient, noise, 0.02)

    def convert(arrays, to):
        return type(state)(*(None if a is None else to(a) for a in arrays))

    in_torch = kernel.step(convert(state, torch.tensor), torch.tensor(gradient), torch.tensor(noise), 0.02)
    step = jax.jit(lambda s, g, z: kernel.step(s, g, z, 0.02))
    in_jax = step(convert(state, jax.numpy.asarray), gradient, noise)
    for library in (in_torch, in_jax):
        for a, b in zip(_arrays(library), _arrays(expected), strict=True):
            np.testing.assert_allclose(np.asarray(a), b, rtol=2e-5, atol=2e-5)


def test_temperature_zero_is_the_noiseless_recursion():
    kernel = SGLD(step_size=0.1, temperature=0.0)
    state = kernel.start(np.ones((1, 3)), Address(0, 0, 0))
    kernel.advance(state, np.ones((1, 3)), np.array(kernel.coefficients(0.1, 0.1)), Address(0, 0, 0))
    np.testing.assert_allclose(state.position, 0.9)


def test_from_sgd_walks_the_path_of_sgd_with_momentum():
    """Caffe: v ← m v + lr ḡ, θ ← θ − v with ḡ the gradient of U/N; noise off."""
    n_data, lr, m, curvature = 500, 0.01, 0.9, 40.0
    kernel = SGHMC.from_sgd(lr, m, n_data, temperature=0.0)
    state = kernel.start(np.full((1, 1), 2.0), Address(0, 0, 0))
    theta, velocity = 2.0, 0.0
    for update in range(50):
        velocity = m * velocity + lr * curvature * theta / n_data
        gradient = np.array([[curvature * state.position[0, 0]]])
        h = kernel.schedule(update)
        kernel.advance(state, gradient, np.array(kernel.coefficients(h, h)), Address(0, 0, update))
        theta -= velocity
        assert state.position[0, 0] == pytest.approx(theta, rel=1e-12)


def test_from_sgd_with_caffes_inv_policy_halves_the_power():
    kernel = SGHMC.from_sgd(0.01, 0.9, 100, gamma=1e-4, power=0.75)
    assert kernel.step_size == Inverse(0.01, 1e-4, 0.375)
    assert kernel.schedule(5000) ** 2 * 100 == pytest.approx(0.01 * 1.5**-0.75)


def test_stationary_start_of_momentum_and_thermostat():
    kernel = SGNHT(step_size=0.1, noise=3.0, temperature=4.0, thermostats="each")
    state = kernel.start(np.zeros((1, 100_000)), Address(0, 0, 0))
    assert state.momentum.std() == pytest.approx(2.0, rel=6 / np.sqrt(2e5))
    assert (state.thermostat == 3.0).all()


def test_baoab_kicks_by_half_of_each_step_where_the_step_changes():
    """Against the five steps written out, with the gradient of the quartic θ⁴/4 at every kick."""
    kernel, steps = BAOAB(step_size=lambda l: 0.2 / (1 + l), friction=1.5), 6  # noqa: E741
    chain = Chain(kernel, np.full((1, 3), 0.7), 5, 0)
    theta, q = chain.position.copy(), chain.state.momentum.copy()
    for update in range(steps):
        h = kernel.schedule(update)
        z = kernel.noise_at(chain.state, Address(5, 0, update))
        q = q - h / 2 * theta**3
        theta = theta + h / 2 * q
        q = np.exp(-1.5 * h) * q + np.sqrt(1 - np.exp(-3.0 * h)) * z
        theta = theta + h / 2 * q
        chain.advance(chain.position**3)
        np.testing.assert_allclose(chain.position, theta, rtol=1e-13)
        np.testing.assert_allclose(chain.state.momentum, q, rtol=1e-13)
        q = q - h / 2 * theta**3


def test_sghmc_splits_by_half_of_each_step_where_the_step_changes():
    """Half a step of this size to the draw, half a step of the next one's to where the next gradient is taken."""
    kernel = SGHMC(step_size=lambda l: 0.2 / (1 + l), friction=1.5, integrator="splitting")  # noqa: E741
    chain = Chain(kernel, np.full((1, 3), 0.7), 5, 0)
    state, theta, q = chain.state, chain.position.copy(), chain.state.momentum.copy()
    for update in range(6):
        h, following = kernel.schedule(update), kernel.schedule(update + 1)
        z = kernel.noise_at(chain.state, Address(5, 0, update))
        np.testing.assert_allclose(chain.point, theta + h / 2 * q, rtol=1e-13)
        gradient = chain.point**3
        state = kernel.step(state, gradient, z, h, following)
        keep = np.exp(-1.5 * h / 2)
        theta = theta + h / 2 * q
        q = keep * (keep * q - h * gradient + np.sqrt(2 * 1.5 * h) * z)
        theta = theta + h / 2 * q
        chain.advance(gradient)
        for moved in (chain.state, state):
            np.testing.assert_allclose(moved.position, theta, rtol=1e-13)
            np.testing.assert_allclose(moved.momentum, q, rtol=1e-13)
            np.testing.assert_allclose(moved.point, theta + following / 2 * q, rtol=1e-13)


@pytest.mark.parametrize("thermostats", ["shared", "each"])
def test_sgnht_splits_by_half_of_each_step_where_the_step_changes(thermostats):
    settings = {"noise": 1.5, "temperature": 2.0, "integrator": "splitting", "thermostats": thermostats}
    kernel = SGNHT(step_size=lambda l: 0.2 / (1 + l), **settings)  # noqa: E741
    chain = Chain(kernel, np.full((1, 3), 0.7), 5, 0)
    theta, q, xi = chain.position.copy(), chain.state.momentum.copy(), chain.state.thermostat.copy()
    for update in range(6):
        h, following = kernel.schedule(update), kernel.schedule(update + 1)
        z = kernel.noise_at(chain.state, Address(5, 0, update))
        gradient = chain.point**3
        keep = np.exp(-xi * h / 2)
        theta = theta + h / 2 * q
        q = keep * (keep * q - h * gradient + np.sqrt(2 * 1.5 * h * 2.0) * z)
        theta = theta + h / 2 * q
        energy = q * q if thermostats == "each" else np.mean(q * q, axis=1, keepdims=True)
        xi = xi + h * (energy - 2.0)
        chain.advance(gradient)
        np.testing.assert_allclose(chain.position, theta, rtol=1e-12)
        np.testing.assert_allclose(chain.state.thermostat, xi, rtol=1e-12)
        np.testing.assert_allclose(chain.point, theta + following / 2 * q, rtol=1e-12)


def test_ubu_moves_for_half_of_each_step_where_the_step_changes():
    kernel = UBU(step_size=lambda l: 0.2 / (1 + l), friction=1.5)  # noqa: E741
    chain = Chain(kernel, np.full((1, 3), 0.7), 5, 0)
    point, q = chain.point.copy(), chain.state.momentum.copy()
    for update in range(6):
        h, following = kernel.schedule(update), kernel.schedule(update + 1)
        z, y, x, w = kernel.noise_at(chain.state, Address(5, 0, update))
        gradient = chain.point**3
        q = q - h * gradient
        for time, first, second in ((h / 2, z, y), (following / 2, x, w)):
            keep, drift, sigma, along, across = flow_coefficients(1.5, time, 1.0)
            point, q = point + drift * q + along * first + across * second, keep * q + sigma * first
            if time == h / 2:
                theta = point
        chain.advance(gradient)
        np.testing.assert_allclose(chain.position, theta, rtol=1e-12)
        np.testing.assert_allclose(chain.point, point, rtol=1e-12)


@pytest.mark.parametrize("t", [1e-5, 0.04, 0.06, 2.0])
def test_ubu_moves_freely_with_the_exact_law(t):
    """Mean and covariance of U solve their differential equations: by the matrix exponential (Van Loan)."""
    friction, temperature = 1.7, 2.5
    keep, drift, sigma, along, across = flow_coefficients(friction, t, temperature)
    a = np.array([[0, 1], [0, -friction]])
    block = np.block([[-a, np.diag([0, 2 * friction * temperature])], [np.zeros((2, 2)), a.T]])
    exponential = linalg.expm(block * t)
    transition = exponential[2:, 2:].T
    covariance = transition @ exponential[:2, 2:]
    np.testing.assert_allclose([[1, drift], [0, keep]], transition, rtol=1e-12)
    factor = np.array([[along, across], [sigma, 0]])
    np.testing.assert_allclose(factor @ factor.T, covariance, rtol=1e-9)


def test_ubu_takes_four_different_normals_and_starts_with_others():
    kernel = UBU(step_size=0.5, friction=1.0)
    state = kernel.start(np.zeros((2, 300)), Address(7, 3, 0))
    drawn = np.concatenate(
        [kernel.noise_at(state, Address(7, 3, 0)).ravel(), state.momentum.ravel(), state.point.ravel()]
    )
    assert np.unique(drawn).size == drawn.size == 6 * 600
    assert np.abs(np.corrcoef(kernel.noise_at(state, Address(7, 3, 0)).reshape(4, -1)) - np.eye(4)).max() < 6 / 600**0.5
