"""A run on Ray, in the process that called :func:`stalegrad.sample`: starts servers, follows and replaces them."""

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

from stalegrad._internal.errors import StalegradError
from stalegrad.engines.base import Job, Outcome
from stalegrad.engines.interrupts import stop_on_signals
from stalegrad.engines.lifecycle import FaultPolicy
from stalegrad.engines.local_servers import elapsed, outcome_of
from stalegrad.engines.ray.connection import connected
from stalegrad.engines.ray.engine import Ray
from stalegrad.engines.ray.packing import in_a_line, pack_model
from stalegrad.engines.ray.remote_server import Follower
from stalegrad.engines.ray.server_actor import ServerActor
from stalegrad.engines.server_loop import monotonic_clock
from stalegrad.engines.suspension import Suspension

_POLL = 0.1  # seconds between polls of servers
_STALLED = 1.0  # seconds between two polls after which the process did not get to run
_WAIT = 10.0  # seconds after which it is said that a server or a worker has not started

log = logging.getLogger("stalegrad")


class ServerLost(StalegradError, RuntimeError):
    """The server of a chain has failed too often in a row."""


def run(engine: Ray, job: Job) -> Outcome:
    """Run a job on a cluster, connected to for as long as it takes."""
    model = pack_model(job.potential)
    stop, interrupted = threading.Event(), threading.Event()
    with connected(engine, job), stop_on_signals(stop, interrupted, job.hurry, job.stop_requests):
        return Supervisor(engine, job, ray.put(model), stop, interrupted).run()


class SupervisedServer:
    """One chain's server, wherever it is: asked again and again how it is doing, and replaced when it is lost."""

    def __init__(self, follower: Follower, supervisor: "Supervisor") -> None:
        self.follower = follower
        self._supervisor = supervisor
        self._timeout, self._restarts = supervisor.engine.timeout, supervisor.engine.restarts
        self._faults = 0  # in a row
        self._actor: Any = None
        self._question: Any = None  # the report to come
        self._latest = 0.0  # when it last answered, or was started
        self._answered = self._stopping = False
        self._complete = 0.0  # when no worker was missing
        self._launch()

    def poll(self, stopping: bool) -> None:
        """Take the report if it has come. Without one for too long, the server is lost."""
        now = time.monotonic()
        if stopping and not self._stopping:
            self._stopping = True
            self._actor.stop.remote()
        if ray.wait([self._question], timeout=0)[0]:
            self._take_report(now)
        if self._answered and now - self._latest > self._timeout:
            self._lose(f"no answer for {self._timeout:g} s: it was stopped, or its node is cut off")
        elif stopping and not self._answered:
            self.follower.ended = True  # it has not begun yet
        elif not self._answered and now - self._complete > _WAIT:
            self._complete = math.inf
            log.warning("the server of chain %d has not started: the cluster may be full", self.follower.index)

    def suspended(self, seconds: float) -> None:
        """Nobody has asked the server for so long: it does not count against it."""
        self._latest += seconds
        self._complete += seconds

    def end(self) -> None:
        """End the server's process, and with it whatever workers it has left."""
        with contextlib.suppress(RayError):
            ray.kill(self._actor)

    def _take_report(self, now: float) -> None:
        try:
            report, place = ray.get(self._question)
        except ActorUnavailableError:  # it may come back, and whether it has got the question does not matter
            return self._ask()
        except RayError as error:
            return self._lose(in_a_line(error))
        self._latest = now
        if not self._answered:
            self._answered, self._complete = True, now
            log.info("the server of chain %d is %s", self.follower.index, place)
        if self.follower.take(report):
            self._faults = 0
        if not report.absent:
            self._complete = now
        elif now - self._complete > _WAIT:
            self._complete = math.inf
            log.warning(
                "chain %d: %d of %d workers have not started: the cluster may be full",
                self.follower.index, report.absent, self._supervisor.job.settings.workers,
            )  # fmt: skip
        if not self.follower.ended:
            self._ask()
        return None

    def _launch(self) -> None:
        self._answered = self._stopping = False
        self._latest = self._complete = time.monotonic()
        self._actor = self._supervisor.start_server(self.follower)
        self._actor.run.remote()
        self._ask()

    def _ask(self) -> None:
        self._question = self._actor.report.remote(self.follower.known)

    def _lose(self, details: str) -> None:
        self.end()
        self.follower.lost(details)
        self._faults += 1
        if self._stopping:
            self.follower.ended = True
        elif self._faults > self._restarts:
            self.follower.ended = True
            self.follower.failure = ServerLost(
                f"the server of chain {self.follower.index} was given up after failing {self._faults} times in a row; "
                f"the last time: {details}"
            )
        else:
            self._launch()


class Supervisor:
    """Starts the servers of a run and follows them to their ends."""

    def __init__(self, engine: Ray, job: Job, model: Any, stop: threading.Event, interrupted: threading.Event) -> None:
        self.engine, self.job = engine, job
        self._model, self._stop, self._interrupted = model, stop, interrupted
        self._path = [entry for entry in sys.path if entry]
        self._actors = ray.remote(ServerActor)

    def run(self) -> Outcome:
        """Run until all servers have ended, or one has failed."""
        engine, job = self.engine, self.job
        policy = FaultPolicy(engine.patience, engine.restarts, start=None, silence=engine.timeout)
        clock = monotonic_clock(elapsed(job))
        followers = [Follower(job, s, policy, clock) for s in range(job.settings.servers)]
        servers: list[SupervisedServer] = []
        failure: Exception | None = None
        try:
            servers.extend(SupervisedServer(follower, self) for follower in followers)
            self._follow(servers)
            failure = next((follower.failure for follower in followers if follower.failure is not None), None)
            for follower in followers:
                follower.close()
        except StalegradError as error:  # of the store
            failure = failure or error
        finally:
            for server in servers:
                server.end()
        if failure is not None and not isinstance(failure, StalegradError):
            raise failure
        results = [follower.result for follower in followers]
        return outcome_of(results, interrupted=self._interrupted.is_set(), failure=failure)

    def start_server(self, follower: Follower) -> Any:
        """Start a new process for a chain's server."""
        options = {
            "num_cpus": 0,
            "resources": dict(self.engine.server_resources),
            "scheduling_strategy": "SPREAD",
            "max_concurrency": 2 * self.job.settings.workers + 8,
            "max_restarts": 0,
            "max_task_retries": 0,
        }
        task = cloudpickle.dumps(follower.task())
        return self._actors.options(**options).remote(
            task, [self._model], self._path, self.job.settings.seed, self.engine
        )

    def _follow(self, servers: list[SupervisedServer]) -> None:
        suspension = Suspension(_STALLED)
        while running := [server for server in servers if not server.follower.ended]:
            missed = suspension.look(time.monotonic())
            for server in running:
                server.suspended(missed)
                server.poll(self._stop.is_set())
            if any(server.follower.failure is not None for server in servers):
                self._stop.set()
            try:
                time.sleep(_POLL)
            except KeyboardInterrupt:  # where no handler could be installed
                if self._stop.is_set():
                    raise
                self._interrupted.set()
                self._stop.set()
