"""What the compiled workers of one chain share: a lock, the chain's counters, and where each worker is.

All of it are arrays. Whoever holds the lock may read and write everything; without it, a worker reads its own entries
of ``flights`` and its own row of ``points`` while it flies, and anybody may :func:`load` what is marked atomic. Entries
that different threads write often lie on different cache lines.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import numpy as np
from numba import types

from stalegrad._internal.atomics import fence, load, pause, store, swap
from stalegrad._internal.jit import compiled, lean
from stalegrad._internal.stack import stack_array
from stalegrad._internal.types import Array, IntArray
from stalegrad.engines.team import available_cores
from stalegrad.kernels.noise import TILE
from stalegrad.protocol.past import Past

LINE = 16
"""int64 entries of two cache lines, which processors fetch together."""
LOCK, STOP, VERSION = 0, LINE, 2 * LINE  # entries of ``words``; these are atomic
ROW, ENTRY, SEGMENT, FLYING, HEAD, WAITING = range(VERSION + 1, VERSION + 7)
CORES = 3 * LINE
STATE, ASLEEP, COUNT, READ, NEXT, INCARNATION, LANDED, COMPUTING, UPDATING, STARTED, LAST = range(11)
# entries of a worker's ``flights``
ABSENT, HELD, AWAY, GONE = range(4)  # what STATE may be

_LEAST, _MOST, _SECTIONS = 2048, 16384, 16  # coordinates of a section: a sixteenth of all, between two bounds
_SPINS = 400  # looks at the lock before the core is yielded, about 10 µs
_YIELDS = 16  # of the core, before the thread sleeps
_SHORTEST, _LONGEST = 20, 10_000  # microseconds that it sleeps, twice as long each time


def cut(n: int) -> IntArray:
    """Where the sections of n coordinates begin, and the last one ends: one of them, unless each is worth its while.

    >>> cut(5_000), cut(10_000)
    (array([   0, 2048, 4096, 5000]), array([    0,  2048,  4096,  6144,  8192, 10000]))
    >>> len(cut(431_080)) - 1, len(cut(2_000)) - 1
    (27, 1)
    """
    length = min(max(_LEAST, -(-n // _SECTIONS) // TILE * TILE), _MOST)
    return np.append(np.arange(0, n, length), n)


class Shared(NamedTuple):
    """The arrays.

    Args:
        words: LOCK: whether somebody holds the lock. STOP: whether all are to return. VERSION: l. ROW: rows written in
            this segment. ENTRY: where the next draw goes. SEGMENT: the number of the present one. FLYING: how many
            workers compute. HEAD, WAITING: where the queue begins, and how many are in it. CORES: how many there are.
        flights: for each worker STATE (atomic), ASLEEP: whether it waits for its pipe (atomic), COUNT and READ: the
            minibatch that it computes and the version that it has read, NEXT: the minibatch that it is given next,
            INCARNATION: which one of it counts, LANDED: how many gradients of it have come since its last fault,
            nanoseconds COMPUTING gradients and UPDATING the chain, when it STARTED to compute, how long the LAST took.
        queue: the workers that wait for a point, a ring.
        points: what each worker was sent, a row each that is longer than a point.
        pipes: for each worker the two ends of the pipe that wakes it, once they are open; none where nobody is held.
        sections: where each section of the chain begins, and where the last one ends; one section alone for few
            parameters or one worker (:mod:`stalegrad.engines.threads.pipeline`).
        passed: for each section, on cache lines of its own, how many updates have left it; atomic.
    """

    words: IntArray
    flights: IntArray
    queue: IntArray
    points: Array
    pipes: IntArray
    sections: IntArray
    passed: IntArray

    @classmethod
    def of(cls, workers: int, like: Array, past: Past | None, *, version: int, held: bool) -> "Shared":
        """Of so many workers that are still to join, for points like this one; ``held`` if some may be held."""
        words, flights = np.zeros(4 * LINE, np.int64), np.zeros((workers, LINE), np.int64)
        words[VERSION], words[CORES] = version, available_cores()
        for worker, count in (past.next_counts() if past else {}).items():
            if worker < workers:
                flights[worker, NEXT] = count
        width = like.shape[1] + 2 * LINE
        points, queue = np.zeros((workers, width), like.dtype), np.zeros(workers, np.int64)
        pipes = np.full((workers if held else 0, 2), -1, np.int64)
        sections = cut(like.shape[1]) if workers > 1 else np.array([0, like.shape[1]])
        passed = np.full((len(sections) - 1) * LINE, version, np.int64)
        return cls(words, flights.reshape(-1), queue, points, pipes, sections, passed)

    def of_worker(self, entry: int) -> IntArray:
        """One entry of all workers' flights."""
        return self.flights.reshape(-1, LINE)[:, entry]

    def open(self) -> None:
        """Open the pipes, before any thread uses them."""
        for ends in self.pipes:
            ends[:] = os.pipe()

    def close(self) -> None:
        """Close the pipes, when no thread uses them any more."""
        for end in self.pipes.reshape(-1).tolist():
            os.close(end)


