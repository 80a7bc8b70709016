"""A worker on Ray: a task that calls its server, in whatever process and on whatever node Ray puts it.

Calls of Ray may block for a minute and more when a node is cut off, may raise although they were executed, and what
they return lives in shared memory until the last reference to it is gone. So no answer is waited for without a limit,
every call can be made again (:mod:`stalegrad.engines.ray.call_link`), and references are dropped as soon as
what they stand for has been copied.
"""

import contextlib
import time
import traceback
from functools import partial
from typing import Any

import ray
from ray.exceptions import ActorUnavailableError, RayActorError, RayError

from stalegrad.engines.heartbeat import Heartbeat
from stalegrad.engines.ray.call_link import Call
from stalegrad.engines.ray.call_worker import CallWorker
from stalegrad.engines.ray.engine import Ray
from stalegrad.engines.ray.envelope import Envelope
from stalegrad.engines.ray.hostile import HostileTransport
from stalegrad.engines.ray.packing import unpack_model, unpack_point
from stalegrad.engines.ray.reliable_calls import ReliableCalls, ServerGone, Transport
from stalegrad.engines.worker_loop import run_worker
from stalegrad.protocol.worker import Worker

_AGAIN = 0.1  # seconds before a call is made again
_LISTENED_FOR = 4  # of the calls that have not been answered


def work(
    model: tuple[bytes, list[bytes]],
    path: list[str],
    server: Any,
    seed: int,
    chain: int,
    number: int,
    incarnation: int,
    settings: Ray,
) -> None:
    """Run a worker of one server until the server ends it."""
    transport: Transport = ServerCalls(server)
    if settings.hostile is not None:
        transport = HostileTransport(transport, settings.hostile, chain, number, incarnation)
    call = ReliableCalls(transport, settings.timeout, partial(unpack_point, timeout=settings.timeout))
    with Heartbeat(ServerHeartbeat(server, number, incarnation, settings.timeout), settings.heartbeat):
        try:
            potential = unpack_model(model, path)
            Worker(potential, seed, chain, number).rehearse()
        except BaseException:
            call(Call(number, incarnation, 0, failure=traceback.format_exc()))
            return
        lanes = settings.gradients_per_call
        run_worker(CallWorker(potential, seed, chain, number, incarnation, call, lanes=lanes))


class ServerCalls:
    """Calls the server: a :class:`stalegrad.engines.ray.reliable_calls.Transport`."""

    def __init__(self, server: Any) -> None:
        self._server = server
        self._calls: list[Any] = []  # that have not been answered

    def send(self, envelope: Envelope, *, again: bool) -> None:
        """Call it; answers to earlier calls are only listened for if this one is the same."""
        self._calls = [*(self._calls if again else ()), self._server.exchange.remote(envelope)][-_LISTENED_FOR:]

    def receive(self, seconds: float) -> Envelope | None:
        """The first answer within so many seconds."""
        if not self._calls:
            time.sleep(seconds)
            return None
        answered, self._calls = ray.wait(self._calls, timeout=seconds)
        try:
            return ray.get(answered[0]) if answered else None
        except RayError as error:
            if isinstance(error, RayActorError) and not isinstance(error, ActorUnavailableError):
                raise ServerGone from error
            self._calls = []
            time.sleep(min(_AGAIN, seconds))
            return None


class ServerHeartbeat:
    """A worker's heartbeat to its server. The next one waits for the last one to be received: they must not pile up."""

    def __init__(self, server: Any, number: int, incarnation: int, timeout: float) -> None:
        self._server, self._who = server, (number, incarnation)
        self._latest = server.heartbeat.remote(*self._who)
        with contextlib.suppress(RayError):  # before anything else: from now on its silence is noticed
            ray.get(self._latest, timeout=timeout)

    def __call__(self) -> None:
        """Send one, unless the last is still on its way."""
        with contextlib.suppress(RayError):
            if ray.wait([self._latest], timeout=0)[0]:
                self._latest = self._server.heartbeat.remote(*self._who)
