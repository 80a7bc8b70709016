"""From an address to the indices of a minibatch, compiled."""

import numpy as np
from numba import njit

from stalegrad._internal.jit import compiled, lean
from stalegrad.kernels.noise.philox import MAX_COUNT, MAX_WORKERS, Stream, philox, worker_counter

SUBSET, REPLACEMENT, RESHUFFLE, IN_ORDER = range(4)

_SMALL = 256  # up to here permutations are shuffled outright: on few cells a Feistel network is visibly not uniform
_ROUNDS = 8  # of the Feistel network; the keys of two rounds come from one 64-bit word
_STREAM = int(Stream.MINIBATCH)
_EMPTY = np.uint32(0xFFFFFFFF)
_LOW = np.uint64(0xFFFFFFFF)
_ONE = np.uint64(1)
_32 = np.uint64(32)


@compiled
def draw(code, n_data, key0, key1, chain, repeat, worker, count, out):  # type: ignore[no-untyped-def]
    """Fills ``out`` (J,) with the minibatch of one address."""
    words, table = room(code, n_data, out.shape[0])
    minibatch(code, n_data, key0, key1, chain, repeat, worker, count, words, table, out)


@compiled
def draw_many(code, n_data, key0, key1, chain, first_repeat, workers, counts, out):  # type: ignore[no-untyped-def]
    """Fills ``out`` (B, R, J); returns −1, or the place of the first address that is out of range."""
    words, table = room(code, n_data, out.shape[2])
    for b in range(out.shape[0]):
        if not (0 <= workers[b] < MAX_WORKERS and 0 <= counts[b] < MAX_COUNT):
            return b
        for r in range(out.shape[1]):
            repeat = first_repeat + r
            minibatch(code, n_data, key0, key1, chain, repeat, workers[b], counts[b], words, table, out[b, r])
    return -1


@njit
def room(code, n_data, batch_size):  # type: ignore[no-untyped-def]
    """Room for the random words, two a Philox block, and for a sparse hash table or a whole permutation.

    The table is at most an eighth full: collisions are branches that no processor foresees.
    """
    words, slots = max(batch_size, _ROUNDS), 1
    if code == SUBSET:
        while slots < 8 * batch_size:
            slots *= 2
    elif code == RESHUFFLE and n_data <= _SMALL:
        words = slots = n_data
    return np.empty(words + 1, np.uint64), np.empty(slots, np.uint32)


@lean
def minibatch(code, n_data, key0, key1, chain, repeat, worker, count, words, table, out):  # type: ignore[no-untyped-def]
    """As :func:`draw`, for compiled callers, who have made :func:`room` before."""
    size = out.shape[0]
    if code == IN_ORDER:
        for i in range(size):
            out[i] = i
        return
    epoch_length = n_data // size if code == RESHUFFLE else 1  # without reshuffling each minibatch is an epoch
    epoch = count // epoch_length
    start = (count - epoch * epoch_length) * size
    n_words = size
    if code == RESHUFFLE:
        n_words = start + size if n_data <= _SMALL else _ROUNDS // 2
    counter = worker_counter(_STREAM, chain, repeat, worker, epoch)
    _random_words(np.uint64(key0), np.uint64(key1), counter, n_words, words)
    if code == SUBSET:
        _subset(n_data, words, table, out)
    elif code == REPLACEMENT:
        for i in range(size):
            out[i] = np.int64(_below(words[i], np.uint64(n_data)))
    elif n_data <= _SMALL:
        _part_of_shuffle(n_data, words, table, start, out)
    else:
        _part_of_permutation(n_data, words, start, out)


@lean
def _random_words(key0, key1, counter, n, words):  # type: ignore[no-untyped-def]
    for block in range((n + 1) // 2):
        a, b, c, d = philox(np.uint64(block), counter[0], counter[1], counter[2], key0, key1)
        words[2 * block] = (a << _32) | b
        words[2 * block + 1] = (c << _32) | d


@njit(inline="always")
def _below(word, bound):  # type: ignore[no-untyped-def]
    """⌊word · bound / 2⁶⁴⌋ for bound < 2³²."""
    return ((word >> _32) * bound + (((word & _LOW) * bound) >> _32)) >> _32


@lean
def _subset(n_data, words, table, out):  # type: ignore[no-untyped-def]
    """Floyd: for each j from N−J to N−1 take a uniform t of 0…j, or j itself if t is taken already.

    The table is open addressing by the low bits, which are good enough a hash: entries are uniform draws.
    """
    size = out.shape[0]
    first = n_data - size
    for i in range(size):
        words[i] = _below(words[i], np.uint64(first + i + 1))
    for i in range(table.shape[0]):
        table[i] = _EMPTY
    mask = np.uint64(table.shape[0] - 1)
    for i in range(size):
        t = words[i]
        slot = t & mask
        while table[slot] != _EMPTY and table[slot] != t:
            slot = (slot + _ONE) & mask
        if table[slot] == t:
            t = np.uint64(first + i)
            slot = t & mask
            while table[slot] != _EMPTY:
                slot = (slot + _ONE) & mask
        table[slot] = np.uint32(t)
        out[i] = np.int64(t)


@lean
def _part_of_shuffle(n_data, words, order, start, out):  # type: ignore[no-untyped-def]
    """Places start, start + 1, … of a Fisher-Yates shuffle, which is not carried on beyond them."""
    for i in range(n_data):
        order[i] = i
    for i in range(start + out.shape[0]):
        j = np.uint64(i) + _below(words[i], np.uint64(n_data - i))
        order[i], order[j] = order[j], order[i]
        if i >= start:
            out[i - start] = order[i]


@lean
def _part_of_permutation(n_data, words, start, out):  # type: ignore[no-untyped-def]
    """Places start, start + 1, … of the permutation that the words are the key of.

    A Feistel network on the rectangle of a × b ≥ N cells, a = ⌈√N⌉, with addition modulo a and b in place of XOR; a
    cell beyond N is sent through again until it lands among the N (cycle walking), which is rare as ab < N + a.
    """
    n = np.uint64(n_data)
    a = np.uint64(np.ceil(np.sqrt(float(n_data))))
    b = (n + a - _ONE) // a
    for i in range(out.shape[0]):
        out[i] = np.int64(_feistel(np.uint64(start + i), a, b, words))
    for i in range(out.shape[0]):
        while out[i] >= n_data:
            out[i] = np.int64(_feistel(np.uint64(out[i]), a, b, words))


@njit(inline="always")
def _feistel(x, a, b, words):  # type: ignore[no-untyped-def]
    left, right = x // b, x % b
    for r in range(_ROUNDS // 2):
        left += (_mix(right ^ (words[r] >> _32)) * a) >> _32
        left = left - a if left >= a else left
        right += (_mix(left ^ (words[r] & _LOW)) * b) >> _32
        right = right - b if right >= b else right
    return left * b + right


@njit(inline="always")
def _mix(x):  # type: ignore[no-untyped-def]
    """A bijection of 32-bit words with next to no bias between input and output bits (Wellons' lowbias32)."""
    x = ((x ^ (x >> np.uint64(16))) * np.uint64(0x7FEB352D)) & _LOW
    x = ((x ^ (x >> np.uint64(15))) * np.uint64(0x846CA68B)) & _LOW
    return x ^ (x >> np.uint64(16))
