"""A server at work: the loop that every real engine runs for each of its servers, whatever carries the messages.

An engine gives it a :class:`Link` to its workers. The loop waits for arrivals, hands them to the
:class:`stalegrad.server.Server`, which holds all the sampling logic, sends out what the server answers, and looks after
the workers: one that raises, dies, hangs or sends rubbish is reported and replaced, a bounded number of times in a row.

Where a message costs more than a gradient, a worker has several *lanes*: it is given several minibatches in one message
and brings all the gradients back in one. To the server, and in the trace, each lane is a worker of its own with one
minibatch at a time: lane j of worker w of W has the number w + jW.
"""

import logging
import time
from collections.abc import Callable
from dataclasses import dataclass
from math import inf
from threading import Event as Flag
from typing import NamedTuple, Protocol

from stalegrad.admission import Assignment
from stalegrad.checks import real_number, whole_number
from stalegrad.engines.base import Checkpoint, Event, Timing
from stalegrad.errors import StalegradError
from stalegrad.server import Gradient, Server
from stalegrad.types import Array

_LOOK = 0.2  # seconds between looks at the stop flag and for hung workers when nothing arrives

log = logging.getLogger("stalegrad")


class WorkersLost(StalegradError, RuntimeError):
    """All workers of a chain have failed too often in a row."""


class Ready(NamedTuple):
    """A worker has started and wants work, on so many lanes; or it has some already and wants more."""

    worker: int
    incarnation: int
    lanes: int = 1


class Delivery(NamedTuple):
    """A worker has computed what one of its lanes was asked for, in so many seconds.

    With ``more``, something else of the same message follows at once, and its lanes get new work all together.
    """

    worker: int
    incarnation: int
    seconds: float
    gradient: Gradient
    more: bool = False


class Failure(NamedTuple):
    """A worker is gone."""

    worker: int
    incarnation: int
    kind: str
    details: str


Arrival = Ready | Delivery | Failure


class Link(Protocol):
    """How one server reaches its workers. Messages of an incarnation that was discarded may still arrive."""

    def start(self, worker: int, incarnation: int) -> None:
        """Start a worker, or its replacement; it announces itself with :class:`Ready`."""

    def send(self, assignment: Assignment, point: Array) -> None:
        """Give a worker, on the lane that the assignment names, its assignment and a copy of the point."""

    def receive(self, timeout: float) -> Arrival | None:
        """The next arrival, or None when nothing has come for so many seconds."""

    def discard(self, worker: int) -> None:
        """Have nothing more to do with this worker; end it if that is possible."""

    def close(self) -> None:
        """End all workers and free what they used."""


@dataclass(frozen=True)
class Care:
    """What to do about workers that fail.

    Args:
        patience: seconds after which a worker that does not answer counts as hung; None waits for ever.
        restarts: how often in a row a worker may fail, without a good gradient in between, before it is given up.
        start: seconds that a worker may take to start, however short the patience with its gradients is; None for as
            long as it takes.
        elastic: whether workers come and go as they please: then one that dies has not failed.
    """

    patience: float | None = None
    restarts: int = 3
    start: float | None = 60.0
    elastic: bool = False

    def __post_init__(self) -> None:
        whole_number("restarts", self.restarts)
        if self.patience is not None:
            real_number("patience", self.patience, above=0)


