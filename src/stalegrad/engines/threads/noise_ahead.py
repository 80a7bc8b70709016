"""Noise that workers make before it is an update's turn, so that less is done while others wait for the lock.

The noise of update l depends on nothing but l, and an update that finds it in memory takes a third of the time. So a
worker that has had to wait for the lock makes, with its gradient in hand and before it asks for the lock, the noise of
an update to come: not that of its own, whose number nobody knows before its turn (a gradient may be dropped, and then
has none), but the first that nobody has made or begun. Whose turn it is uses what is there, and makes its noise itself
if it is not there yet. The bits are the same either way.

There is room for the next K updates, a ring. An entry may be begun when the update that had it before is over and
whoever made its noise is done, be it too late for anyone to use it; who begins it is settled by swapping one counter.
"""

from typing import Any, NamedTuple

import numpy as np

from stalegrad._internal.atomics import load, store, swap
from stalegrad._internal.jit import lean
from stalegrad._internal.prefetch import prefetch_all
from stalegrad._internal.types import Array, IntArray
from stalegrad.engines.threads.shared import PREPARES, VERSION, WAITED, flight
from stalegrad.kernels.fused import fill_noise, loop_of

LEAST_PARAMETERS = 2048
"""Noise of fewer is made sooner than it is fetched from another core."""
MOST_BYTES = 1 << 28
"""Of all noise that is made before its turn; there are two entries at least."""
_LINE = 16  # int64 entries of two cache lines
_ALWAYS = 1024  # what WAITED tends to if the lock is never free
_BEGIN, _END = 400, 150  # of WAITED, from which on noise is made ahead, and until when
_MOST_FETCHED = 1 << 22  # bytes of a vector: of longer ones not even two would stay in the caches
_AT_ONCE = 2  # so much noise at most is made for one gradient: more than one, so that the workers get ahead


class NoiseAhead(NamedTuple):
    """The ring.

    Args:
        values: room for noise, (K, normals, R, n); K is 0 where none is made ahead.
        made: the update whose noise an entry has; atomic, each on cache lines of its own.
        following: the update whose noise is to be begun next; atomic.
        least_waiting: of WAITED, from which on a worker makes noise ahead.
    """

    values: Array
    made: IntArray
    following: IntArray
    least_waiting: int

    @classmethod
    def of(cls, state: Any, coefficients: Array, workers: int, version: int) -> "NoiseAhead":
        """For so many workers of a chain that is at this version; without room where it does not pay."""
        loop, (repeats, n) = loop_of(state), state[0].shape
        entries = 0
        if workers > 1 and n >= LEAST_PARAMETERS and loop.makes_noise(coefficients):
            size = loop.normals * repeats * n * state[0].itemsize
            entries = min(workers + 1, max(2, MOST_BYTES // size))
        made = np.zeros((max(entries, 1), _LINE), np.int64)
        for number in range(version, version + entries):
            made[number % entries] = number - entries
        values = np.empty((entries, loop.normals, repeats, n), state[0].dtype)
        return cls(values, made.reshape(-1), np.full(_LINE, version, np.int64), _BEGIN)


@lean
def note_waiting(shared, ahead, worker, waited):  # type: ignore[no-untyped-def]
    """A worker has the lock, and had to wait for it or not: whether it makes noise ahead from now on."""
    flights, at = shared.flights, flight(worker)
    flights[at + WAITED] += ((_ALWAYS if waited else 0) - flights[at + WAITED]) >> 4
    if flights[at + WAITED] >= ahead.least_waiting:
        flights[at + PREPARES] = 1
    elif flights[at + WAITED] < min(_END, ahead.least_waiting):
        flights[at + PREPARES] = 0


@lean
def prepare(shared, ahead, chain, worker):  # type: ignore[no-untyped-def]
    """Make the noise of updates to come, if this worker is to; without the lock."""
    entries = ahead.values.shape[0]
    if entries == 0 or shared.flights[flight(worker) + PREPARES] == 0:
        return
    filled = 0
    while filled < _AT_ONCE:
        number, version = load(ahead.following, 0), load(shared.words, VERSION)
        entry = number % entries
        if number >= version + entries or load(ahead.made, entry * _LINE) != number - entries:
            return
        if swap(ahead.following, 0, number, number + 1):
            if number >= version:
                fill_noise(ahead.values[entry], chain.key, chain.chain, chain.first_repeat, number)
                filled += 1
            store(ahead.made, entry * _LINE, number)


@lean
def fetch(shared, ahead, chain, worker):  # type: ignore[no-untyped-def]
    """Have what an update reads and writes brought near, if this worker prepares: what it holds the lock for is memory.

    By the time that it has the lock others may have made the update whose noise is fetched; then little is lost.
    """
    entries, n = ahead.values.shape[0], chain.sent.shape[1]
    if entries == 0 or shared.flights[flight(worker) + PREPARES] == 0 or n * chain.sent.itemsize > _MOST_FETCHED:
        return
    entry = load(shared.words, VERSION) % entries
    for normal in range(ahead.values.shape[1]):
        prefetch_all(ahead.values[entry, normal, 0])
    prefetch_all(chain.state[0][0])
    _fetch_momentum(chain.momentum)
    prefetch_all(shared.points[worker, :n])


@lean
def _fetch_momentum(momentum):  # type: ignore[no-untyped-def]
    if momentum is not None:
        prefetch_all(momentum[0])


@lean
def is_made(ahead, number):  # type: ignore[no-untyped-def]
    """Whether the noise of an update is there: in entry ``number % K``."""
    entries = ahead.values.shape[0]
    return entries > 0 and load(ahead.made, (number % entries) * _LINE) == number
