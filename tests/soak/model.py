"""The model of a soak: it does what it is asked to through files, and tells who computes it and how often."""

import contextlib
import os
import threading
import time

import numpy as np

from stalegrad.testing import FaultyModel, small_model

REQUESTS = ("raise", "nan", "slow", "hang")
SLOW, SLOWED_GRADIENTS = 0.1, 20  # seconds a gradient, for so many of them
HANG = 6.0  # seconds, longer than any patience


class SoakModel(FaultyModel):
    """:func:`stalegrad.testing.small_model` with faults on request.

    Below the folder, ``calls`` grows by a byte a gradient, ``computing`` has a file for each process that computes,
    and whoever removes a file from ``requests`` has that fault. Gradients take their time until there is a file
    ``hurry``.

    Args:
        folder: see above.
        seconds: how long a gradient takes.
    """

    fork_safe = True

    def __init__(self, folder, seconds=0.02):
        super().__init__(folder / "calls", {}, seconds)
        self._folder, self._told = folder, None
        self._slowed = {}  # gradients to go, by thread

    @staticmethod
    def prepare(folder):
        """Make the folders."""
        for name in ("computing", "requests"):
            (folder / name).mkdir(parents=True)

    def gradient(self, theta, indices):
        if self._told != os.getpid():
            (self._folder / "computing" / str(os.getpid())).touch()
            self._told = os.getpid()
        if self._seconds and (self._folder / "hurry").exists():
            self._seconds = 0.0
        asked = self._request()
        if asked == "raise":
            raise RuntimeError("injected fault")
        if asked == "hang":
            time.sleep(HANG)
        self._slow_down(asked == "slow")
        gradient = super().gradient(theta, indices)
        return gradient * np.float32(np.nan) if asked == "nan" else gradient

    def _request(self):
        """What this call is to do wrong, or None: the one that removes the file has the fault."""
        for name in os.listdir(self._folder / "requests"):
            with contextlib.suppress(FileNotFoundError):
                os.unlink(self._folder / "requests" / name)
                return name
        return None

    def _slow_down(self, begin):
        me = threading.get_ident()
        if begin:
            self._slowed[me] = SLOWED_GRADIENTS
        if self._slowed.get(me, 0) > 0:
            self._slowed[me] -= 1
            time.sleep(SLOW)


def healthy():
    """The same posterior, for replays."""
    return small_model()
