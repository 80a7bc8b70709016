"""Heartbeats between a server and a worker that is a job of its own: a cable that is cut reports nothing."""

import time

import numpy as np

from stalegrad.engines.mpi.transfers import Transfers

BEATS = 5
"""Heartbeats that must fail to come before silence means death."""
_TAG = 7


class HeartbeatExchange:
    """Heartbeats both ways on a channel, and for how long the other side has sent none.

    Args:
        channel: to the other side.
        every: seconds between two calls of :meth:`exchange`. Where they are much further apart, this process did not
            get to run, and what it missed is not the other side's silence.
    """

    def __init__(self, channel: Transfers, every: float) -> None:
        self._channel, self._longest = channel, 2 * every
        self._out, self._in = np.zeros(1, np.int64), np.zeros(1, np.int64)
        self._sending = channel.sender(0, _TAG, self._out)
        self._receiving = channel.receiver(0, _TAG, self._in)
        self._quiet, self._looked = 0.0, time.monotonic()
        channel.start(self._receiving)

    def exchange(self) -> None:
        """Send a heartbeat, unless the last one is still on its way, and look for one."""
        if self._channel.done(self._sending):
            self._channel.start(self._sending)
        quiet, self._looked = self.silence, time.monotonic()
        if self._channel.done(self._receiving):
            quiet = 0.0
            self._channel.start(self._receiving)
        self._quiet = quiet

    @property
    def silence(self) -> float:
        """Seconds since the other side's last heartbeat."""
        return self._quiet + min(time.monotonic() - self._looked, self._longest)
