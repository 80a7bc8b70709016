"""The formula written once: fused loop, NumPy, JAX and torch agree, and nothing but the address decides the noise."""

import numpy as np
import pytest

from stalegrad.kernels import SGHMC, SGLD, SGNHT, Address, sghmc, sgld
from stalegrad.noise import TILE, Stream, normals
from stalegrad.schedules import Inverse

from .samplers import EVERY_KERNEL

REPEATS, SIZE = 2, 300
DTYPES = [np.float32, np.float64]
every_kernel = pytest.mark.parametrize("name", EVERY_KERNEL)


def _start(kernel, dtype):
    rng = np.random.default_rng(5)
    theta, gradient = rng.standard_normal((2, REPEATS, SIZE)).astype(dtype)
    return kernel.start(theta, Address(7, 3, 0)), gradient


def _noise(dtype, update):
    return normals(np.empty((REPEATS, SIZE), dtype), 7, Stream.UPDATE, 3, update)


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
        plain = kernel.step(plain, gradient, _noise(dtype, update), 0.02, 0.03)
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
    noise = _noise(np.float32, 0)
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
    second = kernel.start(np.random.default_rng(5).standard_normal((2, REPEATS, SIZE)).astype(np.float32)[0, 1:],
                          Address(7, 3, 0, first_repeat=1))  # fmt: skip
    coefficients = np.array(kernel.coefficients(0.02, 0.02), np.float32)
    kernel.advance(both, gradient, coefficients, Address(7, 3, 0))
    kernel.advance(second, gradient[1:], coefficients, Address(7, 3, 0, first_repeat=1))
    for a, b in zip(_arrays(both), _arrays(second), strict=True):
        np.testing.assert_array_equal(a[1:], b)


def test_shards_give_the_bits_of_the_whole():
    theta, gradient = np.random.default_rng(5).standard_normal((2, 1, 1000)).astype(np.float32)
    momentum = np.zeros_like(theta)
    whole, pieces = (theta.copy(), momentum.copy()), (theta.copy(), momentum.copy())
    c = np.array([0.9, 0.01, 0.1], np.float32)
    sghmc._fused_euler(*whole, gradient, c, 1, 0, 0, 9, 0, 1000)
    for start, stop in ((TILE * 4, 1000), (0, TILE), (TILE, TILE * 4)):
        sghmc._fused_euler(*pieces, gradient, c, 1, 0, 0, 9, start, stop)
    np.testing.assert_array_equal(pieces, whole)


def test_shards_give_the_bits_of_the_whole_for_sgld():
    theta, gradient = np.random.default_rng(5).standard_normal((2, 1, 1000))
    whole, pieces = theta.copy(), theta.copy()
    c = np.array([0.01, 0.1])
    sgld._fused(whole, gradient, c, 1, 0, 0, 9, 0, 1000)
    for start, stop in ((TILE * 4, 1000), (0, TILE * 4)):
        sgld._fused(pieces, gradient, c, 1, 0, 0, 9, start, stop)
    np.testing.assert_array_equal(pieces, whole)


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
