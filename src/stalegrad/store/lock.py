"""At most one process writes a store. The operating system lets go of the lock when that process ends, however it ends.

The lock is a POSIX record lock: a child that the process forks does not inherit it, so workers that outlive their
server for a moment keep nobody out. Such locks do not stop the process itself, hence the set of folders it has locked.
"""

import fcntl
import json
import os
import socket
import struct
import threading
from pathlib import Path

from stalegrad.errors import StoreError

_NAME = "lock"
_guard = threading.Lock()
_mine: set[tuple[int, int]] = set()  # (device, inode) of the lock files that this process holds


class Lock:
    """Holds a store until :meth:`release`; :class:`StoreError` if somebody else does."""

    def __init__(self, folder: Path) -> None:
        path = folder / _NAME
        with _guard:
            # Looked at before it is opened: closing a second descriptor of the file would drop the lock on the first.
            if path.exists() and _identity(path.stat()) in _mine:
                raise StoreError(f"{folder} is being written by another run of this process. Use another folder.")
            self._descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
            try:
                fcntl.lockf(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError as error:
                holder = os.read(self._descriptor, 1000).decode(errors="replace").strip()
                os.close(self._descriptor)
                raise StoreError(
                    f"{folder} is being written by another process ({holder or 'unknown'}). Use another folder, or "
                    "wait until that run has ended."
                ) from error
            self._identity = _identity(os.fstat(self._descriptor))
            _mine.add(self._identity)
        os.ftruncate(self._descriptor, 0)
        os.pwrite(self._descriptor, json.dumps({"pid": os.getpid(), "host": socket.gethostname()}).encode(), 0)

    def release(self) -> None:
        """Let others write. Calling it again does nothing."""
        with _guard:
            if self._identity in _mine:
                _mine.discard(self._identity)
                os.close(self._descriptor)


def is_locked(folder: Path) -> bool:
    """Whether a process, this one or another, is writing the store now."""
    path = folder / _NAME
    try:
        status = path.stat()
    except FileNotFoundError:
        return False
    with _guard:
        if _identity(status) in _mine:
            return True
        with path.open("rb") as file:
            try:
                return _held_by_another(file.fileno())
            except OSError:
                return False


def _identity(status: os.stat_result) -> tuple[int, int]:
    return status.st_dev, status.st_ino


def _held_by_another(descriptor: int) -> bool:
    """Ask for whoever would be in the way, without taking the lock."""
    layout = "hhqqi4x"  # struct flock: type, whence, start, length, pid
    answer = fcntl.fcntl(descriptor, fcntl.F_GETLK, struct.pack(layout, fcntl.F_RDLCK, os.SEEK_SET, 0, 0, 0))
    return bool(struct.unpack(layout, answer)[0] != fcntl.F_UNLCK)
