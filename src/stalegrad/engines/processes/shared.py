"""Memory and signals that processes share, without names: when the last process that holds them ends, they are gone.

Nothing appears in /dev/shm or any other folder, so there is nothing to clean up after a kill -9.
"""

import contextlib
import mmap
import os
import select
import tempfile
from typing import Any

import numpy as np

from stalegrad._internal.types import Array
from stalegrad.engines import message


def anonymous_file(size: int) -> int:
    """The descriptor of a file in memory that has no name."""
    if hasattr(os, "memfd_create"):
        descriptor = os.memfd_create("stalegrad")
    else:  # not Linux: a temporary file whose name is gone before anybody else can see it
        descriptor, path = tempfile.mkstemp()
        os.unlink(path)
    try:
        os.ftruncate(descriptor, max(size, 1))
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


class WakeUp:
    """Wakes a process that waits for it. One that comes before the waiting begins is not lost; several may be one.

    It is a pipe. Linux takes it that who writes to one will wait soon, and lets whom it wakes have its core; through an
    eventfd a server was mostly woken on the core of a worker that still computed, while that of the one that had called
    it stood idle: a tenth fewer updates of 431,080 parameters with as many workers as cores.
    """

    def __init__(self, read: int, write: int) -> None:
        self.read, self.write = read, write
        self._poll = select.poll()
        self._poll.register(read, select.POLLIN)

    @classmethod
    def make(cls) -> "WakeUp":
        """A new one, whose descriptors other processes may inherit."""
        read, write = os.pipe()
        os.set_blocking(write, False)
        return cls(read, write)

    def signal(self) -> None:
        """Wake the process that waits, or the next one that does."""
        with contextlib.suppress(BlockingIOError):  # a pipe that is full will wake it all the same
            os.write(self.write, b"\0")

    def wait(self) -> bool:
        """Sleep until there is a signal."""
        return bool(os.read(self.read, 4096))

    def wait_for(self, seconds: float) -> bool:
        """Sleep until there is a signal, but not for longer than this; whether there was one."""
        if not self._poll.poll(seconds * 1000):
            return False
        os.read(self.read, 4096)  # does not block: no other process reads this one
        return True

    @property
    def descriptors(self) -> tuple[int, ...]:
        """What another process needs to inherit."""
        return self.read, self.write

    def close(self) -> None:
        """Free what the system holds for it."""
        for descriptor in self.descriptors:
            os.close(descriptor)


class Slots:
    """The memory between a server and its W workers: a header, a point and a gradient for each worker.

    A worker's slot is written by one side at a time: by the server until it sets the header's kind to WORK and signals,
    by the worker until it sets it to DONE and signals back; ``ordering.py`` has the order in which others see
    that. So nothing is copied through a pipe, and nothing is locked.

    Args:
        descriptor: of the shared file.
        workers: W.
        size: n.
        dtype: of points and gradients.
    """

    def __init__(self, descriptor: int, workers: int, size: int, dtype: Any) -> None:
        dtype = np.dtype(dtype)
        self._memory = mmap.mmap(descriptor, self.bytes(workers, size, dtype))
        vector = _padded(size * dtype.itemsize)
        memory, base = memoryview(self._memory), workers * message.BYTES
        self.headers = [message.header_of(memory[w * message.BYTES :]) for w in range(workers)]
        self.points = [self._vector(base + 2 * w * vector, size, dtype) for w in range(workers)]
        self.gradients = [self._vector(base + (2 * w + 1) * vector, size, dtype) for w in range(workers)]

    @staticmethod
    def bytes(workers: int, size: int, dtype: Any) -> int:
        """How large the shared file must be."""
        return workers * (message.BYTES + 2 * _padded(size * np.dtype(dtype).itemsize))

    def close(self) -> None:
        """Give the memory back now. Nobody may use a slot any more; what was a list of them is empty."""
        for header in self.headers:
            header.release()
        for views in (self.headers, self.points, self.gradients):
            views.clear()
        with contextlib.suppress(BufferError):  # somebody has kept a view: the memory goes with it
            self._memory.close()

    def _vector(self, offset: int, size: int, dtype: np.dtype[Any]) -> Array:
        return np.ndarray((1, size), dtype, self._memory, offset)


def _padded(size: int) -> int:
    """So that parts that different processes write do not share a cache line."""
    return -(-size // message.BYTES) * message.BYTES
