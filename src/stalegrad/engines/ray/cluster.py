"""Servers and workers on a Ray cluster: the only file that imports Ray.

Calls of Ray may block for a minute and more when a node is cut off, may raise although they were executed, and what
they return lives in shared memory until the last reference to it is gone. So nobody here waits for an answer without a
limit of their own, every call can be made again (:mod:`stalegrad.engines.desk`), and references are dropped as soon as
what they stand for has been copied.
"""

import contextlib
import logging
import math
import os
import pickle
import shutil
import signal
import socket
import sys
import tempfile
import threading
import time
import traceback
from collections.abc import Iterable, Iterator
from typing import Any

import cloudpickle
import ray
from ray.exceptions import ActorUnavailableError, GetTimeoutError, RayActorError, RayError, TaskCancelledError

from stalegrad.engines.base import Job, Outcome, available_cores
from stalegrad.engines.caller import attend
from stalegrad.engines.conductor import elapsed, total
from stalegrad.engines.desk import Call, Point, Work
from stalegrad.engines.far import FarServer, Follower, Report
from stalegrad.engines.interrupts import stop_on_signals
from stalegrad.engines.process_host import store_model
from stalegrad.engines.ray.engine import Ray
from stalegrad.engines.ray.security import (
    address_parts,
    is_loopback,
    refuse_open_cluster,
    refuse_tokenless_connection,
    token_of_our_own,
)
from stalegrad.engines.service import Care, monotonic_clock
from stalegrad.errors import ArgumentError, StalegradError
from stalegrad.potentials.base import Potential
from stalegrad.types import Array
from stalegrad.worker import Worker

_LOOK = 0.1  # seconds between looks at servers and workers
_STORED = 100 << 10  # bytes: Ray sends smaller values by themselves, without the object store
_LARGE = 64 << 20  # bytes of a model that had better not be sent to every worker
_LEAVE = 1.0  # seconds that workers have at the end to go by themselves
_WAIT = 10.0  # seconds without a sign of somebody who is to start, after which it is said

log = logging.getLogger("stalegrad")


class ServerLost(StalegradError, RuntimeError):
    """The server of a chain has failed too often in a row."""


def run(engine: Ray, job: Job) -> Outcome:
    """Run a job on a cluster."""
    model = _packed(job.potential)
    stop, interrupted = threading.Event(), threading.Event()
    with connected(engine, job), stop_on_signals(stop, interrupted):
        return Watch(engine, job, ray.put(model), stop, interrupted).run()


# ------------------------------------------------------------------------------------------------------- a worker


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
            potential = _unpacked(model, path)
            Worker(potential, seed, chain, number).rehearse()
        except BaseException:
            caller(Call(number, incarnation, 0, failure=traceback.format_exc()))
            return
        lanes = settings.gradients_per_call
        attend(potential, seed, chain, number, incarnation, caller, unpack=_fetched, lanes=lanes)


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
            time.sleep(_LOOK)


class Heart(threading.Thread):
    """A worker's signs of life, also while it computes."""

    def __init__(self, server: Any, number: int, incarnation: int, settings: Ray) -> None:
        super().__init__(name="stalegrad-heartbeat", daemon=True)
        self._server, self._who, self._settings = server, (number, incarnation), settings
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


def _fetched(packed: Any) -> Array:
    """A point that was sent by value, or lies in the object store."""
    point: Array = ray.get(packed) if isinstance(packed, ray.ObjectRef) else packed
    return point


# ------------------------------------------------------------------------------------------------------- a server


