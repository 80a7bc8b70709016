"""The threads engine: servers and workers are threads of this process.

It works in a notebook and with closures. Gradients run in parallel as far as they release the GIL, which compiled, JAX
and torch gradients do; for pure Python gradients use the processes engine.
"""

import threading
import time
import traceback
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from stalegrad.admission import Assignment
from stalegrad.checks import by_worker, whole_number
from stalegrad.engines.base import Job, Outcome
from stalegrad.engines.conductor import conduct
from stalegrad.engines.inbox import Inbox
from stalegrad.engines.service import Arrival, Care, Delivery, Failure, Ready
from stalegrad.server import Gradient
from stalegrad.types import Array
from stalegrad.worker import Worker


@dataclass(frozen=True)
class Threads:
    """Real asynchrony in one process.

    Args:
        patience: seconds after which a worker that does not answer counts as hung; None waits for ever. A hung thread
            cannot be ended, only left behind.
        restarts: how often in a row a worker may fail before it is given up.
        shards: threads among which each server splits its updates, for models of many parameters: the same bits,
            sooner, as long as there are cores for them.
        slow: extra seconds per gradient of some workers, by number, to study stragglers.
    """

    patience: float | None = None
    restarts: int = 3
    shards: int = 1
    slow: Mapping[int, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        Care(self.patience, self.restarts)
        whole_number("shards", self.shards, least=1)
        by_worker("slow", self.slow)

    def run(self, job: Job) -> Outcome:
        """Run the job."""
        care = Care(self.patience, self.restarts)
        return conduct(job, lambda server: ThreadLink(job, server, self.slow), care)


class _Slot:
    """One incarnation of a worker: its inbox, and buffers that nobody else writes while it has work."""

    def __init__(self, like: Array) -> None:
        self.inbox: Inbox[Assignment | None] = Inbox()
        self.point, self.gradient = np.empty_like(like), np.empty_like(like)


class ThreadLink:
    """Inboxes between a server's thread and its workers' threads."""

    def __init__(self, job: Job, server: int, slow: Mapping[int, float]) -> None:
        self._job, self._server, self._slow = job, server, slow
        self._like = np.empty((1, job.potential.size), job.potential.dtype)
        self._arrivals: Inbox[Arrival] = Inbox()
        self._sent: Inbox[Assignment | None] | None = None  # to the worker that has not been rung for
        self._slots: dict[int, _Slot] = {}
        self._threads: list[threading.Thread] = []

    def start(self, worker: int, incarnation: int) -> None:
        """Start a thread."""
        slot = self._slots[worker] = _Slot(self._like)
        thread = threading.Thread(
            target=self._work,
            args=(worker, incarnation, slot),
            name=f"stalegrad-worker-{self._server}-{worker}",
            daemon=True,
        )
        self._threads.append(thread)
        thread.start()

    def send(self, assignment: Assignment, point: Array) -> None:
        """Copy the point into the worker's buffer and wake it, at the latest when the server waits."""
        if self._sent is not None:
            self._sent.ring()
        slot = self._slots[assignment.worker]
        np.copyto(slot.point, point)
        slot.inbox.put(assignment)
        self._sent = slot.inbox

    def receive(self, timeout: float) -> Arrival | None:
        """Wait for a worker."""
        sent, self._sent = self._sent, None
        return self._arrivals.get(timeout, waking=sent)

    def discard(self, worker: int) -> None:
        """Let the thread end when it next looks; what it may still send carries its old incarnation."""
        if (slot := self._slots.pop(worker, None)) is not None:
            slot.inbox.put(None)

    def close(self) -> None:
        """Tell all threads to end and give those that compute a moment; they are daemons and hold nothing up."""
        for worker in list(self._slots):
            self.discard(worker)
        deadline = time.perf_counter() + 1.0
        for thread in self._threads:
            thread.join(max(0.0, deadline - time.perf_counter()))

    def _work(self, number: int, incarnation: int, slot: _Slot) -> None:
        """The worker's loop."""
        worker = Worker(self._job.potential, self._job.seed, self._server, number)
        pause = self._slow.get(number, 0.0)
        self._arrivals.put(Ready(number, incarnation))
        try:
            while (assignment := slot.inbox.get(waking=self._arrivals)) is not None:
                begun = time.perf_counter()
                worker.compute(slot.point, assignment.count, slot.gradient)
                seconds = time.perf_counter() - begun
                if pause:
                    time.sleep(pause)
                gradient = Gradient(number, assignment.count, assignment.version, slot.gradient)
                self._arrivals.put(Delivery(number, incarnation, seconds, gradient))
        except BaseException:
            self._arrivals.put(Failure(number, incarnation, "raised", traceback.format_exc()))
