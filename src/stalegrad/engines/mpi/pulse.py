"""Signs of life between a server and a worker that is a job of its own: nobody else tells when one of them dies."""

import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from stalegrad.engines.mpi.channel import Channel

BEATS = 5
"""Heartbeats that must fail to come before silence means death."""
_TAG = 7


def connection_seconds(heartbeat: float) -> int:
    """How long two processes may take to connect: less than it takes others to miss the heartbeats of both."""
    return max(1, min(5, int(heartbeat / 2)))


class Pulse:
    """Heartbeats on a channel, and when the other side was last heard."""

    def __init__(self, channel: "Channel") -> None:
        self._channel = channel
        self._out, self._in = np.zeros(1, np.int64), np.zeros(1, np.int64)
        self._beating = channel.sender(0, _TAG, self._out)
        self._hearing = channel.receiver(0, _TAG, self._in)
        self.heard = time.monotonic()
        channel.start(self._hearing)

    def exchange(self) -> None:
        """Give a sign of life, unless the last one is still on its way, and look for one."""
        if self._channel.done(self._beating):
            self._channel.start(self._beating)
        if self._channel.done(self._hearing):
            self.heard = time.monotonic()
            self._channel.start(self._hearing)

    @property
    def silence(self) -> float:
        """Seconds since the last sign of life."""
        return time.monotonic() - self.heard


class Heart:
    """Beats in a thread of its own, also while this process computes or compiles.

    Args:
        beat: what is to be done.
        seconds: how often.
    """

    def __init__(self, beat: Callable[[], object], seconds: float) -> None:
        self._beat, self._seconds = beat, seconds
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="stalegrad-heart", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Stop it, and wait until it has."""
        self._stop.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._stop.wait(self._seconds):
            self._beat()
