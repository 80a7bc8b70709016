"""Rounded vectors as fewer bytes, and back, without loss.

A vector that :mod:`stalegrad.potentials.wire.rounding` has rounded to bfloat16 is the upper halves of its numbers. One
rounded to int8 is, for each block, the exponent e and the whole numbers x 2⁻ᵉ. The e found here may be smaller than
that of the rounding, if the largest entry was rounded down; the numbers are whole all the same.
"""

import numpy as np

from stalegrad._internal.jit import compiled
from stalegrad._internal.types import Array
from stalegrad.potentials.wire.rounding import BLOCK, exponent_of, power_of_two

_NOT_FINITE = np.int16(32767)


@compiled
def pack_bfloat16(values, out):  # type: ignore[no-untyped-def]
    """The upper halves of float32 numbers (n,) as uint16 (n,)."""
    bits = values.view(np.uint32)
    for i in range(bits.shape[0]):
        out[i] = bits[i] >> np.uint32(16)


@compiled
def unpack_bfloat16(packed, out):  # type: ignore[no-untyped-def]
    """The float32 numbers (n,) whose upper halves these are."""
    bits = out.view(np.uint32)
    for i in range(bits.shape[0]):
        bits[i] = np.uint32(packed[i]) << np.uint32(16)


@compiled
def pack_int8(values, exponents, numbers):  # type: ignore[no-untyped-def]
    """Exponents (int16, one a block) and whole numbers (int8, (n,)) of float32 numbers (n,)."""
    for block in range(exponents.shape[0]):
        low, high = block * BLOCK, min((block + 1) * BLOCK, values.shape[0])
        e, finite = exponent_of(values[low:high])
        exponents[block] = e if finite else _NOT_FINITE
        inverse = power_of_two(-e)
        for i in range(low, high):
            numbers[i] = np.int8(np.int32(values[i] * inverse)) if finite else np.int8(0)


@compiled
def unpack_int8(exponents, numbers, out):  # type: ignore[no-untyped-def]
    """The float32 numbers (n,) of whole numbers and the exponents of their blocks."""
    for block in range(exponents.shape[0]):
        low, high = block * BLOCK, min((block + 1) * BLOCK, out.shape[0])
        e = exponents[block]
        scale = np.float32(np.nan) if e == _NOT_FINITE else power_of_two(e)
        for i in range(low, high):
            out[i] = np.float32(np.int32(numbers[i])) * scale


def blocks_of(size: int) -> int:
    """How many blocks a vector of this size has."""
    return -(-size // BLOCK)


def int8_parts(packed: Array, size: int) -> tuple[Array, Array]:
    """Exponents and whole numbers within the bytes of a packed vector of this size."""
    head = 2 * blocks_of(size)
    return packed[:head].view(np.int16), packed[head:].view(np.int8)
