"""The formats of messages by name: which rounding points and gradients get, and how many bytes they take."""

from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import numpy as np

from stalegrad._internal.jit import as_int64
from stalegrad._internal.types import Array
from stalegrad._internal.validation import one_of
from stalegrad.kernels.noise import Stream
from stalegrad.potentials.address import GradientAddress
from stalegrad.potentials.wire import packing, rounding

Messages = Literal["float32", "bfloat16", "int8"]


_LENGTH = 8  # bytes


class Counter(NamedTuple):
    """The address of a rounding for compiled code: words 1, 2 and 3 of Philox's counter."""

    c1: Any
    c2: Any
    c3: Any

    @classmethod
    def of_gradient(cls, address: GradientAddress) -> "Counter":
        """That of a worker's answer."""
        return cls._of(Stream.ROUND_GRADIENT, address.count, address.worker, address.chain, address.first_repeat)

    @classmethod
    def of_point(cls, chain: int, version: int, first_repeat: int) -> "Counter":
        """That of a chain's point after so many updates."""
        return cls._of(Stream.ROUND_POINT, version & 0xFFFFFFFF, version >> 32, chain, first_repeat)

    @classmethod
    def _of(cls, stream: Stream, index: int, high: int, chain: int, repeat: int) -> "Counter":
        return cls(np.uint64(index), np.uint64(high | stream << 16), np.uint64(chain | repeat << 16))


@dataclass(frozen=True)
class Codec:
    """Rounds vectors, and packs rounded ones into fewer bytes. This one does neither: all bits travel."""

    name: Messages = "float32"

    def round(self, values: Array, out: Array, seed: int, counter: Counter) -> Array:
        """Values (R, n) of float32, rounded, in ``out``, which may be the same array."""
        return values

    def packed_bytes(self, size: int, itemsize: int = 4) -> int:
        """What a vector of this size takes."""
        return size * itemsize

    def packed(self, values: Array) -> Array:
        """A rounded vector (1, n) as an array that tells how long it was; the vector itself where nothing is packed."""
        return values

    def unpacked(self, packed: Array) -> Array:
        """The vector (1, n) again."""
        return packed

    def pack(self, values: Array, out: Array) -> None:
        """Write a rounded vector (n,) as bytes, (its packed bytes,) of uint8."""
        out[...] = values.view(np.uint8)

    def unpack(self, packed: Array, out: Array) -> None:
        """Write the vector (n,) that was packed."""
        out.view(np.uint8)[...] = packed


class Packing(Codec):
    """A codec that does something. What it packs for itself is the vector's length, in eight bytes, and its bytes."""

    def packed(self, values: Array) -> Array:
        """Length and bytes, (its packed bytes + 8,) of uint8."""
        size = values.shape[1]
        packed = np.empty(_LENGTH + self.packed_bytes(size), np.uint8)
        packed[:_LENGTH].view(np.int64)[0] = size
        self.pack(values[0], packed[_LENGTH:])
        return packed

    def unpacked(self, packed: Array) -> Array:
        """A vector of its own, whatever memory the bytes are in."""
        out = np.empty((1, int(packed[:_LENGTH].view(np.int64)[0])), np.float32)
        self.unpack(packed[_LENGTH:], out[0])
        return out


class BFloat16(Packing):
    """The upper halves of float32 numbers: two bytes a parameter."""

    def round(self, values: Array, out: Array, seed: int, counter: Counter) -> Array:
        """To one of the two neighbours with 7 bits of mantissa."""
        rounding.round_bfloat16(values, out, as_int64(seed), *counter)
        return out

    def packed_bytes(self, size: int, itemsize: int = 4) -> int:
        """Two bytes for each of the parameters."""
        return 2 * size

    def pack(self, values: Array, out: Array) -> None:
        """Write the upper halves of the numbers."""
        packing.pack_bfloat16(values, out.view(np.uint16))

    def unpack(self, packed: Array, out: Array) -> None:
        """Upper halves, followed by zeros."""
        packing.unpack_bfloat16(packed.view(np.uint16), out)


class Int8(Packing):
    """Whole numbers from −127 to 127 times a power of two that 128 parameters share: a byte a parameter."""

    def round(self, values: Array, out: Array, seed: int, counter: Counter) -> Array:
        """To one of the two neighbouring multiples of the block's power of two."""
        rounding.round_int8(values, out, as_int64(seed), *counter)
        return out

    def packed_bytes(self, size: int, itemsize: int = 4) -> int:
        """One a parameter, and two for every 128."""
        return size + 2 * packing.blocks_of(size)

    def pack(self, values: Array, out: Array) -> None:
        """Write the exponents of all blocks, then the whole numbers."""
        packing.pack_int8(values, *packing.int8_parts(out, len(values)))

    def unpack(self, packed: Array, out: Array) -> None:
        """Whole numbers times powers of two."""
        packing.unpack_int8(*packing.int8_parts(packed, len(out)), out)


@dataclass(frozen=True)
class WireFormat:
    """How the messages of a run travel.

    Args:
        name: ``"float32"``, ``"bfloat16"`` or ``"int8"``.
        point: what becomes of points.
        gradient: what becomes of gradients.
    """

    name: Messages
    point: Codec
    gradient: Codec

    @property
    def rounds(self) -> bool:
        """Whether anything is rounded at all."""
        return self.name != "float32"

    def message_bytes(self, size: int, itemsize: int = 4) -> tuple[int, int]:
        """Those of a point and of a gradient of n parameters.

        >>> wire_format("int8").message_bytes(431_080)
        (862160, 437816)
        """
        return self.point.packed_bytes(size, itemsize), self.gradient.packed_bytes(size, itemsize)


EXACT = WireFormat("float32", Codec(), Codec())
"""Nothing is rounded."""

FORMATS: dict[str, WireFormat] = {
    "float32": EXACT,
    "bfloat16": WireFormat("bfloat16", BFloat16("bfloat16"), BFloat16("bfloat16")),
    "int8": WireFormat("int8", BFloat16("bfloat16"), Int8("int8")),
}
"""By name. Points are never rounded to int8: the error of a point does not average out where curvature changes."""


def wire_format(messages: Any) -> WireFormat:
    """The format of this name.

    >>> wire_format("int8").gradient.packed_bytes(431_080)
    437816
    """
    return FORMATS[one_of("messages", messages, tuple(FORMATS))]
