"""At most one process writes a store. The operating system lets go of the lock when that process ends, however it ends.

The lock is a POSIX record lock: a child that the process forks does not inherit it, so workers that outlive their
server for a moment do not hold it. Such locks do not stop the process itself, hence the set of folders it has locked.
"""

import errno
import fcntl
import json
import os
import socket
import stat
import struct
import threading
from pathlib import Path

from stalegrad._internal.errors import StoreError

_NAME = "lock"
_REMEDY = "Give a folder that you may write to, on a file system with locks, such as a disk of this machine."
_guard = threading.Lock()
_held: set[tuple[int, int]] = set()  # (device, inode) of the lock files that this process holds


class Lock:
    """Holds a store until :meth:`release`; :class:`StoreError` if another process does."""

    def __init__(self, folder: Path) -> None:
        path = folder / _NAME
        with _guard:
            # Looked at before it is opened: closing a second descriptor of the file would drop the lock on the first.
            if _is_held(path):
                raise StoreError(f"{folder} is being written by another run of this process. Use another folder.")
            try:
                self._descriptor = _opened(path, os.O_RDWR | os.O_CREAT)
            except OSError as error:
                why, remedy = error.strerror, _REMEDY
                if error.errno == errno.ELOOP:
                    why, remedy = "it is a link", "Delete it, if you trust who has made this folder."
                raise StoreError(f"{path} cannot be opened for writing ({why}). {remedy}") from error
            try:
                fcntl.lockf(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError as error:
                holder = os.read(self._descriptor, 1000).decode(errors="replace").strip()
                os.close(self._descriptor)
                if error.errno not in (errno.EACCES, errno.EAGAIN):  # the two that say that somebody has it
                    raise StoreError(f"{path} cannot be locked ({error.strerror}). {_REMEDY}") from error
                raise StoreError(
                    f"{folder} is being written by another process ({_who(holder)}). Use another folder, or "
                    "wait until that run has ended."
                ) from error
            self._identity = _identity(os.fstat(self._descriptor))
            _held.add(self._identity)
        os.ftruncate(self._descriptor, 0)
        os.pwrite(self._descriptor, json.dumps({"pid": os.getpid(), "host": socket.gethostname()}).encode(), 0)

    def release(self) -> None:
        """Let others write. Calling it again does nothing."""
        with _guard:
            if self._identity in _held:
                _held.discard(self._identity)
                os.close(self._descriptor)


def _who(holder: str) -> str:
    """Who has written its name into a lock, in words.

    >>> _who('{"pid": 7, "host": "desk"}'), _who("")
    ('7 on desk', 'unknown')
    """
    try:
        named = json.loads(holder)
        return f"{named['pid']} on {named['host']}"
    except (ValueError, TypeError, KeyError):  # it is being written this moment, or by somebody else
        return holder or "unknown"


def is_abandoned(folder: Path) -> bool:
    """Whether a process has locked the folder once, and has ended without letting go."""
    try:
        return (folder / _NAME).lstat().st_size > 0 and not is_locked(folder)
    except OSError:  # it has not been locked yet, or is gone by now
        return False


def is_locked(folder: Path) -> bool:
    """Whether a process, this one or another, is writing the store now."""
    path = folder / _NAME
    with _guard:
        if _is_held(path):
            return True
        try:
            descriptor = _opened(path, os.O_RDONLY)
        except OSError:
            return False
        try:
            return _held_by_another(descriptor)
        except OSError:
            return False
        finally:
            os.close(descriptor)


def _opened(path: Path, flags: int) -> int:
    """A descriptor of the file; of nothing else that somebody has put there: a link would be written through, and a
    pipe waited for.
    """
    descriptor = os.open(path, flags | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK, 0o666)
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise OSError(errno.EINVAL, "it is not a file")
    return descriptor


def _is_held(path: Path) -> bool:
    """Whether this process holds the lock."""
    try:
        return _identity(path.lstat()) in _held
    except OSError:  # it is not there
        return False


def _identity(status: os.stat_result) -> tuple[int, int]:
    return status.st_dev, status.st_ino


def _held_by_another(descriptor: int) -> bool:
    """Whether another process holds the lock; it is not taken."""
    layout = "hhqqi4x"  # struct flock: type, whence, start, length, pid
    answer = fcntl.fcntl(descriptor, fcntl.F_GETLK, struct.pack(layout, fcntl.F_RDLCK, os.SEEK_SET, 0, 0, 0))
    return bool(struct.unpack(layout, answer)[0] != fcntl.F_UNLCK)
