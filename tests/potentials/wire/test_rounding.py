"""Rounding at random: no bias, one of two neighbours, the same for the same address; packing: no loss."""

import numpy as np
import pytest

from stalegrad.potentials.address import GradientAddress
from stalegrad.potentials.wire.formats import FORMATS, Counter
from stalegrad.potentials.wire.rounding import BLOCK

CODECS = {"bfloat16": FORMATS["bfloat16"].gradient, "int8": FORMATS["int8"].gradient}
Z = 4.9  # two-sided 1e-6


def rounded(codec, values, count=0, seed=7, worker=3, first_repeat=0):
    counter = Counter.of_gradient(GradientAddress(seed, 0, worker, count, first_repeat))
    return codec.round(values, np.empty_like(values), seed, counter)


@pytest.fixture(params=CODECS, name="codec")
def any_codec(request):
    return CODECS[request.param]


def spread_out(n=1000):
    rng = np.random.default_rng(1)
    return (rng.standard_normal((1, n)) * 10.0 ** rng.integers(-6, 6, (1, n))).astype(np.float32)


def step_of(codec, values):
    """How far apart the neighbours of each value are."""
    size = np.abs(values).astype(np.float64)
    if codec.name == "bfloat16":
        return 2.0 ** (np.floor(np.log2(size)) - 7)
    blocks = [size[:, low : low + BLOCK] for low in range(0, size.shape[1], BLOCK)]
    return np.concatenate([np.broadcast_to(2.0 ** np.ceil(np.log2(b.max() / 127)), b.shape) for b in blocks], axis=1)


class TestRounding:
    def test_the_mean_over_addresses_is_the_value(self, codec):
        values, n = spread_out(), 4000
        step = step_of(codec, values)
        total = sum((rounded(codec, values, k).astype(np.float64) - values) / step for k in range(n))
        share = np.mod(values.astype(np.float64) / step, 1.0)
        deviation = np.sqrt(np.maximum(share * (1 - share), 1 / n) / n)  # of a mean of numbers that are 0 or 1
        alarms = np.sqrt(2 * np.log(2 * values.size / 1e-6))  # of all coordinates together
        assert np.all(np.abs(total / n) < alarms * deviation)

    def test_a_value_becomes_one_of_its_two_neighbours(self, codec):
        values = spread_out()
        step = step_of(codec, values)
        low = np.floor(values / step) * step
        for k in range(20):
            result = rounded(codec, values, k).astype(np.float64)
            assert np.all((result == low) | (result == low + step))

    def test_what_is_on_the_grid_stays(self, codec):
        values = rounded(codec, spread_out())
        assert np.array_equal(rounded(codec, values, count=9), values)

    def test_an_address_says_it_all(self, codec):
        values = spread_out()
        first = rounded(codec, values, count=4)
        assert np.array_equal(rounded(codec, values, count=4), first)
        for other in ({"count": 5}, {"worker": 4}, {"seed": 8}, {"first_repeat": 1}):
            assert not np.array_equal(rounded(codec, values, **{"count": 4, **other}), first)

    def test_repetitions_are_rounded_as_if_alone(self, codec):
        rows = np.repeat(spread_out(300), 3, axis=0)
        together = rounded(codec, rows, first_repeat=5)
        for r in range(3):
            assert np.array_equal(together[r], rounded(codec, rows[:1], first_repeat=5 + r)[0])

    def test_the_largest_numbers_stay_finite(self, codec):
        values = np.full((1, 40), np.finfo(np.float32).max, np.float32)
        values[0, ::2] *= -1
        for k in range(10):
            assert np.all(np.isfinite(rounded(codec, values, k)))

    def test_what_is_not_finite_does_not_become_finite(self, codec):
        values = np.ones((1, 300), np.float32)
        values[0, 7], values[0, 150], values[0, 299] = np.nan, np.inf, -np.inf
        values[0, 8] = np.array(0x7F800001, np.uint32).view(np.float32)  # NaN by its lower half alone
        bad = np.flatnonzero(~np.isfinite(values[0]))
        assert not np.isfinite(rounded(codec, values)[0, bad]).any()


class TestPacking:
    @pytest.mark.parametrize("n", [1, 5, 127, 128, 129, 1000])
    def test_nothing_is_lost(self, codec, n):
        for scale in (1e-44, 1e-38, 1e-3, 1.0, 1e30):
            values = rounded(codec, (spread_out(n) * np.float32(scale)).astype(np.float32), count=n)
            packed = codec.packed(values)
            assert packed.nbytes == codec.packed_bytes(n) + 8
            assert np.array_equal(codec.unpacked(packed), values)

    def test_nor_that_a_number_is_not_finite(self, codec):
        values = np.ones((1, 300), np.float32)
        values[0, 7], values[0, 150] = np.nan, np.inf
        values = rounded(codec, values)
        assert np.array_equal(codec.unpacked(codec.packed(values)), values, equal_nan=True)

    def test_zeros(self, codec):
        values = np.zeros((1, 200), np.float32)
        assert np.array_equal(codec.unpacked(codec.packed(rounded(codec, values))), values)

    def test_bytes(self):
        n = 431_080
        assert CODECS["bfloat16"].packed_bytes(n) == 2 * n
        assert CODECS["int8"].packed_bytes(n) == n + 2 * 3368