class ServerProcess:
    """One server. Its methods run side by side: every worker's call waits in a thread of its own."""

    def __init__(self, task: bytes, model: list[Any], path: list[str], seed: int, settings: Ray) -> None:
        _extend_path(path)
        asked = pickle.loads(task)
        self._order = (model[0], path, ray.get_runtime_context().current_actor, seed, asked.index)
        self._settings = settings
        self._work = ray.remote(work)
        self._tasks: dict[int, tuple[int, Any]] = {}  # incarnation and reference of every worker's task
        self._leaving: dict[Any, float] = {}  # tasks of workers that were sent home, and when to end them
        self._lock = threading.Lock()
        self._ended = threading.Event()
        self._far = FarServer(asked, self._hire, self._dismiss, _stored)

    def run(self) -> None:
        """Serve to the end."""
        threading.Thread(target=self._watch, name="stalegrad-watch", daemon=True).start()
        self._far.run()
        for number in list(self._tasks):
            self._dismiss(number)
        while self._leaving:
            time.sleep(0.01)
        self._ended.set()

    def exchange(self, call: Call) -> Work | None:
        """A worker calls."""
        return self._far.desk.exchange(call)

    def beat(self, number: int, incarnation: int) -> None:
        """A worker is alive."""
        self._far.desk.beat(number, incarnation)

    def report(self, known: int) -> tuple[Report, str]:
        """How it is doing, and where."""
        report = self._far.report(known)
        ended = report.ended and self._ended.is_set()  # not while workers are on their way home
        return report._replace(ended=ended), f"process {os.getpid()} on {ray.util.get_node_ip_address()}"

    def stop(self) -> None:
        """End early."""
        self._far.stop()

    def _hire(self, number: int, incarnation: int) -> None:
        settings = self._settings
        options = {
            "num_cpus": settings.cpus_per_worker,
            "num_gpus": settings.gpus_per_worker,
            "resources": dict(settings.resources),
            "scheduling_strategy": "SPREAD",
            "max_retries": 0,
        }
        task = self._work.options(**options).remote(*self._order, number, incarnation, settings)
        with self._lock:
            self._tasks[number] = incarnation, task

    def _dismiss(self, number: int) -> None:
        """Have a worker that was sent home ended, unless it goes by itself.

        Not at once: that ends its process, which may have gone on to another task by then.
        """
        with self._lock:
            _, task = self._tasks.pop(number, (0, None))
            if task is not None:
                self._leaving[task] = time.monotonic() + _LEAVE

    def _watch(self) -> None:
        """Tell the desk of workers that have ended, and end those that should have."""
        while not self._ended.wait(_LOOK):
            with self._lock:
                tasks = {task: (number, incarnation) for number, (incarnation, task) in self._tasks.items()}
                leaving = dict(self._leaving)
            for task in _finished(tasks):
                number, incarnation = tasks[task]
                with self._lock:
                    if self._tasks.get(number, (-1,))[0] == incarnation:
                        del self._tasks[number]
                self._far.desk.lost(number, incarnation, "died", _end_of(task))
            finished = _finished(leaving)
            for task, deadline in leaving.items():
                if task not in finished and time.monotonic() > deadline:
                    ray.cancel(task, force=True)
                    finished.append(task)
            with self._lock:
                for task in finished:
                    del self._leaving[task]


def _finished(tasks: Iterable[Any]) -> list[Any]:
    references = list(tasks)
    return list(ray.wait(references, num_returns=len(references), timeout=0)[0]) if references else []


def _end_of(task: Any) -> str:
    """How a worker's task has ended, in a line."""
    try:
        ray.get(task)
        return "it has left"
    except TaskCancelledError:
        return "it was cancelled"
    except RayError as error:
        return f"{type(error).__name__}: {_line(error)}"


def _stored(point: Point) -> Any:
    """What is sent of a point: its values; but a large one that several workers read is stored once for all of them.

    A reference costs its reader another round trip, so a point with one reader goes by value.
    """
    if len(point.readers) < 2 or point.values.nbytes < _STORED:
        return point.values
    if point.packed is None:
        point.packed = ray.put(point.values)
    return point.packed


# ------------------------------------------------------------------------------------------- the run's own process


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
            return self._lose(_line(error))
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


# ------------------------------------------------------------------------------------------------- the connection


