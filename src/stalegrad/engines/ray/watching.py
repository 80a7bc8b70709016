"""A run on Ray, in the process that called :func:`stalegrad.sample`: starts servers, follows them, replaces them."""

import contextlib
import logging
import math
import sys
import threading
import time
from typing import Any

import cloudpickle
import ray
from ray.exceptions import ActorUnavailableError, RayError

from stalegrad.engines.base import Job, Outcome
from stalegrad.engines.conductor import elapsed, total
from stalegrad.engines.far import Follower
from stalegrad.engines.interrupts import stop_on_signals
from stalegrad.engines.ray.connection import connected
from stalegrad.engines.ray.engine import Ray
from stalegrad.engines.ray.packing import in_a_line, pack_model
from stalegrad.engines.ray.serving import ServerProcess
from stalegrad.engines.service import Care, monotonic_clock
from stalegrad.errors import StalegradError

_LOOK = 0.1  # seconds between looks at servers
_WAIT = 10.0  # seconds without a sign of somebody who is to start, after which it is said

log = logging.getLogger("stalegrad")


class ServerLost(StalegradError, RuntimeError):
    """The server of a chain has failed too often in a row."""


def run(engine: Ray, job: Job) -> Outcome:
    """Run a job on a cluster."""
    model = pack_model(job.potential)
    stop, interrupted = threading.Event(), threading.Event()
    with connected(engine, job), stop_on_signals(stop, interrupted):
        return Watch(engine, job, ray.put(model), stop, interrupted).run()


class Host:
    """One chain's server, wherever it is: asked again and again how it is doing, and replaced when it is lost."""

    def __init__(self, follower: Follower, watch: "Watch") -> None:
        self.follower = follower
        self._watch, self._timeout, self._restarts = watch, watch.engine.timeout, watch.engine.restarts
        self._faults = 0  # in a row
        self._actor: Any = None
        self._question: Any = None  # the report to come
        self._heard = 0.0  # when it last answered, or was started
        self._answered = self._told_to_stop = False
        self._present = 0.0  # when nobody was missing
        self._launch()

    def look(self, stopping: bool) -> None:
        """Hear the report if it has come. Without one for too long, the server is lost."""
        now = time.monotonic()
        if stopping and not self._told_to_stop:
            self._told_to_stop = True
            self._actor.stop.remote()
        if ray.wait([self._question], timeout=0)[0]:
            self._hear(now)
        if self._answered and now - self._heard > self._timeout:
            self._lose(f"no answer for {self._timeout:g} s: it was stopped, or its node is cut off")
        elif stopping and not self._answered:
            self.follower.ended = True  # it has not begun yet
        elif not self._answered and now - self._present > _WAIT:
            self._present = math.inf
            log.warning("the server of chain %d has not started: the cluster may be full", self.follower.index)

    def end(self) -> None:
        """End the server's process, and with it whatever workers it has left."""
        with contextlib.suppress(RayError):
            ray.kill(self._actor)

    def _hear(self, now: float) -> None:
        try:
            report, place = ray.get(self._question)
        except ActorUnavailableError:  # it may come back, and whether it has heard the question does not matter
            return self._ask()
        except RayError as error:
            return self._lose(in_a_line(error))
        self._heard = now
        if not self._answered:
            self._answered, self._present = True, now
            log.info("the server of chain %d is %s", self.follower.index, place)
        if self.follower.hear(report):
            self._faults = 0
        if not report.absent:
            self._present = now
        elif now - self._present > _WAIT:
            self._present = math.inf
            log.warning(
                "chain %d: %d of %d workers have not started: the cluster may be full",
                self.follower.index, report.absent, self._watch.job.workers,
            )  # fmt: skip
        if not self.follower.ended:
            self._ask()
        return None

    def _launch(self) -> None:
        self._answered = self._told_to_stop = False
        self._heard = self._present = time.monotonic()
        self._actor = self._watch.server(self.follower)
        self._actor.run.remote()
        self._ask()

    def _ask(self) -> None:
        self._question = self._actor.report.remote(self.follower.known)

    def _lose(self, details: str) -> None:
        self.end()
        self.follower.lost(details)
        self._faults += 1
        if self._told_to_stop:
            self.follower.ended = True
        elif self._faults > self._restarts:
            self.follower.ended = True
            self.follower.failure = ServerLost(
                f"the server of chain {self.follower.index} was given up after failing {self._faults} times in a row; "
                f"the last time: {details}"
            )
        else:
            self._launch()


class Watch:
    """Starts the servers of a run and follows them to their ends."""

    def __init__(self, engine: Ray, job: Job, model: Any, stop: threading.Event, interrupted: threading.Event) -> None:
        self.engine, self.job = engine, job
        self._model, self._stop, self._interrupted = model, stop, interrupted
        self._path = [entry for entry in sys.path if entry]
        self._servers = ray.remote(ServerProcess)

    def run(self) -> Outcome:
        """Until all have ended, or one has failed."""
        engine, job = self.engine, self.job
        care, clock = Care(engine.patience, engine.restarts, start=None), monotonic_clock(elapsed(job))
        followers = [Follower(job, s, care, engine.timeout, clock) for s in range(job.servers)]
        hosts: list[Host] = []
        failure: Exception | None = None
        try:
            hosts.extend(Host(follower, self) for follower in followers)
            self._follow(hosts)
            failure = next((follower.failure for follower in followers if follower.failure is not None), None)
            for follower in followers:
                follower.close()
        except StalegradError as error:  # of the store
            failure = failure or error
        finally:
            for host in hosts:
                host.end()
        if failure is not None and not isinstance(failure, StalegradError):
            raise failure
        return Outcome(
            chains=tuple(follower.trace for follower in followers),
            events=tuple(sorted((e for follower in followers for e in follower.events), key=lambda e: e.time)),
            timing=total([follower.timing for follower in followers]),
            interrupted=self._interrupted.is_set(),
            failure=failure,
        )

    def server(self, follower: Follower) -> Any:
        """A new process for a chain's server."""
        options = {
            "num_cpus": 0,
            "resources": dict(self.engine.server_resources),
            "scheduling_strategy": "SPREAD",
            "max_concurrency": 2 * self.job.workers + 8,
            "max_restarts": 0,
            "max_task_retries": 0,
        }
        task = cloudpickle.dumps(follower.task())
        return self._servers.options(**options).remote(task, [self._model], self._path, self.job.seed, self.engine)

    def _follow(self, hosts: list[Host]) -> None:
        while open_hosts := [host for host in hosts if not host.follower.ended]:
            for host in open_hosts:
                host.look(self._stop.is_set())
            if any(host.follower.failure is not None for host in hosts):
                self._stop.set()
            try:
                time.sleep(_LOOK)
            except KeyboardInterrupt:  # where no handler could be installed
                if self._stop.is_set():
                    raise
                self._interrupted.set()
                self._stop.set()
