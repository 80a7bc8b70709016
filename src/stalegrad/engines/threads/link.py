"""Messages between a server's thread and its workers' threads: queues, and buffers that are copied into."""

import threading
import time
import traceback
from collections.abc import Callable, Mapping
from functools import partial

import numpy as np

from stalegrad._internal.types import Array
from stalegrad.engines.base import Job
from stalegrad.engines.inbox import Inbox
from stalegrad.engines.link import Arrival, Delivery, Failure, Link, Ready
from stalegrad.engines.worker_loop import Work, run_worker
from stalegrad.protocol.admission import Assignment
from stalegrad.protocol.server import Gradient
from stalegrad.protocol.worker import Worker


class _WorkerEnd:
    """One incarnation of a worker: its inbox, and buffers that no other thread writes while it has work."""

    def __init__(self, number: int, incarnation: int, like: Array, arrivals: Inbox[Arrival]) -> None:
        self.inbox: Inbox[Assignment | None] = Inbox()
        self.point, self._gradient = np.empty_like(like), np.empty_like(like)
        self._number, self._incarnation, self._arrivals = number, incarnation, arrivals
        self._worker: Worker | None = None
        self._assignment: Assignment | None = None

    def run(self, make: Callable[[], Worker], slow: float) -> None:
        """Make the worker, say that it is ready, and compute until its inbox says that it is enough."""
        try:
            self._worker = make()
        except BaseException:
            self.fail(traceback.format_exc())
            return
        self._arrivals.put(Ready(self._number, self._incarnation))
        run_worker(self, slow)

    def receive(self) -> Work | None:
        """Wait for an assignment, and wake the server on the way."""
        assert self._worker is not None
        assignment = self._assignment = self.inbox.get(signalling=self._arrivals)
        return None if assignment is None else Work(self._worker, assignment.count, self.point, self._gradient)

    def deliver(self, nanoseconds: int) -> None:
        """Put the gradient into the server's inbox."""
        assert self._assignment is not None
        number, count, version = self._assignment
        gradient = Gradient(number, count, version, self._gradient)
        self._arrivals.put(Delivery(number, self._incarnation, nanoseconds * 1e-9, gradient))

    def fail(self, details: str) -> None:
        """Put the traceback into the server's inbox, and end."""
        self._arrivals.put(Failure(self._number, self._incarnation, "raised", details))
        self.inbox.put(None)


class ThreadLink(Link):
    """Inboxes between a server's thread and its workers' threads."""

    def __init__(self, job: Job, server: int, slow: Mapping[int, float]) -> None:
        self._potential, self._seed, self._server, self._slow = job.potential, job.settings.seed, server, slow
        self._like = np.empty((1, job.potential.size), job.potential.dtype)
        self._arrivals: Inbox[Arrival] = Inbox()
        self._sent: Inbox[Assignment | None] | None = None  # to the worker that has not been signalled
        self._workers: dict[int, _WorkerEnd] = {}
        self._threads: list[threading.Thread] = []

    def start(self, worker: int, incarnation: int) -> None:
        """Start a thread for the worker."""
        make = partial(Worker, self._potential, self._seed, self._server, worker)
        end = self._workers[worker] = _WorkerEnd(worker, incarnation, self._like, self._arrivals)
        name = f"stalegrad-worker-{self._server}-{worker}"
        slow = self._slow.get(worker, 0.0)
        thread = threading.Thread(target=end.run, args=(make, slow), name=name, daemon=True)
        self._threads.append(thread)
        thread.start()

    def send(self, assignment: Assignment, point: Array) -> None:
        """Copy the point into the worker's buffer and wake it, at the latest when the server waits."""
        if self._sent is not None:
            self._sent.signal()
        worker = self._workers[assignment.worker]
        np.copyto(worker.point, point)
        worker.inbox.put(assignment)
        self._sent = worker.inbox

    def receive(self, timeout: float) -> Arrival | None:
        """Wait for a worker, and wake the one that was sent something last on the way."""
        sent, self._sent = self._sent, None
        return self._arrivals.get(timeout, signalling=sent)

    def discard(self, worker: int, kind: str) -> None:
        """Let the thread end when it next looks; what it may still send carries its old incarnation."""
        if (end := self._workers.pop(worker, None)) is not None:
            end.inbox.put(None)

    def close(self) -> None:
        """Signal all threads to end and give those that compute a moment; they are daemons and hold nothing up."""
        for worker in list(self._workers):
            self.discard(worker, "closed")
        deadline = time.perf_counter() + 1.0
        for thread in self._threads:
            thread.join(max(0.0, deadline - time.perf_counter()))
