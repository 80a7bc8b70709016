"""Minibatches: the laws they claim, and that an address decides everything."""

import dataclasses
import math
import pickle

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import chi2

from stalegrad._internal.errors import ArgumentError
from stalegrad.kernels.noise.philox import Stream, key_words, philox, worker_counter
from stalegrad.potentials import Minibatches

FALSE_ALARM = 1e-6
ALL_SCHEMES = pytest.mark.parametrize("scheme", ["subset", "replacement", "reshuffle"])


def _assert_uniform(cells, n_cells):
    counts = np.bincount(cells, minlength=n_cells)
    expected = cells.size / n_cells
    assert counts.size == n_cells
    statistic = float(np.square(counts - expected).sum() / expected)
    assert chi2.sf(statistic, n_cells - 1) > FALSE_ALARM
    assert chi2.cdf(statistic, n_cells - 1) > FALSE_ALARM  # too even would be as suspicious


def _draws(batches, n, *, stride=1, seed=20, repeats=1):
    zeros = np.zeros(n, np.int64)
    return batches.draw_many(seed, 0, zeros, stride * np.arange(n), repeats).reshape(-1, batches.batch_size)


def _pair_cells(draws, n_data):
    """Number each unordered pair of the first two draws, 0 … C(N, 2) − 1."""
    low, high = np.sort(draws[:, :2], axis=1).T
    return high * (high - 1) // 2 + low


def _ranks(draws, n_data):
    """Number each ordered draw without repeats, 0 … N!/(N−J)! − 1."""
    ranks = np.zeros(len(draws), np.int64)
    for place in range(draws.shape[1]):
        earlier = (draws[:, :place] < draws[:, place : place + 1]).sum(axis=1)
        ranks = ranks * (n_data - place) + draws[:, place] - earlier
    return ranks


@pytest.mark.parametrize(("n_data", "batch_size"), [(2, 1), (5, 2), (6, 3), (7, 5), (9, 8)])
def test_every_subset_is_equally_likely(n_data, batch_size):
    draws = np.sort(_draws(Minibatches(n_data, batch_size), 60_000), axis=1)
    codes = (1 << draws).sum(axis=1)
    _, cells = np.unique(codes, return_inverse=True)
    _assert_uniform(cells, math.comb(n_data, batch_size))


def test_every_datum_and_pair_is_equally_likely_in_larger_subsets():
    draws = _draws(Minibatches(101, 40), 20_000)
    _assert_uniform(_draws(Minibatches(101, 1), 50_000).ravel(), 101)
    shuffled = np.random.default_rng(3).permuted(draws, axis=1)  # the order within a subset is not random
    _assert_uniform(shuffled[:, 0], 101)
    _assert_uniform(_pair_cells(shuffled, 101), math.comb(101, 2))


def test_draws_with_replacement_are_independent_and_uniform():
    draws = _draws(Minibatches(12, 3, "replacement"), 60_000)
    _assert_uniform(draws @ np.array([144, 12, 1]), 12**3)