class Service:
    """Runs one server until it is done or told to stop.

    Args:
        index: which server of the run this is.
        server: the server.
        link: to its workers.
        workers: W.
        care: what to do about workers that fail.
        stop: set from outside to end early.
        clock: seconds since the run's start.
        checkpoint: saves the chain from time to time; None if nothing is to be saved.

    Where each worker has something that nobody else can take over, such as a shard of the data, the chain begins when
    all are there, and ends with the first that is given up.
    """

    def __init__(
        self,
        index: int,
        server: Server,
        link: Link,
        workers: int,
        care: Care,
        stop: Flag,
        clock: Callable[[], float],
        checkpoint: Checkpoint | None = None,
    ) -> None:
        self.index, self.server, self.link = index, server, link
        self.events: list[Event] = []
        self.timing = Timing()
        self._care, self._stop, self._clock, self._checkpoint = care, stop, clock, checkpoint
        self._workers = workers
        self._lanes = dict.fromkeys(range(workers), 0)  # that have joined
        self._flights = dict.fromkeys(range(workers), 0)  # what each worker has been given and not brought back
        self._needs_all = self._wait_for_all = server.needs_all
        self._incarnation = dict.fromkeys(range(workers), 0)  # of the workers that are not given up
        self._faults = dict.fromkeys(range(workers), 0)  # in a row
        self._asked: dict[int, float] = {}  # when each worker that has work or is starting was last sent something
        self._ready: set[int] = set()  # those that have started
        self._joined: dict[int, float] = {}  # since when each worker that has joined has been there

    def run(self) -> None:
        """The loop."""
        begun = self._clock()
        try:
            for worker in self._incarnation:
                self._start(worker)
            looked = self._clock()
            while not self.server.done and not self._stop.is_set():
                arrival = self.link.receive(_LOOK)
                if arrival is not None:
                    self._handle(arrival)
                if arrival is None or self._clock() - looked > _LOOK:
                    self._find_hung()
                    if self._checkpoint is not None and self._checkpoint.due():
                        self._save()
                    looked = self._clock()
        finally:
            now = self._clock()
            self.timing.wall = now - begun
            self.timing.waiting += sum(now - since for since in self._joined.values()) - self.timing.gradients
            self.link.close()
            self._save()

    def _save(self) -> None:
        if self._checkpoint is not None:
            self._checkpoint.save(self.server.chain, self.server.trace_rows, self.events)

    def _handle(self, arrival: Arrival) -> None:
        worker = arrival.worker
        if self._incarnation.get(worker) != arrival.incarnation:
            return  # from a worker that was replaced or given up
        if isinstance(arrival, Delivery):
            self._deliver(arrival)
        elif isinstance(arrival, Ready):
            self._joined.setdefault(worker, self._clock())
            self._ready.add(worker)
            if not self._flights[worker]:
                self._asked.pop(worker, None)
            for other in self._beginning(worker):
                self._join(other, arrival.lanes)
        else:
            self._fail(worker, arrival.kind, arrival.details)

    def _join(self, worker: int, lanes: int) -> None:
        for lane in range(self._lanes[worker], lanes):
            self._send(self.server.join(worker + lane * self._workers))
            self._lanes[worker] += 1

    def _beginning(self, worker: int) -> list[int]:
        """Who is to be given work now that this worker is ready."""
        if not self._wait_for_all:
            return [worker]
        if len(self._ready) < len(self._incarnation):
            return []
        self._wait_for_all = False
        return sorted(self._ready)

    def _deliver(self, delivery: Delivery) -> None:
        begun = self._clock()
        worker = delivery.worker
        refusals = len(self.server.refusals)
        self._flights[worker] = max(0, self._flights[worker] - 1)
        if self._flights[worker]:
            self._asked[worker] = begun
        else:
            self._asked.pop(worker, None)
        assignments = self.server.receive(delivery.gradient, begun, more=delivery.more)
        self.timing.gradients += delivery.seconds
        self.timing.count += 1
        if len(self.server.refusals) == refusals:
            self._faults[worker] = 0
            self._send(assignments)
        else:
            others = [a for a in assignments if a.worker % self._workers != worker]
            self._send(others)
            self._fail(worker, "refused", self.server.refusals[-1])
        self.timing.updates += self._clock() - begun

    def _send(self, assignments: list[Assignment]) -> None:
        for assignment in assignments:
            worker = assignment.worker % self._workers
            self._asked[worker] = self._clock()
            self._flights[worker] += 1
            self.link.send(assignment, self.server.point(assignment.worker))

    def _start(self, worker: int) -> None:
        self._asked[worker] = self._clock()
        self._ready.discard(worker)
        self.link.start(worker, self._incarnation[worker])

    def _find_hung(self) -> None:
        patience = self._care.patience
        if patience is not None:
            now = self._clock()
            for worker, since in list(self._asked.items()):
                start = inf if self._care.start is None else self._care.start
                allowed = patience if worker in self._ready else max(patience, start)
                if now - since > allowed:
                    self._fail(worker, "hung", f"no answer for {now - since:.1f} s")

    def _fail(self, worker: int, kind: str, details: str) -> None:
        """Report a fault, and replace the worker unless it has failed too often in a row."""
        event = Event(self._clock(), self.index, worker, kind, details)
        self.events.append(event)
        log.warning("%s", event)
        self.link.discard(worker)
        self._asked.pop(worker, None)
        self._faults[worker] += not (self._care.elastic and kind == "died")
        self._flights[worker] = 0
        lanes, self._lanes[worker] = self._lanes[worker], 0
        self._send(self.server.leave(*(worker + lane * self._workers for lane in range(lanes))))
        if self._faults[worker] <= self._care.restarts:
            self._incarnation[worker] += 1
            self._start(worker)
            return
        del self._incarnation[worker]
        if self._needs_all or not self._incarnation:
            who = f"worker {worker}, whose part nobody else can take over," if self._needs_all else "all workers"
            raise WorkersLost(
                f"{who} of chain {self.index} {'was' if self._needs_all else 'were'} given up after failing "
                f"{self._care.restarts + 1} times in a row; the last one {kind}: {details}"
            )


def monotonic_clock(elapsed: float = 0.0) -> Callable[[], float]:
    """Seconds since now, after those that had elapsed."""
    begun = time.perf_counter() - elapsed
    return lambda: time.perf_counter() - begun
