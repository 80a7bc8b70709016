"""What travels between a server and a worker: a few numbers, and behind them a point, a gradient or a text."""

from typing import Any

import numpy as np

from stalegrad.types import Array

_LINE = 64  # bytes of a cache line: vectors begin at one, as they do in every other engine
_TEXT = 16_000  # bytes that a text may have; tracebacks are cut to it

START, WORK, STOP = range(3)
"""From the server: (re)start as this incarnation, compute, have done."""
READY, DONE, FAILED, BYE = range(3, 7)
"""From the worker: ready for work, here is the gradient, it raised this traceback, done indeed."""
KIND, INCARNATION, COUNT, VERSION, NANOSECONDS, LENGTH = range(6)
"""The numbers of a header."""


class Packet:
    """A buffer for one message at a time.

    Args:
        size: n.
        dtype: of points and gradients.
    """

    def __init__(self, size: int, dtype: Any) -> None:
        vector = size * np.dtype(dtype).itemsize
        memory = np.zeros(2 * _LINE + max(vector, _TEXT), np.uint8)
        first = -memory.ctypes.data % _LINE
        self.room: Array = memory[first : first + _LINE + max(vector, _TEXT)]
        """All of it: what a message may fill."""
        self.head: Array = self.room[:_LINE]
        """A message of numbers alone."""
        self.whole: Array = self.room[: _LINE + vector]
        """A message with a vector."""
        self.header = self.head.data.cast("q")  # faster than NumPy for single numbers
        self.vector: Array = self.whole[_LINE:].view(dtype)[None]

    def set_text(self, text: str) -> Array:
        """A message with a text; of one that is too long, its beginning and its end."""
        content = text.encode()
        if len(content) > _TEXT:
            content = content[: _TEXT // 4] + "\n…\n".encode() + content[16 - 3 * _TEXT // 4 :]
        self.header[LENGTH] = len(content)
        self.room[_LINE : _LINE + len(content)] = np.frombuffer(content, np.uint8)
        return self.room[: _LINE + len(content)]

    @property
    def text(self) -> str:
        """The text that has come."""
        content = bytes(self.room[_LINE : _LINE + self.header[LENGTH]])
        return content.decode(errors="replace")
