"""The buffer of a message between ranks: a header, and behind it a point, a gradient or a text."""

from typing import Any

import numpy as np

from stalegrad._internal.types import Array
from stalegrad.engines import message as m

_TEXT = 16_000  # bytes that a text may have; tracebacks are cut to it


class Packet:
    """A buffer for one message at a time.

    Args:
        size: n.
        dtype: of points and gradients.
    """

    def __init__(self, size: int, dtype: Any) -> None:
        vector = size * np.dtype(dtype).itemsize
        memory = np.zeros(2 * m.BYTES + max(vector, _TEXT), np.uint8)
        first = -memory.ctypes.data % m.BYTES
        self.room: Array = memory[first : first + m.BYTES + max(vector, _TEXT)]
        """All of it: what a message may fill."""
        self.head: Array = self.room[: m.BYTES]
        """A message of numbers alone."""
        self.whole: Array = self.room[: m.BYTES + vector]
        """A message with a vector."""
        self.header = m.header_of(self.head.data)
        self.vector: Array = self.whole[m.BYTES :].view(dtype)[None]
        self.header[m.LENGTH] = vector

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
