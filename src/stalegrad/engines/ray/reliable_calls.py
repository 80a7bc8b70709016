"""Calls over a transport that may lose or damage them: made again, by the same number, until they are answered.

The server executes a call once however often it comes (:mod:`stalegrad.engines.ray.call_link`), so the worker need not
know what has got lost, the call or its answer.
"""

import time
from collections.abc import Callable
from typing import Any, Protocol

from stalegrad._internal.types import Array
from stalegrad.engines.link import Repairs
from stalegrad.engines.ray.call_link import Answer, Call
from stalegrad.engines.ray.envelope import Damaged, Envelope, open_reply, seal_call

_FIRST_WAIT = 1.0  # seconds, while nothing is known of the server
_LEAST_WAIT = 0.02  # seconds after which a call is made again
_MEANS = 4.0  # of the calls before, which a call may take
_MEMORY = 1 / 8  # of the last call in that mean
_ATTEMPTS = 8  # at least so many calls are made before the server is taken for gone


class ServerGone(Exception):
    """There is no server any more that could answer."""


class Transport(Protocol):
    """Brings an envelope to the server, and one back: the answer to this one, or to one before, or none in time."""

    def __call__(self, envelope: Envelope, seconds: float) -> Envelope | None:
        """What has come back within so many seconds; :class:`ServerGone` if nothing will ever."""
        ...


class ReliableCalls:
    """Makes calls until they are answered.

    Args:
        transport: brings them to the server.
        timeout: seconds without any answer after which the server is given up. Time in which this process did not get
            to run does not count: what counts is how long it meant to wait.
        unpack: makes the point of what was sent of it.
        clock: in seconds.
    """

    def __init__(
        self,
        transport: Transport,
        timeout: float,
        unpack: Callable[[Any], Array] = lambda point: point,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._transport, self._timeout, self._unpack, self._clock = transport, timeout, unpack, clock
        self._seconds: float | None = None  # that a call takes, if nothing gets lost
        self._damaged = self._sent_again = 0

    def __call__(self, call: Call) -> Answer | None:
        """The server's answer; None, to end, if it says so, is gone, or has not answered for too long."""
        wait, waited, attempts = self._first_wait(), 0.0, 0
        begun = self._clock()
        while waited < self._timeout:
            envelope = seal_call(call, Repairs(self._damaged, 0, self._sent_again + attempts))
            try:
                reply = self._transport(envelope, wait)
                sequence, answer = (None, None) if reply is None else open_reply(reply, self._unpack)
            except Damaged:
                self._damaged += 1
                sequence, answer = None, None
            except ServerGone:
                return None
            else:
                if reply is None:
                    waited += wait
                    wait = min(2 * wait, self._timeout / _ATTEMPTS)
            if sequence == call.sequence:
                self._note(attempts, self._clock() - begun)
                return answer
            attempts += 1
            waited += _LEAST_WAIT  # so that a server which answers nothing but rubbish is given up, too
        return None

    def _first_wait(self) -> float:
        wait = _FIRST_WAIT if self._seconds is None else max(_LEAST_WAIT, _MEANS * self._seconds)
        return min(wait, self._timeout / _ATTEMPTS)

    def _note(self, attempts: int, taken: float) -> None:
        self._sent_again += attempts
        if not attempts:  # else nobody knows which call was answered
            self._seconds = taken if self._seconds is None else self._seconds + _MEMORY * (taken - self._seconds)
