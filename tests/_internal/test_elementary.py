"""The polynomials against the maths library in higher precision."""

import numpy as np
import pytest
from numba import njit

from stalegrad._internal import elementary
from stalegrad._internal.elementary import circle32, circle64, exp, log32, log64, sqrt

POINTS = 200_000


def _ulps(values, exact):
    """Largest error in units in the last place of the exact value."""
    spacing = np.spacing(np.abs(exact).astype(values.dtype)).astype(np.float64)
    return float(np.max(np.abs(values.astype(np.longdouble) - exact) / spacing))


@njit
def _apply(function, x, out):
    for i in range(x.size):
        out[i] = function(x[i])


@njit
def _circle(high, low, out32, out64):
    for i in range(high.size):
        out32[i, 0], out32[i, 1] = circle32(high[i])
        out64[i, 0], out64[i, 1] = circle64(high[i], low[i])


@pytest.mark.parametrize(("function", "dtype"), [(log32, np.float32), (log64, np.float64)])
def test_log(function, dtype):
    rng = np.random.default_rng(1)
    x = np.concatenate([rng.random(POINTS) ** 8 + 1e-30, 1 - 1e-3 * rng.random(POINTS), [1.0]]).astype(dtype)
    out = np.empty_like(x)
    _apply(function, x, out)
    assert out[-1] == 0
    assert _ulps(out[:-1], np.log(x[:-1].astype(np.longdouble))) <= 2


@pytest.mark.parametrize(("function", "dtype", "reach"), [
    (elementary.exp32, np.float32, 87), (elementary.exp64, np.float64, 700),
])  # fmt: skip
def test_exp(function, dtype, reach):
    x = np.random.default_rng(2).uniform(-reach, reach, POINTS).astype(dtype)
    out = np.empty_like(x)
    _apply(function, x, out)
    assert _ulps(out, np.exp(x.astype(np.longdouble))) <= 2


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_exp_saturates_without_overflow(dtype):
    x = np.array([-1e4, 1e4], dtype)
    out = np.empty_like(x)
    _apply(njit(lambda v: exp(v)), x, out)
    assert out[0] >= 0
    assert out[0] < 1e-37
    assert np.isfinite(out[1])
    assert out[1] > 1e38


def test_circle():
    rng = np.random.default_rng(3)
    high, low = rng.integers(0, 2**32, (2, POINTS), dtype=np.uint32)
    high[:8] = np.arange(8, dtype=np.uint32) << np.uint32(29)  # where sign, swap and the sign of the angle change
    out32, out64 = np.empty((POINTS, 2), np.float32), np.empty((POINTS, 2))
    _circle(high, low, out32, out64)
    for out, below, tolerance in ((out32, 0, 1.2e-7), (out64, low, 3e-16)):
        turns = ((high & 0x3FFFFFFF).astype(np.longdouble) + below / np.longdouble(2**32)) / 2**32
        turns = np.where(turns >= 0.125, turns - 0.25, turns)  # 30 bits as a signed number
        angle = turns * 2 * np.longdouble("3.14159265358979323846264338327950288")
        signed = np.where(high >> 31, -np.cos(angle), np.cos(angle))
        swap = (high >> 30) & 1 == 1
        exact = np.stack([np.where(swap, np.sin(angle), signed), np.where(swap, signed, np.sin(angle))], axis=1)
        assert np.abs(out - exact).max() < tolerance


def test_circle_is_covered_evenly():
    """Words in order name every direction once: 64 sectors, each hit by its share."""
    words = (np.arange(2**16, dtype=np.uint64) << np.uint64(16)).astype(np.uint32)
    out32, out64 = np.empty((words.size, 2), np.float32), np.empty((words.size, 2))
    _circle(words, np.full_like(words, 2**31), out32, out64)
    counts, _ = np.histogram(np.arctan2(out64[:, 1], out64[:, 0]), bins=64, range=(-np.pi, np.pi))
    assert np.abs(counts - 2**16 / 64).max() <= 4


def test_plain_functions_take_arrays_of_every_library():
    import jax.numpy as jnp
    import torch

    x = np.array([0.25, 1.0, 4.0], np.float32)
    for convert in (np.asarray, jnp.asarray, torch.tensor):
        np.testing.assert_allclose(np.asarray(exp(convert(x))), np.exp(x), rtol=1e-6)
        np.testing.assert_allclose(np.asarray(sqrt(convert(x))), np.sqrt(x), rtol=1e-6)
