"""The formula written once: fused loop, NumPy, JAX and torch agree, and nothing but the address decides the noise."""

import numpy as np
import pytest
from scipy import linalg

from stalegrad.chain import Chain
from stalegrad.kernels import BAOAB, SGHMC, SGLD, SGNHT, UBU, Address
from stalegrad.kernels.ubu import flow_coefficients
from stalegrad.noise import TILE
from stalegrad.schedules import Inverse

from .samplers import EVERY_KERNEL

REPEATS, SIZE = 2, 300
DTYPES = [np.float32, np.float64]
every_kernel = pytest.mark.parametrize("name", EVERY_KERNEL)


def _start(kernel, dtype, first=0):
    """Positive positions, which every kernel can start from; from the repetition ``first`` on."""
    theta, gradient = np.random.default_rng(5).standard_normal((2, REPEATS, SIZE)).astype(dtype)[:, first:]
    return kernel.start(np.abs(theta), Address(7, 3, 0, first_repeat=first)), gradient


def _arrays(state):
    return [array for array in state if array is not None]


@every_kernel
@pytest.mark.parametrize("dtype", DTYPES)
def test_fused_loop_gives_the_bits_of_the_formula(name, dtype):
    kernel = EVERY_KERNEL[name](0.02)
    fused, gradient = _start(kernel, dtype)
    plain, _ = _start(kernel, dtype)
    exact = "SGNHT" not in name or name.endswith("each-euler")  # others sum over coordinates, or use exp
    for update in range(3):
        coefficients = np.array(kernel.coefficients(0.02, 0.03), dtype)
        kernel.advance(fused, gradient, coefficients, Address(7, 3, update))
        plain = kernel.step(plain, gradient, kernel.noise_at(plain, Address(7, 3, update)), 0.02, 0.03)
        for a, b in zip(_arrays(fused), _arrays(plain), strict=True):
            assert b.dtype == dtype
            if exact:
                np.testing.assert_array_equal(a, b)
            else:
                np.testing.assert_allclose(a, b, rtol=20 * np.finfo(dtype).eps, atol=20 * np.finfo(dtype).eps)


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


@every_kernel
def test_repetitions_do_not_disturb_each_other(name):
    kernel = EVERY_KERNEL[name](0.02)
    both, gradient = _start(kernel, np.float32)
    second, _ = _start(kernel, np.float32, first=1)
    coefficients = np.array(kernel.coefficients(0.02, 0.02), np.float32)
    kernel.advance(both, gradient, coefficients, Address(7, 3, 0))
    kernel.advance(second, gradient[1:], coefficients, Address(7, 3, 0, first_repeat=1))
    for a, b in zip(_arrays(both), _arrays(second), strict=True):
        np.testing.assert_array_equal(a[1:], b)


@every_kernel
def test_shards_give_the_bits_of_the_whole(name):
    def in_pieces(part, n):
        for start, stop in ((TILE, 2 * TILE), (2 * TILE, n), (0, TILE)):
            part(start, stop)

    kernel = EVERY_KERNEL[name](0.02)
    coefficients = np.array(kernel.coefficients(0.02, 0.03), np.float32)
    (whole, gradient), (pieces, _) = _start(kernel, np.float32), _start(kernel, np.float32)
    kernel.advance(whole, gradient, coefficients, Address(7, 3, 9))
    kernel.advance(pieces, gradient, coefficients, Address(7, 3, 9), split=in_pieces)
    for a, b in zip(_arrays(whole), _arrays(pieces), strict=True):
        np.testing.assert_array_equal(a, b)


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