@contextlib.contextmanager
def connected(engine: Ray, job: Job) -> Iterator[None]:
    """A connection to the cluster that the engine names. What is started here ends here; what was there stays."""
    if ray.is_initialized():
        there = ray.get_runtime_context().gcs_address
        if engine.address not in (None, "auto", there):
            problem = f"is not the cluster that this process is connected to ({there})"
            raise ArgumentError("address", engine.address, problem, "Call ray.shutdown() first, or leave it out.")
        refuse_open_cluster(there, engine.insecure)
        yield
        return
    address = engine.address or os.environ.get("RAY_ADDRESS")
    with contextlib.ExitStack() as stack:
        if address is None:
            folder = tempfile.mkdtemp(prefix="stalegrad-ray-")
            stack.callback(shutil.rmtree, folder, ignore_errors=True)
            token_of_our_own()
            with _loopback():
                _initialise(stack, address="local", _temp_dir=folder, **_room(engine, job))
        else:
            alone = address != "auto" and _listens_to_us_alone(address, engine)
            try:
                with _loopback() if alone else contextlib.nullcontext():
                    _initialise(stack, address=address)
            except (ConnectionError, RuntimeError, RayError) as error:
                remedy = "Give the address that ray start has printed, and its token."
                raise ArgumentError("address", address, f"cannot be connected to ({_line(error)})", remedy) from error
            refuse_open_cluster(ray.get_runtime_context().gcs_address, engine.insecure)
        yield


def _initialise(stack: contextlib.ExitStack, **settings: Any) -> None:
    handler = signal.getsignal(signal.SIGTERM)
    stack.callback(ray.shutdown)
    ray.init(**settings, logging_level=logging.ERROR, log_to_driver=False)
    if handler is not None and threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGTERM, handler)  # Ray has put its own in its place


def _room(engine: Ray, job: Job) -> dict[str, Any]:
    """A Ray on this machine has room for all workers, however few cores there are."""
    workers = job.servers * job.workers
    amounts = {name: amount * workers for name, amount in engine.resources.items()}
    for name, amount in engine.server_resources.items():
        amounts[name] = amounts.get(name, 0.0) + amount * job.servers
    cpus = max(available_cores(), math.ceil(workers * engine.cpus_per_worker))
    return {"num_cpus": cpus, "resources": amounts or None, "include_dashboard": False}


@contextlib.contextmanager
def _loopback() -> Iterator[None]:
    """Have Ray mean 127.0.0.1 by that, and where it starts, listen there alone.

    There is no public way to this: Ray takes the address of the machine's network card in its place, unless it believes
    that it is on a system where it knows no clusters.
    """
    constants = ray._private.ray_constants
    before = constants.ENABLE_RAY_CLUSTER
    constants.ENABLE_RAY_CLUSTER = False
    try:
        yield
    finally:
        constants.ENABLE_RAY_CLUSTER = before


def _listens_to_us_alone(address: str, engine: Ray) -> bool:
    """Refuse what must not or cannot be reached; whether what can be is reached through the loopback alone.

    Ray itself would try for ten minutes.
    """
    if "://" in address:
        remedy = "Run the program on a node of the cluster, such as by ray job submit, with address='auto'."
        raise ArgumentError("address", address, "is an address of Ray's client, which is not supported", remedy)
    refuse_tokenless_connection(address, engine.insecure)
    host, port = address_parts(address)
    if not _answers(host, port, engine.timeout):
        raise ArgumentError("address", address, "does not answer", "Give the address that ray start has printed.")
    return is_loopback(address) and not _answers(ray.util.get_node_ip_address(), port, 1.0)


def _answers(host: str, port: int, timeout: float) -> bool:
    try:
        socket.create_connection((host, port), timeout).close()
    except OSError:
        return False
    return True


# ------------------------------------------------------------------------------------------------------ what is sent


def _packed(potential: Potential) -> tuple[bytes, list[bytes]]:
    body, arrays = store_model(potential)
    size = len(body) + sum(array.nbytes for array in arrays)
    if size > _LARGE:
        log.warning(
            "the model is %d MB large and is sent to every worker: let each load its data itself, with "
            "sg.potentials.from_loader", size >> 20,
        )  # fmt: skip
    return body, [bytes(array) for array in arrays]


def _unpacked(model: tuple[bytes, list[bytes]], path: list[str]) -> Potential:
    """The model, with arrays of its own that it may write to."""
    _extend_path(path)
    body, arrays = model
    potential: Potential = pickle.loads(body, buffers=[bytearray(array) for array in arrays])
    return potential


def _extend_path(path: list[str]) -> None:
    """Where the user's process looks for modules, as far as those places are here, too."""
    sys.path.extend(entry for entry in path if entry not in sys.path and os.path.exists(entry))


def _line(error: BaseException) -> str:
    return " ".join(str(error).split())