@lean
def flight(worker):  # type: ignore[no-untyped-def]
    """Where a worker's entries begin in ``flights``."""
    return worker * LINE


_yield_core: Any = types.ExternalFunction("sched_yield", types.int32())  # all four of the C library
_usleep: Any = types.ExternalFunction("usleep", types.int32(types.uint32))
_read: Any = types.ExternalFunction("read", types.int64(types.int32, types.voidptr, types.uint64))
_write: Any = types.ExternalFunction("write", types.int64(types.int32, types.voidptr, types.uint64))


@compiled
def lock(words):  # type: ignore[no-untyped-def]
    """Wait for the lock: polling, then yielding the core, then sleeping. Returns whether others held it."""
    tries, microseconds = 0, _SHORTEST
    while load(words, LOCK) != 0 or not swap(words, LOCK, 0, 1):
        tries, microseconds = _wait(tries + 1, microseconds)
    return tries > 0


@compiled
def lock_for_update(shared):  # type: ignore[no-untyped-def]
    """:func:`lock`, but no sooner than fewer updates are under way than there are cores.

    Updates that follow each other cannot overtake: one whose thread has no core would hold up all behind it.
    """
    words, passed, tries, microseconds = shared.words, shared.passed, 0, _SHORTEST
    if shared.sections.shape[0] == 2:
        return lock(words)
    while (
        load(words, LOCK) != 0
        or load(words, VERSION) - load(passed, passed.shape[0] - LINE) >= words[CORES]
        or not swap(words, LOCK, 0, 1)
    ):
        tries, microseconds = _wait(tries + 1, microseconds)
    return tries > 0


@lean
def wait_until(vector, index, value):  # type: ignore[no-untyped-def]
    """Wait until an atomic entry has a value, which somebody with a core is about to give it: never asleep for long."""
    tries = 0
    while load(vector, index) != value:
        tries, _ = _wait(tries + 1, _SHORTEST)


@lean
def _wait(tries, microseconds):  # type: ignore[no-untyped-def]
    """A moment, the longer the more tries there have been; how many to count, and how long to sleep next."""
    if tries < _SPINS:
        pause()
    elif tries < _SPINS + _YIELDS:
        _yield_core()
    else:
        _usleep(microseconds)
        return _SPINS // 2, min(2 * microseconds, _LONGEST)
    return tries, microseconds


@compiled
def lock_chain(shared):  # type: ignore[no-untyped-def]
    """Wait for the lock, and until no update is under way: until it is unlocked the chain is whole, of one version."""
    lock(shared.words)
    wait_for_chain(shared)


@lean
def wait_for_chain(shared):  # type: ignore[no-untyped-def]
    """With the lock in hand: wait until those that update the chain by section have come through."""
    if shared.sections.shape[0] > 2:
        wait_until(shared.passed, shared.passed.shape[0] - LINE, shared.words[VERSION])


@compiled
def unlock(words):  # type: ignore[no-untyped-def]
    """Let the next one have the lock, and with it all that was written under it."""
    store(words, LOCK, 0)


@contextmanager
def locked(shared: Shared) -> Iterator[None]:
    """In Python: between two updates."""
    lock_chain(shared)
    try:
        yield
    finally:
        unlock(shared.words)


@compiled
def stop(words):  # type: ignore[no-untyped-def]
    """Have all workers return; those that sleep must be woken besides."""
    store(words, STOP, 1)
    fence()


@lean
def nap(words, nanoseconds):  # type: ignore[no-untyped-def]
    """Sleep for so long, or until all are to return; whether they are not."""
    left = nanoseconds
    while left > 0:
        if load(words, STOP) != 0:
            return False
        part = min(left, 20_000_000)
        _usleep(part // 1000)
        left -= part
    return True


@lean
def wait_while_held(shared, worker):  # type: ignore[no-untyped-def]
    """Wait until this worker is given a point, or all are to return: polling for a moment, then asleep.

    It says that it sleeps before it looks once more; who gives it a point does so before looking whether it sleeps. So
    one of them sees the other, and no wake-up is lost.
    """
    words, flights = shared.words, shared.flights
    at = flight(worker)
    for _ in range(_SPINS):
        if load(flights, at + STATE) != HELD or load(words, STOP) != 0:
            return
        pause()
    store(flights, at + ASLEEP, 1)
    fence()
    if load(flights, at + STATE) == HELD and load(words, STOP) == 0:
        byte = stack_array(np.int8, 1)
        _read(shared.pipes[worker, 0], byte.ctypes, 1)
    store(flights, at + ASLEEP, 0)


@compiled
def wake(shared, worker):  # type: ignore[no-untyped-def]
    """Wake a worker that may be asleep; if it is not, the next time that it wants to sleep it wakes at once."""
    byte = stack_array(np.int8, 1)
    byte[0] = 0
    _write(shared.pipes[worker, 1], byte.ctypes, 1)
