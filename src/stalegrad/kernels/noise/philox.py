"""Philox 4x32-10: four random 32-bit words as a pure function of a counter and a key.

Salmon, Moraes, Dror and Shaw, "Parallel random numbers: as easy as 1, 2, 3", SC 2011.

There is no generator state anywhere in stalegrad. A caller names what its random words are for, and the name is
the counter: so the numbers do not depend on who asks first, on how many threads ask, or on how the work is cut up.

The key is the run's 64-bit seed. The counter's four words are

======  ============================================================================
word    meaning
======  ============================================================================
0       block: which four words of a longer sequence
1       low 32 bits of the index (the update's or the minibatch's number)
2       the 16-bit :class:`Stream`, and below it 16 more bits of the update's number,
        or the worker that the minibatch belongs to
3       the 16-bit repetition, and below it the 16-bit chain
======  ============================================================================
"""

from enum import IntEnum

import numpy as np

from stalegrad._internal.jit import inlined

MAX_CHAINS = 1 << 16
MAX_REPEATS = 1 << 16
MAX_WORKERS = 1 << 16
MAX_UPDATES = 1 << 48
MAX_COUNT = 1 << 32
MAX_SEED = (1 << 64) - 1

_M0 = np.uint64(0xD2511F53)
_M1 = np.uint64(0xCD9E8D57)
_W0 = np.uint64(0x9E3779B9)
_W1 = np.uint64(0xBB67AE85)
_LOW = np.uint64(0xFFFFFFFF)
_16 = np.uint64(16)
_32 = np.uint64(32)


class Stream(IntEnum):
    """What a random number is for. Two purposes never share a counter."""

    UPDATE = 0  # the noise injected by update l
    START = 1  # the auxiliary variables (momentum) a chain starts with
    MINIBATCH = 2  # which data a worker's k-th gradient looks at
    DELAY = 3  # simulated compute times
    UPDATE_2 = 4  # the second, third and fourth normal of a coordinate, where update l needs several
    UPDATE_3 = 5
    UPDATE_4 = 6
    START_2 = 7  # the second and third normal of a coordinate at the start
    START_3 = 8
    CENTRE = 9  # the centre to which the chains of elastic workers are tied, at update l
    ROUND_GRADIENT = 10  # how the answer of a worker is rounded that travels in fewer bits
    ROUND_POINT = 11  # likewise the point of a chain after update l


@inlined
def philox(c0, c1, c2, c3, k0, k1):  # type: ignore[no-untyped-def]
    """Ten rounds of Philox on 32-bit words held in uint64, which is what lets LLVM use packed 32x32->64 multiplies."""
    for _ in range(10):
        p0 = (c0 & _LOW) * _M0
        p1 = (c2 & _LOW) * _M1
        c0 = (p1 >> _32) ^ c1 ^ k0
        c1 = p1  # the high half is masked where it matters, and packed multiplies do that for free
        c2 = (p0 >> _32) ^ c3 ^ k1
        c3 = p0
        k0 = (k0 + _W0) & _LOW
        k1 = (k1 + _W1) & _LOW
    return c0 & _LOW, c1 & _LOW, c2 & _LOW, c3 & _LOW


@inlined
def update_counter(stream, chain, repeat, update):  # type: ignore[no-untyped-def]
    """Words 1, 2 and 3 of what belongs to an update of a chain."""
    u = np.uint64(update)
    return u & _LOW, (u >> _32) | (np.uint64(stream) << _16), np.uint64(chain) | (np.uint64(repeat) << _16)


@inlined
def worker_counter(stream, chain, repeat, worker, count):  # type: ignore[no-untyped-def]
    """Words 1, 2 and 3 of what belongs to a worker of a chain."""
    return (
        np.uint64(count) & _LOW,
        np.uint64(worker) | (np.uint64(stream) << _16),
        np.uint64(chain) | (np.uint64(repeat) << _16),
    )


@inlined
def key_words(seed):  # type: ignore[no-untyped-def]
    """The two key words of a 64-bit seed."""
    s = np.uint64(seed)
    return s & _LOW, s >> _32
