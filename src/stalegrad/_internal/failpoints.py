"""Places where tests make the writing of a store fail: the process dies there, or the disk is full.

A place is passed with :func:`reach`, which costs next to nothing unless a test has armed it, for a process that it
starts, by the variable ``STALEGRAD_FAILPOINTS``: ``checkpoint.renamed:3:kill`` ends the process with SIGKILL when that
place is reached for the third time. Several are separated by commas, and ``*`` stands for every place.
"""

import errno
import os
import signal
from collections.abc import Callable
from dataclasses import dataclass


def _kill() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def _disk_full() -> None:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


ACTIONS: dict[str, Callable[[], None]] = {"kill": _kill, "full": _disk_full}


@dataclass
class _Armed:
    place: str
    left: int
    action: Callable[[], None]


def _armed(setting: str) -> list[_Armed]:
    entries = [entry.split(":") for entry in setting.split(",") if entry]
    return [_Armed(place, int(nth), ACTIONS[action]) for place, nth, action in entries]


_ARMED = _armed(os.environ.get("STALEGRAD_FAILPOINTS", ""))


def arm(setting: str) -> None:
    """Arm this process, as the variable does for one that starts."""
    _ARMED[:] = _armed(setting)


def reach(place: str) -> None:
    """The process is at this place."""
    for armed in _ARMED:
        if armed.place in (place, "*"):
            armed.left -= 1
            if armed.left == 0 or (armed.left < 0 and armed.action is _disk_full):  # a full disk stays full
                armed.action()
