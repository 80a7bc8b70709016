"""Memory and signals that processes share, without names: when the last process that holds them ends, they are gone.

Nothing appears in /dev/shm or any other folder, so there is nothing to clean up after a kill -9.
"""

import contextlib
import mmap
import os
import select
import sys
import tempfile
from typing import Any

import numpy as np

from stalegrad.types import Array

_LINE = 64  # bytes of a cache line; parts that different processes write do not share one
_RING = (1).to_bytes(8, sys.byteorder)  # an eventfd counts in eight bytes


def anonymous_file(size: int) -> int:
    """The descriptor of a file in memory that has no name."""
    if hasattr(os, "memfd_create"):
        descriptor = os.memfd_create("stalegrad")
    else:  # not Linux: a temporary file whose name is gone before anybody else can see it
        descriptor, path = tempfile.mkstemp()
        os.unlink(path)
    os.ftruncate(descriptor, max(size, 1))
    return descriptor


class Bell:
    """Wakes a process that waits for it. Rings before the waiting begins are not lost; several may count as one."""

    def __init__(self, read: int, write: int) -> None:
        self.read, self.write = read, write
        self._poll = select.poll()
        self._poll.register(read, select.POLLIN)

    @classmethod
    def make(cls) -> "Bell":
        """A new bell: an eventfd where there is one, else a pipe."""
        if hasattr(os, "eventfd"):
            descriptor = os.eventfd(0)
            return cls(descriptor, descriptor)
        read, write = os.pipe()
        os.set_blocking(write, False)
        return cls(read, write)

    def ring(self) -> None:
        """Wake whoever waits."""
        with contextlib.suppress(BlockingIOError):  # a pipe full of rings is loud enough
            os.write(self.write, _RING)

    def wait(self) -> bool:
        """Sleep until it rings."""
        return bool(os.read(self.read, 4096))

    def wait_for(self, seconds: float) -> bool:
        """Sleep until it rings, but not for longer than this; whether it has rung."""
        if not self._poll.poll(seconds * 1000):
            return False
        os.read(self.read, 4096)  # does not block: nobody else reads this bell
        return True

    @property
    def descriptors(self) -> tuple[int, ...]:
        """What another process needs to inherit."""
        return (self.read,) if self.read == self.write else (self.read, self.write)

    def close(self) -> None:
        """Free it."""
        for descriptor in self.descriptors:
            os.close(descriptor)


class Slots:
    """The memory between a server and its W workers: a header, a point and a gradient for each worker.

    A worker's slot is written by one side at a time: by the server until it sets ``state`` to WORK and rings, by the
    worker until it sets it to DONE and rings back. So nothing is copied through a pipe, and nothing is locked.

    Args:
        descriptor: of the shared file.
        workers: W.
        size: n.
        dtype: of points and gradients.
    """

    IDLE, WORK, DONE, STOP = range(4)
    STATE, INCARNATION, COUNT, VERSION, NANOSECONDS, FINISHED = range(6)

    def __init__(self, descriptor: int, workers: int, size: int, dtype: Any) -> None:
        dtype = np.dtype(dtype)
        self._memory = mmap.mmap(descriptor, self.bytes(workers, size, dtype))
        vector = _padded(size * dtype.itemsize)
        header = _LINE // 8
        numbers = memoryview(self._memory)[: workers * _LINE].cast("q")  # faster than NumPy for single numbers
        self.headers = [numbers[w * header : (w + 1) * header] for w in range(workers)]
        base = workers * _LINE
        self.points = [self._vector(base + 2 * w * vector, size, dtype) for w in range(workers)]
        self.gradients = [self._vector(base + (2 * w + 1) * vector, size, dtype) for w in range(workers)]

    @staticmethod
    def bytes(workers: int, size: int, dtype: Any) -> int:
        """How large the shared file must be."""
        return workers * (_LINE + 2 * _padded(size * np.dtype(dtype).itemsize))

    def _vector(self, offset: int, size: int, dtype: np.dtype[Any]) -> Array:
        return np.ndarray((1, size), dtype, self._memory, offset)


def _padded(size: int) -> int:
    return -(-size // _LINE) * _LINE
