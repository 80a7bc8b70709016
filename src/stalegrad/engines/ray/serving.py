"""A server on Ray: an actor. It starts its workers as tasks of its own, so that Ray ends them when it is gone."""

import os
import pickle
import threading
import time
from collections.abc import Iterable
from typing import Any

import ray
from ray.exceptions import RayError, TaskCancelledError

from stalegrad.engines.desk import Call, Work
from stalegrad.engines.far import FarServer, Report
from stalegrad.engines.ray.engine import Ray
from stalegrad.engines.ray.packing import extend_path, in_a_line, pack_point
from stalegrad.engines.ray.working import work

_LOOK = 0.1  # seconds between looks at workers
_LEAVE = 1.0  # seconds that workers have at the end to go by themselves


class ServerProcess:
    """One server. Its methods run side by side: every worker's call waits in a thread of its own."""

    def __init__(self, task: bytes, model: list[Any], path: list[str], seed: int, settings: Ray) -> None:
        extend_path(path)
        asked = pickle.loads(task)
        self._order = (model[0], path, ray.get_runtime_context().current_actor, seed, asked.index)
        self._settings = settings
        self._work = ray.remote(work)
        self._tasks: dict[int, tuple[int, Any]] = {}  # incarnation and reference of every worker's task
        self._leaving: dict[Any, float] = {}  # tasks of workers that were sent home, and when to end them
        self._lock = threading.Lock()
        self._ended = threading.Event()
        self._far = FarServer(asked, self._hire, self._dismiss, pack_point)

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
        return f"{type(error).__name__}: {in_a_line(error)}"
