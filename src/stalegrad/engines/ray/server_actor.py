"""A server on Ray: an actor. It starts its workers as tasks of its own, so that Ray ends them when it is gone."""

import os
import pickle
import threading
import time
from collections.abc import Iterable
from typing import Any

import ray
from ray.exceptions import RayError, TaskCancelledError

from stalegrad.engines.ray.engine import Ray
from stalegrad.engines.ray.envelope import Envelope, exchange
from stalegrad.engines.ray.packing import extend_path, in_a_line, pack_point
from stalegrad.engines.ray.remote_server import RemoteServer
from stalegrad.engines.ray.worker_task import work
from stalegrad.engines.reports import Report

_POLL = 0.1  # seconds between looks at workers
_END = 1.0  # seconds that workers have at the end to end by themselves


class ServerActor:
    """One server of a run. Its methods run side by side: every worker's call waits in a thread of its own."""

    def __init__(self, task: bytes, model: list[Any], path: list[str], seed: int, settings: Ray) -> None:
        extend_path(path)
        asked = pickle.loads(task)
        self._arguments = (model[0], path, ray.get_runtime_context().current_actor, seed, asked.server.index)
        self._settings = settings
        self._work = ray.remote(work)
        self._tasks: dict[int, tuple[int, Any]] = {}  # incarnation and reference of every worker's task
        self._ending: dict[Any, float] = {}  # tasks of workers that were asked to end, and when to end them by force
        self._lock = threading.Lock()
        self._ended = threading.Event()
        self._remote = RemoteServer(asked, self._start_worker, self._end_worker, pack_point)

    def run(self) -> None:
        """Serve to the end, and wait until the workers have ended, too."""
        threading.Thread(target=self._monitor, name="stalegrad-monitor", daemon=True).start()
        self._remote.run()
        for number in list(self._tasks):
            self._end_worker(number)
        while self._ending:
            time.sleep(0.01)
        self._ended.set()

    def exchange(self, call: Envelope) -> Envelope:
        """Execute a worker's call, and answer it."""
        return exchange(self._remote.link, call)

    def heartbeat(self, number: int, incarnation: int) -> None:
        """Note that a worker is alive."""
        self._remote.link.heartbeat(number, incarnation)

    def report(self, known: int) -> tuple[Report, str]:
        """How the server is doing, and in which process."""
        report = self._remote.report(known)
        ended = report.ended and self._ended.is_set()  # not while workers are ending
        return report._replace(ended=ended), f"process {os.getpid()} on {ray.util.get_node_ip_address()}"

    def stop(self) -> None:
        """End early, with a last snapshot."""
        self._remote.stop()

    def _start_worker(self, number: int, incarnation: int) -> None:
        settings = self._settings
        options = {
            "num_cpus": settings.cpus_per_worker,
            "num_gpus": settings.gpus_per_worker,
            "resources": dict(settings.resources),
            "scheduling_strategy": "SPREAD",
            "max_retries": 0,
        }
        task = self._work.options(**options).remote(*self._arguments, number, incarnation, settings)
        with self._lock:
            self._tasks[number] = incarnation, task

    def _end_worker(self, number: int) -> None:
        """Have a worker that was asked to end ended by force, unless it does so by itself.

        Not at once: that ends its process, which may have gone on to another task by then.
        """
        with self._lock:
            _, task = self._tasks.pop(number, (0, None))
            if task is not None:
                self._ending[task] = time.monotonic() + _END

    def _monitor(self) -> None:
        """Report workers that have ended to the link, and end those that should have."""
        while not self._ended.wait(_POLL):
            with self._lock:
                tasks = {task: (number, incarnation) for number, (incarnation, task) in self._tasks.items()}
                ending = dict(self._ending)
            for task in _finished(tasks):
                number, incarnation = tasks[task]
                with self._lock:
                    if self._tasks.get(number, (-1,))[0] == incarnation:
                        del self._tasks[number]
                self._remote.link.lost(number, incarnation, "died", _end_of(task))
            finished = _finished(ending)
            for task, deadline in ending.items():
                if task not in finished and time.monotonic() > deadline:
                    ray.cancel(task, force=True)
                    finished.append(task)
            with self._lock:
                for task in finished:
                    del self._ending[task]


def _finished(tasks: Iterable[Any]) -> list[Any]:
    references = list(tasks)
    return list(ray.wait(references, num_returns=len(references), timeout=0)[0]) if references else []


def _end_of(task: Any) -> str:
    """How a worker's task has ended, in a line."""
    try:
        ray.get(task)
        return "its task has ended"
    except TaskCancelledError:
        return "it was cancelled"
    except RayError as error:
        return f"{type(error).__name__}: {in_a_line(error)}"
