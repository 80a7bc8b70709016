"""Standard normals addressed by (seed, chain, update, coordinate), made a tile at a time inside a compiled loop.

Coordinates are cut into tiles of :data:`TILE`. A tile's normals come from consecutive Philox blocks by Box-Muller:
words (x, y) give √(−2 log u(x)) times the point of the unit circle that y names. The words of one block do not go to
neighbouring coordinates but a quarter (float32) or half (float64) of a tile apart, so that every inner loop reads and
writes consecutive memory and is vectorised. The normal of a coordinate is a pure function of its address all the same:
the number of threads, shards and repetitions, and the order of arrival, cannot change it.

float32 normals use 32 bits for the radius (they reach 6.7) and float64 normals use 53 (they reach 8.5).
"""

import math

import numpy as np

from stalegrad._internal.elementary import circle32, circle64, fma, log32, log64
from stalegrad._internal.jit import as_int64, compiled, inlined
from stalegrad._internal.parts import part
from stalegrad._internal.stack import stack_array
from stalegrad._internal.types import Array
from stalegrad.kernels.noise.philox import key_words, philox, update_counter

TILE = 128
"""Coordinates in a tile. A range handed to a fused loop must start at a multiple of it."""

_QUARTER = TILE // 4
_HALF = TILE // 2
_WORDS = 2 * TILE


@inlined
def _pair32(x, y):  # type: ignore[no-untyped-def]
    """Two float32 normals from two words. The halves of x are converted apart: AVX2 converts signed integers only."""
    high = np.float32(np.int32(np.uint32(x) >> np.uint32(16)))
    low = np.float32(np.int32(np.uint32(x) & np.uint32(0xFFFF)))
    u = fma(high, np.float32(2.0**-16), fma(low, np.float32(2.0**-32), np.float32(2.0**-33)))
    radius = math.sqrt(np.float32(-2) * log32(u))
    cosine, sine = circle32(y)
    return radius * cosine, radius * sine


@inlined
def _pair64(x, x_low, y, y_low):  # type: ignore[no-untyped-def]
    """Two float64 normals from four words."""
    low = np.float64(np.int32(np.uint32(x_low) >> np.uint32(11)))
    u = fma(np.float64(np.uint32(x)), 2.0**-32, fma(low, 2.0**-53, 2.0**-54))
    radius = math.sqrt(-2.0 * log64(u))
    cosine, sine = circle64(y, y_low)
    return radius * cosine, radius * sine


@part(error_model="numpy")
def fill_tile(z, words, seed, stream, chain, repeat, update, tile, count):  # type: ignore[no-untyped-def]
    """Put the first ``count`` normals of a tile into z; entries of z beyond them are left undefined.

    Args:
        z: array of :data:`TILE` float32 or float64.
        words: scratch, 2 · TILE uint32.
        seed: of the run; with the next four it is the address, see :mod:`stalegrad.kernels.noise.philox`.
        stream: what the normals are for.
        chain: the chain.
        repeat: the repetition.
        update: the update's number.
        tile: number of the tile, the coordinate divided by :data:`TILE`.
        count: how many normals are wanted, from the tile's start.
    """
    k0, k1 = key_words(seed)
    c1, c2, c3 = update_counter(stream, chain, repeat, update)
    single = z.itemsize == 4
    blocks = _QUARTER if single else _HALF
    first = np.uint64(tile * blocks)
    blocks = min(blocks, count)
    for i in range(blocks):
        a, b, c, d = philox(first + np.uint64(i), c1, c2, c3, k0, k1)
        words[i] = a
        words[_HALF + i] = b
        words[TILE + i] = c
        words[TILE + _HALF + i] = d
    if single:
        for i in range(blocks):
            z[i], z[_QUARTER + i] = _pair32(words[i], words[_HALF + i])
        for i in range(blocks):
            z[_HALF + i], z[_HALF + _QUARTER + i] = _pair32(words[TILE + i], words[TILE + _HALF + i])
    else:
        for i in range(blocks):
            z[i], z[_HALF + i] = _pair64(words[i], words[_HALF + i], words[TILE + i], words[TILE + _HALF + i])


@inlined
def scratch(like):  # type: ignore[no-untyped-def]
    """The two work arrays of :func:`fill_tile` for a loop over arrays like this one. Normals are 0 until filled."""
    z = stack_array(like.dtype, TILE)
    for i in range(TILE):
        z[i] = 0
    return z, stack_array(np.uint32, _WORDS)


@compiled
def fill(out, seed, stream, chain, first_repeat, update, start, stop):  # type: ignore[no-untyped-def]
    """Put the normals of coordinates ``start`` to ``stop`` of an address into ``out``, (R, n)."""
    z, words = scratch(out)
    for r in range(out.shape[0]):
        for low in range(start, stop, TILE):
            count = min(TILE, stop - low)
            fill_tile(z, words, seed, stream, chain, first_repeat + r, update, low // TILE, count)
            part = out[r, low : low + count]
            for i in range(count):
                part[i] = z[i]


@compiled
def _fill_updates(out, seed, streams, chain, repeat, first):  # type: ignore[no-untyped-def]
    for b in range(out.shape[0]):
        for k in range(out.shape[1]):
            fill(out[b, k : k + 1], seed, streams[k], chain, repeat, first + b, np.int64(0), out.shape[2])


def normals_of_updates(out: Array, seed: int, streams: Array, chain: int, repeat: int, first: int) -> None:
    """Fill ``out`` (update, normal, coordinate) with the normals of one repetition's updates from ``first`` on."""
    _fill_updates(out, as_int64(seed & (2**64 - 1)), streams, chain, repeat, first)


def normals(out: Array, seed: int, stream: int, chain: int, update: int, *, first_repeat: int = 0) -> Array:
    """Fill ``out`` (repetition, coordinate) with the normals that a fused update at this address would use."""
    fill(out, as_int64(seed & (2**64 - 1)), int(stream), chain, first_repeat, update, 0, out.shape[1])
    return out
