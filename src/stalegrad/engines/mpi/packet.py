"""The buffer of a message between ranks: a header, and behind it a point, a gradient or a text."""

from typing import Any

import numpy as np

from stalegrad._internal.types import Array
from stalegrad.engines import message as m
from stalegrad.potentials.wire.formats import EXACT, Codec

_TEXT = 16_000  # bytes that a text may have; tracebacks are cut to it


class Packet:
    """A buffer for one message at a time.

    Args:
        size: n.
        dtype: of points and gradients.
        codec: how the vector travels: as it is, or packed, and then it has a place of its own besides.
    """

    def __init__(self, size: int, dtype: Any, codec: Codec = EXACT.point) -> None:
        vector = codec.packed_bytes(size, np.dtype(dtype).itemsize)
        memory = np.zeros(2 * m.BYTES + max(vector, _TEXT), np.uint8)
        first = -memory.ctypes.data % m.BYTES
        self.room: Array = memory[first : first + m.BYTES + max(vector, _TEXT)]
        """All of it: what a message may fill."""
        self.head: Array = self.room[: m.BYTES]
        """A message of numbers alone."""
        self.whole: Array = self.room[: m.BYTES + vector]
        """A message with a vector."""
        self.header = m.header_of(self.head.data)
        self._codec = codec if codec != EXACT.point else None
        self._packed: Array = self.whole[m.BYTES :]
        self.vector: Array = np.zeros((1, size), dtype) if self._codec else self._packed.view(dtype)[None]
        """The vector that is sent, or that has come; put into and taken out of a message by the two methods below."""
        self.header[m.LENGTH] = vector

    @property
    def exact(self) -> bool:
        """Whether the vector travels as it is, in place."""
        return self._codec is None

    def pack(self) -> None:
        """Put the vector into the message that is to be sent."""
        if self._codec is not None:
            self._codec.pack(self.vector[0], self._packed)

    def unpack(self) -> Array:
        """The vector of the message that has come, which is intact."""
        if self._codec is not None:
            self._codec.unpack(self._packed, self.vector[0])
        return self.vector

    def set_text(self, text: str) -> Array:
        """A message with a text; of one that is too long, its beginning and its end."""
        content = text.encode()
        if len(content) > _TEXT:
            content = content[: _TEXT // 4] + "\n…\n".encode() + content[16 - 3 * _TEXT // 4 :]
        self.header[m.LENGTH] = len(content)
        self.room[m.BYTES : m.BYTES + len(content)] = np.frombuffer(content, np.uint8)
        return self.room[: m.BYTES + len(content)]

    @property
    def intact(self) -> bool:
        """Whether the message that has come is as it was sent, by its checksum."""
        length, most = self.header[m.LENGTH], len(self.room) - m.BYTES
        return 0 <= length <= most and m.checksum_of(self.room, length) == self.header[m.CHECKSUM]

    def seal(self) -> None:
        """Write the checksum of the message that is to be sent."""
        self.header[m.CHECKSUM] = m.checksum_of(self.room, self.header[m.LENGTH])

    @property
    def text(self) -> str:
        """The text that has come."""
        content = bytes(self.room[m.BYTES : m.BYTES + self.header[m.LENGTH]])
        return content.decode(errors="replace")
