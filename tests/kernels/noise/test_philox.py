"""Philox against the published known answers of Random123, and the addresses that stalegrad makes of its counter."""

import itertools

import numpy as np
import pytest
from numba import njit

from stalegrad.kernels import Address
from stalegrad.kernels.noise import normals
from stalegrad.kernels.noise.philox import Stream, key_words, philox, update_counter, worker_counter

# Random123, kat_vectors, "philox4x32 10": counter, key, answer
KNOWN_ANSWERS = [
    ("00000000 00000000 00000000 00000000", "00000000 00000000", "6627e8d5 e169c58d bc57ac4c 9b00dbd8"),
    ("ffffffff ffffffff ffffffff ffffffff", "ffffffff ffffffff", "408f276d 41c83b0e a20bc7c6 6d5451fd"),
    ("243f6a88 85a308d3 13198a2e 03707344", "a4093822 299f31d0", "d16cfe09 94fdcceb 5001e420 24126ea1"),
]


@njit
def _philox(c0, c1, c2, c3, k0, k1):
    return philox(c0, c1, c2, c3, k0, k1)


@njit
def _update(stream, chain, repeat, update):
    return update_counter(stream, chain, repeat, update)


@njit
def _worker(stream, chain, repeat, worker, count):
    return worker_counter(stream, chain, repeat, worker, count)


@njit
def _key(seed):
    return key_words(seed)


def _words(text):
    return [np.uint64(int(word, 16)) for word in text.split()]


@pytest.mark.parametrize(("counter", "key", "answer"), KNOWN_ANSWERS)
def test_known_answers(counter, key, answer):
    assert list(_philox(*_words(counter), *_words(key))) == _words(answer)


def test_seed_is_the_whole_64_bit_key():
    assert _key(np.uint64(0x299F31D0A4093822)) == (0xA4093822, 0x299F31D0)


def test_no_two_addresses_share_a_counter():
    updates = [0, 1, 2**32 - 1, 2**32, 2**48 - 1]
    sides = list(itertools.product([0, 1, 2**16 - 1], [0, 1, 2**16 - 1]))  # chain, repetition
    streams = [s for s in Stream if s not in (Stream.MINIBATCH, Stream.DELAY)]
    of_updates = [_update(s, c, r, u) for s in streams for c, r in sides for u in updates]
    counts = itertools.product([0, 1, 2**16 - 1], [0, 1, 2**32 - 1])  # worker, count
    of_workers = [_worker(s, c, r, w, k) for w, k in counts for s in (Stream.MINIBATCH, Stream.DELAY) for c, r in sides]
    counters = of_updates + of_workers
    assert len(set(counters)) == len(counters)
    assert all(0 <= word < 2**32 for counter in counters for word in counter)


def test_streams_and_addresses_of_workers_are_all_different():
    assert len(set(Stream.__members__.values())) == len(Stream.__members__)
    first, second = (Address.of_worker(0, 0, worker, count).update for worker, count in ((0, 1 << 16), (1, 0)))
    assert first != second
    assert Address.of_worker(0, 0, 2, 3).update == (2 << 32) + 3


def test_all_bits_of_a_seed_count():
    drawn = [normals(np.empty((1, 8)), seed, Stream.START, 0, 0).tobytes() for seed in (0, 1 << 31, 1 << 63)]
    assert len(set(drawn)) == 3
