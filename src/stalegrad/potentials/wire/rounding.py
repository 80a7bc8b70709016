"""Unbiased rounding: each number becomes one of its two neighbours on a coarser grid, by chance, so that E r(x) = x.

The chance is counter-based like all others, a 32-bit word of Philox for each coordinate, addressed as minibatches are
(the rounding of a gradient) or as noise is (that of a point). So what is rounded is a function of what the trace has.

**bfloat16** keeps the upper half of a float32: 8 bits of exponent, 7 of mantissa. With u the bits of x and w a random
word of 16 bits, r(x) has the bits (u + w) with the lower half cut off. A relative error of at most 2⁻⁷.

**int8** cuts the vector into blocks of :data:`BLOCK`. With e the smallest whole number for which max |x| ≤ 127 · 2ᵉ in
the block, r(x) = 2ᵉ (⌊x 2⁻ᵉ⌋ + 1{w < x 2⁻ᵉ − ⌊x 2⁻ᵉ⌋}), w uniform
on a grid of 2⁻²⁴. An error of at most 2ᵉ, so of less than 1/63 of the
block's largest entry. A power of two makes every r(x) a float32, and its whole number can be found again from it.

What is not finite stays so (int8: it makes its block NaN), and is refused by whoever receives it, as ever.
"""

import math

import numpy as np

from stalegrad._internal.jit import compiled, inlined
from stalegrad._internal.stack import stack_array
from stalegrad.kernels.noise import TILE
from stalegrad.kernels.noise.philox import key_words, philox

BLOCK = TILE
"""Coordinates that share a scale in int8."""

LEAST_EXPONENT = -126
"""Of 2ᵉ: the smallest float32 of full precision."""

_QUARTER = TILE // 4
_LOWER = np.uint32(0xFFFF)
_UPPER = np.uint32(0xFFFF0000)
_INFINITE = np.uint32(0x7F800000)
_QUIET = np.uint32(0x00400000)
_SIGN = np.uint32(0x80000000)
_LARGEST = np.uint32(0x7F7F0000)
_LARGEST_EXPONENT = 122  # of a scale
_MANTISSA_OF_127 = np.uint32(0x7E0000)  # 127 = (1 + 63/64) · 2⁶


@compiled
def fill_words(words, k0, k1, counter, tile, count):  # type: ignore[no-untyped-def]
    """A random word for each of the first ``count`` coordinates of a tile; later entries are left undefined.

    As with normals, the words of one block of Philox go a quarter of a tile apart, so that the loop is vectorised.
    """
    c1, c2, c3 = counter
    first = np.uint64(tile * _QUARTER)
    for i in range(min(_QUARTER, count)):
        a, b, c, d = philox(first + np.uint64(i), c1, c2, c3, k0, k1)
        words[i] = a
        words[_QUARTER + i] = b
        words[2 * _QUARTER + i] = c
        words[3 * _QUARTER + i] = d


@inlined
def _up_or_cut(u, word):  # type: ignore[no-untyped-def]
    """The bits of a float32, rounded to its upper half. Choices instead of branches: the loop is vectorised."""
    rounded = (u + (word & _LOWER)) & _UPPER
    rounded = (u & _SIGN) | _LARGEST if rounded & _INFINITE == _INFINITE else rounded  # not beyond the largest
    nan = u & ~_SIGN > _INFINITE  # whose mantissa may lie in the lower half
    as_it_is = (u & _UPPER) | (_QUIET if nan else np.uint32(0))
    return as_it_is if u & _INFINITE == _INFINITE else rounded


@compiled
def round_bfloat16(values, out, seed, c1, c2, c3):  # type: ignore[no-untyped-def]
    """out ← r(values), (R, n) of float32; row r is of repetition r from the counter's on. Both may be one array."""
    k0, k1 = key_words(seed)
    words = stack_array(np.uint32, TILE)
    for r in range(values.shape[0]):
        bits, into = values[r].view(np.uint32), out[r].view(np.uint32)
        counter = (c1, c2, c3 + (np.uint64(r) << np.uint64(16)))
        for low in range(0, bits.shape[0], TILE):
            count = min(TILE, bits.shape[0] - low)
            fill_words(words, k0, k1, counter, low // TILE, count)
            for i in range(count):
                into[low + i] = _up_or_cut(bits[low + i], words[i])


@compiled
def exponent_of(block):  # type: ignore[no-untyped-def]
    """The smallest e ≥ −126 for which max |x| ≤ 127 · 2ᵉ, and whether all x are finite."""
    bits, largest = block.view(np.uint32), np.uint32(0)
    for i in range(bits.shape[0]):
        largest = max(largest, bits[i] & ~_SIGN)  # numbers without a sign are ordered as their bits are
    if largest >= _INFINITE:
        return 0, False
    mantissa, e = np.uint32(largest & np.uint32(0x7FFFFF)), np.int64(largest >> np.uint32(23)) - 127
    # |x| = (1 + mantissa/2²³) 2ᵉ is at most 127 · 2^(e − 6) = (1 + 63/64) 2ᵉ, or takes one more.
    return max(e - 6 if mantissa <= _MANTISSA_OF_127 else e - 5, LEAST_EXPONENT), True


@inlined
def power_of_two(e):  # type: ignore[no-untyped-def]
    """The float32 2ᵉ, −126 ≤ e ≤ 127."""
    return np.float32(math.ldexp(1.0, e))


@compiled
def round_int8(values, out, seed, c1, c2, c3):  # type: ignore[no-untyped-def]
    """out ← r(values), (R, n) of float32; row r is of repetition r from the counter's on. Both may be one array."""
    k0, k1 = key_words(seed)
    words = stack_array(np.uint32, TILE)
    for r in range(values.shape[0]):
        counter = (c1, c2, c3 + (np.uint64(r) << np.uint64(16)))
        row, into = values[r], out[r]
        for low in range(0, row.shape[0], BLOCK):
            count = min(BLOCK, row.shape[0] - low)
            e, finite = exponent_of(row[low : low + count])
            if not finite:
                for i in range(count):
                    into[low + i] = np.nan
                continue
            fill_words(words, k0, k1, counter, low // TILE, count)
            scale, inverse = power_of_two(e), power_of_two(-e)
            most = np.float32(63) if e == _LARGEST_EXPONENT else np.float32(127)  # 64 times that scale is infinite
            for i in range(count):
                x = min(max(row[low + i] * inverse, -most), most)  # exact, as everything here is but for the chance
                whole = np.floor(x)
                chance = np.float32(np.int32(words[i] >> np.uint32(8))) * np.float32(2.0**-24)
                into[low + i] = (whole + (np.float32(1) if chance < x - whole else np.float32(0))) * scale
