"""A worker on Ray: a task that calls its server, in whatever process and on whatever node Ray puts it.

Calls of Ray may block for a minute and more when a node is cut off, may raise although they were executed, and what
they return lives in shared memory until the last reference to it is gone. So nobody waits for an answer without a limit
of their own, every call can be made again (:mod:`stalegrad.engines.desk`), and references are dropped as soon as what
they stand for has been copied.
"""

import contextlib
import threading
import time
import traceback
from functools import partial
from typing import Any

import ray
from ray.exceptions import ActorUnavailableError, GetTimeoutError, RayActorError, RayError

from stalegrad.engines.caller import attend
from stalegrad.engines.desk import Call, Work
from stalegrad.engines.ray.engine import Ray
from stalegrad.engines.ray.packing import unpack_model, unpack_point
from stalegrad.worker import Worker

_AGAIN = 0.1  # seconds before a call is made again


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
    """A worker: it serves one server until it is sent home."""
    caller = Caller(server, settings.timeout)
    with Heart(server, number, incarnation, settings):
        try:
            potential = unpack_model(model, path)
            Worker(potential, seed, chain, number).rehearse()
        except BaseException:
            caller(Call(number, incarnation, 0, failure=traceback.format_exc()))
            return
        unpack, lanes = partial(unpack_point, timeout=settings.timeout), settings.gradients_per_call
        attend(potential, seed, chain, number, incarnation, caller, unpack=unpack, lanes=lanes)


class Caller:
    """Calls the server, and calls again where it cannot be known whether the call was heard."""

    def __init__(self, server: Any, timeout: float) -> None:
        self._server, self._timeout = server, timeout

    def __call__(self, call: Call) -> Work | None:
        """The server's answer. One that is gone, or has given this worker up by now, sends it home."""
        deadline = time.monotonic() + self._timeout
        while True:
            try:
                answer: Work | None = ray.get(self._server.exchange.remote(call), timeout=self._timeout)
                return answer
            except GetTimeoutError:
                return None
            except RayError as error:
                gone = isinstance(error, RayActorError) and not isinstance(error, ActorUnavailableError)
                if gone or time.monotonic() > deadline:
                    return None
            time.sleep(_AGAIN)


class Heart(threading.Thread):
    """A worker's signs of life, also while it computes."""

    def __init__(self, server: Any, number: int, incarnation: int, settings: Ray) -> None:
        super().__init__(name="stalegrad-heartbeat", daemon=True)
        self._server, self._who, self._settings = server, (number, incarnation), settings
        self._beat: Any = None  # the latest
        self._stopped = threading.Event()

    def run(self) -> None:
        """Beat. The next beat waits for the last one to be heard: they must not pile up."""
        while not self._stopped.wait(self._settings.heartbeat):
            with contextlib.suppress(RayError):
                if ray.wait([self._beat], timeout=0)[0]:
                    self._beat = self._server.beat.remote(*self._who)

    def __enter__(self) -> "Heart":
        self._beat = self._server.beat.remote(*self._who)
        with contextlib.suppress(RayError):  # before anything else: from now on its silence is noticed
            ray.get(self._beat, timeout=self._settings.timeout)
        self.start()
        return self

    def __exit__(self, *exception: object) -> None:
        self._stopped.set()
