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
from stalegrad.engines.ray.envelope import Damaged, Envelope, Reply, open_reply, seal_call
from stalegrad.engines.resend_timer import ResendTimer

_FIRST_WAIT = 1.0  # seconds, while nothing is known of the server
_LEAST_WAIT = 0.02  # seconds after which a call is made again
_ATTEMPTS = 8  # at least so many calls are made before the server is taken for gone


class ServerGone(Exception):
    """There is no server any more that could answer."""


class Transport(Protocol):
    """Brings envelopes to the server, and its answers back: to the last one, or to one before."""

    def send(self, envelope: Envelope, *, again: bool) -> None:
        """Bring it to the server; ``again`` if it is one that was sent before, so that answers to that still count."""
        ...

    def receive(self, seconds: float) -> Envelope | None:
        """What comes back within so many seconds, or nothing; :class:`ServerGone` if nothing will ever."""
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
        self._timer = ResendTimer(_FIRST_WAIT, _LEAST_WAIT)
        self._damaged = self._sent_again = 0

    def __call__(self, call: Call) -> Answer | None:
        """The server's answer; None, to end, if it says so, is gone, or has not answered for too long."""
        most = self._timeout / _ATTEMPTS
        wait, waited = min(self._timer.wait, most), 0.0
        sent: list[float] = []  # when
        try:
            while waited < self._timeout:
                repairs = Repairs(self._damaged, 0, self._sent_again + len(sent))
                self._transport.send(seal_call(call, repairs, len(sent)), again=bool(sent))
                sent.append(self._clock())
                found = self._listen(call.sequence, sent[-1] + wait)
                if isinstance(found, Reply):
                    self._timer.note(self._clock() - sent[found.attempt])
                    return found.answer
                waited += wait if found else _LEAST_WAIT
                wait = min(2 * wait, most) if found else wait
        except ServerGone:
            pass
        finally:
            self._sent_again += max(0, len(sent) - 1)
        return None

    def _listen(self, sequence: int, until: float) -> Reply | bool:
        """The answer to the call of this number; else whether nothing came in time, and not something damaged."""
        while (left := until - self._clock()) > 0:
            envelope = self._transport.receive(left)
            if envelope is None:
                return True
            try:
                reply = open_reply(envelope, self._unpack)
            except Damaged:
                self._damaged += 1
                return False
            if reply.sequence is None:
                return False  # the call was damaged
            if reply.sequence == sequence:
                return reply  # else it is the answer to a call before, come once more
        return True
