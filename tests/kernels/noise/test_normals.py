"""The normals: their law, and that they depend on nothing but their address."""

import numpy as np
import pytest
from scipy import stats

from stalegrad.kernels.noise import TILE, Stream, normals
from stalegrad.kernels.noise.tiles import fill

FALSE_ALARM = 1e-6
N = 1_000_000


def _normals(dtype, n=N, *, seed=11, chain=0, update=0, repeats=1, first_repeat=0, stream=Stream.UPDATE):
    out = np.empty((repeats, n), dtype)
    return normals(out, seed, stream, chain, update, first_repeat=first_repeat)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_law(dtype):
    z = _normals(dtype)[0].astype(np.float64)
    assert stats.kstest(z, "norm").pvalue > FALSE_ALARM
    limit = stats.norm.isf(FALSE_ALARM / 8)
    for power, mean, variance in ((1, 0, 1), (2, 1, 2), (3, 0, 15), (4, 3, 96)):
        score = ((z**power).mean() - mean) / np.sqrt(variance / N)
        assert abs(score) < limit, f"moment {power}: {score:.2f} standard errors"
    tail = np.count_nonzero(np.abs(z) > 4)
    assert stats.binomtest(tail, N, 2 * stats.norm.sf(4)).pvalue > FALSE_ALARM


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_neighbours_are_independent(dtype):
    z = _normals(dtype)[0].astype(np.float64)
    others = {
        "next update": _normals(dtype, update=1)[0],
        "next chain": _normals(dtype, chain=1)[0],
        "next repetition": _normals(dtype, first_repeat=1)[0],
        "next seed": _normals(dtype, seed=12)[0],
        "start": _normals(dtype, stream=Stream.START)[0],
        **{f"lag {lag}": np.roll(z, lag) for lag in (1, 2, TILE // 4, TILE // 2, TILE)},
    }
    limit = stats.norm.isf(FALSE_ALARM / (4 * len(others)))
    for name, other in others.items():
        other = other.astype(np.float64)
        assert abs((z * other).mean()) * np.sqrt(N) < limit, name
        assert abs(((z**2 - 1) * (other**2 - 1)).mean()) / 2 * np.sqrt(N) < limit, f"{name}, squares"


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_shards_and_threads_cannot_change_them(dtype):
    whole = _normals(dtype, 1000)
    pieces = np.full_like(whole, np.nan)
    for start, stop in ((TILE * 5, 1000), (0, TILE * 2), (TILE * 2, TILE * 5)):  # any order, any cut at a tile
        fill(pieces, np.uint64(11), int(Stream.UPDATE), 0, 0, 0, start, stop)
    np.testing.assert_array_equal(pieces, whole)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_length_and_repetitions_cannot_change_them(dtype):
    many = _normals(dtype, 1000, repeats=3)
    np.testing.assert_array_equal(_normals(dtype, 77)[0], many[0, :77])
    np.testing.assert_array_equal(_normals(dtype, 1000, first_repeat=2)[0], many[2])


def test_the_first_numbers_of_a_seed_never_change():
    """Pinned: a change here would break the replay of every stored trace."""
    np.testing.assert_array_equal(_normals(np.float32, 4, seed=0)[0].view(np.uint32), PINNED_32)
    np.testing.assert_array_equal(_normals(np.float64, 2, seed=0)[0].view(np.uint64), PINNED_64)


PINNED_32 = np.array([0xBF6CB6B0, 0x3E1D5353, 0x3F97DA93, 0xBEB4029C], np.uint32)
PINNED_64 = np.array([0xBFF599BBD8A9EDA7, 0xBFCC81BAFE55415D], np.uint64)


def test_a_stream_is_a_number_to_compiled_code():
    """numba 0.60 cannot choose among compiled functions for a member of an enumeration."""
    for stream in Stream:
        _normals(np.float32, 8, stream=stream)
    assert not [signature for signature in fill.signatures if "Enum" in str(signature)]