@pytest.mark.parametrize(("n_data", "batch_size"), [(3, 2), (5, 4), (6, 3), (8, 4)])
def test_small_permutations_are_all_equally_likely(n_data, batch_size):
    draws = _draws(Minibatches(n_data, batch_size, "reshuffle"), 60_000, stride=n_data // batch_size)
    _assert_uniform(_ranks(draws, n_data), math.perm(n_data, batch_size))


@pytest.mark.parametrize("n_data", [257, 289, 300])
def test_large_permutations_have_uniform_data_and_pairs(n_data):
    epoch = n_data // 2
    first = _draws(Minibatches(n_data, 2, "reshuffle"), 400_000, stride=epoch)
    _assert_uniform(first[:, 0], n_data)
    _assert_uniform(_pair_cells(first, n_data), math.comb(n_data, 2))
    batches = Minibatches(n_data, 1, "reshuffle")
    epochs = n_data * np.arange(200_000)
    near, far = (batches.draw_many(4, 0, 0 * epochs, epochs + place, 1)[:, 0, 0] for place in (0, n_data - 1))
    _assert_uniform(_pair_cells(np.stack([near, far], axis=1), n_data), math.comb(n_data, 2))


@pytest.mark.parametrize(("n_data", "batch_size"), [(10, 3), (256, 16), (257, 16), (1000, 7), (32_561, 50)])
def test_an_epoch_of_reshuffling_sees_no_datum_twice(n_data, batch_size):
    batches, length = Minibatches(n_data, batch_size, "reshuffle"), n_data // batch_size
    epochs = _draws(batches, 3 * length).reshape(3, -1)
    for epoch in epochs:
        assert np.unique(epoch).size == length * batch_size
        assert epoch.min() >= 0
        assert epoch.max() < n_data
    assert not np.array_equal(epochs[0], epochs[1])


def test_subset_follows_floyds_algorithm():
    n_data, batch_size, seed, address = 1000, 301, 2**63 + 12345, {"chain": 3, "repeat": 2, "worker": 5, "count": 2**31}
    counter = worker_counter.py_func(Stream.MINIBATCH, **address)
    words = []
    for block in range(151):
        block_words = philox.py_func(np.uint64(block), *counter, *key_words.py_func(seed))
        a, b, c, d = (int(word) for word in block_words)
        words += [a << 32 | b, c << 32 | d]
    chosen = []
    for word, j in zip(words, range(n_data - batch_size, n_data), strict=False):
        t = word * (j + 1) >> 64
        chosen.append(j if t in chosen else t)
    assert Minibatches(n_data, batch_size).draw(seed, **address).tolist() == chosen


def test_minibatches_never_change_between_versions():
    address = {"seed": 7, "chain": 1, "worker": 2, "count": 3, "repeat": 4}
    assert Minibatches(50, 5).draw(**address).tolist() == [28, 17, 21, 24, 36]
    assert Minibatches(50, 5, "replacement").draw(**address).tolist() == [30, 18, 22, 25, 36]
    assert Minibatches(50, 5, "reshuffle").draw(**address).tolist() == [25, 20, 29, 9, 37]
    assert Minibatches(5000, 5, "reshuffle").draw(**address).tolist() == [4623, 150, 967, 3033, 2201]


@ALL_SCHEMES
def test_every_part_of_the_address_matters(scheme):
    batches = Minibatches(100_000, 20, scheme)
    base = {"seed": 5, "chain": 1, "worker": 1, "count": 1, "repeat": 1}
    changes = [{}] + [{name: value} for name in base for value in (2, 2**15 + 1)]
    changes += [{"seed": 2**63 + 5}, {"seed": 5 + 2**32}, {"count": 2**32 - 1}]
    drawn = {tuple(batches.draw(**base | change)) for change in changes}
    assert len(drawn) == len(changes)
    assert np.array_equal(batches.draw(**base), batches.draw(**base))


@settings(max_examples=60, deadline=None)
@given(
    n_data=st.one_of(st.integers(1, 20), st.integers(1, 100_000), st.just(2**32 - 1)),
    fraction=st.floats(0, 1),
    scheme=st.sampled_from(["subset", "replacement", "reshuffle"]),
    seed=st.integers(0, 2**64 - 1),
    address=st.tuples(st.integers(0, 2**16 - 1), st.integers(0, 2**16 - 1), st.integers(0, 2**32 - 1)),
    repeat=st.integers(0, 2**16 - 3),
)
def test_any_address_gives_a_legal_minibatch_and_blocks_agree(n_data, fraction, scheme, seed, address, repeat):
    batch_size = max(1, min(300, round(n_data * fraction)))
    chain, worker, count = address
    batches = Minibatches(n_data, batch_size, scheme)
    batch = batches.draw(seed, chain, worker, count, repeat)
    assert batch.dtype == np.int64
    assert batch.shape == (batch_size,)
    assert batch.min() >= 0
    assert batch.max() < n_data
    if scheme != "replacement":
        assert np.unique(batch).size == batch_size
    block = batches.draw_many(seed, chain, [worker, 0], [count, 1], repeats=2, first_repeat=repeat)
    assert np.array_equal(block[0, 0], batch)
    assert np.array_equal(block[0, 1], batches.draw(seed, chain, worker, count, repeat + 1))
    assert np.array_equal(block[1, 1], batches.draw(seed, chain, 0, 1, repeat + 1))


@pytest.mark.parametrize("scheme", ["subset", "reshuffle"])
def test_a_minibatch_of_all_data_is_in_order(scheme):
    batches = Minibatches(7, 7, scheme)
    assert batches.draw(1, 2, 3, 4).tolist() == list(range(7))
    assert (batches.draw_many(1, 2, [0, 1], [5, 6], repeats=3) == np.arange(7)).all()


def test_all_data_may_still_be_drawn_with_replacement():
    batches = Minibatches(50, 50, "replacement")
    assert np.unique(batches.draw(1, 0, 0, 0)).size < 50
    assert Minibatches.of(50, None, "replacement").draw(1, 0, 0, 0).tolist() == list(range(50))


def test_numpy_integers_are_as_good_as_any():
    batches = Minibatches(np.int32(100), np.int64(5))
    address = [np.uint64(2**64 - 1), np.uint16(1), np.int32(2), np.int64(3), np.uint8(4)]
    assert np.array_equal(batches.draw(*address), batches.draw(2**64 - 1, 1, 2, 3, 4))
    assert batches == Minibatches(100, 5)


@ALL_SCHEMES
def test_immutable_and_picklable(scheme):
    batches = Minibatches(100, 10, scheme)
    copy = pickle.loads(pickle.dumps(batches))
    assert copy == batches
    assert hash(copy) == hash(batches)
    assert np.array_equal(copy.draw(1, 0, 0, 0), batches.draw(1, 0, 0, 0))
    with pytest.raises(dataclasses.FrozenInstanceError):
        batches.batch_size = 5


def test_no_addresses_give_no_minibatches():
    assert Minibatches(10, 3).draw_many(1, 0, [], [], repeats=2).shape == (0, 2, 3)


@pytest.mark.parametrize(("make", "message"), [
    (lambda: Minibatches(0, 1), r"n_data=0: is out of range\. Give a whole number from 1 to 4294967295"),
    (lambda: Minibatches(2**32, 1), "n_data=4294967296: is out of range"),
    (lambda: Minibatches(10, 0), r"batch_size=0: is out of range\. Give a whole number ≥ 1"),
    (lambda: Minibatches(10, 2.0), r"batch_size=2\.0: is not a whole number"),
    (lambda: Minibatches(10, 11), r"batch_size=11: is more than the 10 data there are\. Give .* from 1 to 10"),
    (lambda: Minibatches(10, 1, "random"), "scheme='random': is not known. Give one of: 'subset', 'replacement'"),
    (lambda: Minibatches.of(10, None, "random"), "scheme='random': is not known"),
    (lambda: Minibatches(10, 1).draw(-1, 0, 0, 0), "seed=-1: is out of range"),
    (lambda: Minibatches(10, 1).draw(2**64, 0, 0, 0), "seed=18446744073709551616: is out of range"),
    (lambda: Minibatches(10, 1).draw(0, 2**16, 0, 0), r"chain=65536: is out of range\. .* from 0 to 65535"),
    (lambda: Minibatches(10, 1).draw(0, 0, -1, 0), "worker=-1: is out of range"),
    (lambda: Minibatches(10, 1).draw(0, 0, 1.5, 0), r"worker=1\.5: is not a whole number"),
    (lambda: Minibatches(10, 1).draw(0, 0, True, 0), "worker=True: is a boolean"),
    (lambda: Minibatches(10, 1).draw(0, 0, 0, 2**32), "count=4294967296: is out of range"),
    (lambda: Minibatches(10, 1).draw(0, 0, 0, 0, 2**16), "repeat=65536: is out of range"),
    (lambda: Minibatches(10, 1).draw_many(0, 0, [0], [0], 0), "repeats=0: is out of range"),
    (lambda: Minibatches(10, 1).draw_many(0, 0, [0], [0], 2, 2**16 - 1), "repeats=2: is out of range"),
    (lambda: Minibatches(10, 1).draw_many(0, 0, [0, 1], [0], 1), "counts=.*has length 1, but workers has length 2"),
    (lambda: Minibatches(10, 1).draw_many(0, 0, [0.5], [0], 1), r"workers=\[0\.5\]: has shape \(1,\) and type float64"),
    (lambda: Minibatches(10, 1).draw_many(0, 0, [[0]], [0], 1), r"workers=\[\[0\]\]: has shape \(1, 1\)"),
    (lambda: Minibatches(10, 1).draw_many(0, 0, [0, 2**16], [0, 0], 1), r"workers\[1\]=.*is out of range"),
    (lambda: Minibatches(10, 1).draw_many(0, 0, [0, 0], [0, -1], 1), r"counts\[1\]=.*is out of range"),
])  # fmt: skip
def test_refusals(make, message):
    with pytest.raises(ArgumentError, match=f"(?s){message}"):
        make()
