"""The server loop, which every real engine runs for each of its servers, whatever carries the messages.

It waits for arrivals on a :class:`stalegrad.engines.link.Link`, hands gradients to the
:class:`stalegrad.protocol.server.Server`, which holds all the sampling logic, tells the
:class:`stalegrad.engines.lifecycle.Lifecycle` what has become of workers, and carries out what both of them answer.
"""

import logging
import time
from collections.abc import Callable, Sequence
from threading import Event as Flag
from typing import Any, Protocol

from stalegrad._internal.errors import StalegradError
from stalegrad._internal.types import Array
from stalegrad.engines.base import Checkpoint, Event, Timing, keep_up
from stalegrad.engines.lifecycle import LEAST_WAIT, Abandon, Decision, FaultPolicy, Lifecycle, Replace
from stalegrad.engines.link import Arrival, Delivery, Express, Link, Ready
from stalegrad.engines.suspension import Suspension
from stalegrad.protocol.chain import Chain, diverged, is_not_finite
from stalegrad.protocol.chain_trace import ChainTrace
from stalegrad.protocol.server import Gradient

_POLL = 0.2  # seconds between looks at the stop flag and at deadlines when nothing arrives

log = logging.getLogger("stalegrad")


class WorkersLost(StalegradError, RuntimeError):
    """All workers of a chain have failed too often in a row.

    >>> import stalegrad as sg
    >>> issubclass(WorkersLost, sg.StalegradError)
    True
    """


class ServerLike(Protocol):
    """What the loop asks of a server: :class:`stalegrad.protocol.server.Server`, or an adapter of one.

    Assignments have an attribute ``worker``, the number by which link and lifecycle know the worker.
    """

    refusals: list[str]

    @property
    def chain(self) -> Chain:
        """The chain that is advanced, for checkpoints."""

    @property
    def needs_all(self) -> bool:
        """Whether each worker has a part that no other worker can take over."""

    @property
    def done(self) -> bool:
        """Whether all updates have been made."""

    @property
    def trace(self) -> ChainTrace:
        """What has happened to the chain, without the rows that have been taken."""

    @property
    def waiting(self) -> int:
        """How many rows of the trace have not been taken."""

    def take_rows(self) -> ChainTrace:
        """The rows of the trace that have come since the last time."""

    def join(self, worker: int) -> Sequence[Any]:
        """A worker is ready: the assignments to send."""

    def leave(self, worker: int) -> Sequence[Any]:
        """A worker is gone: the assignments to send."""

    def receive(self, gradient: Gradient, time: float, seconds: float, *, more: bool) -> Sequence[Any]:
        """A gradient has come, which took so many seconds: the assignments to send, unless more has come with it."""

    def point(self, worker: int) -> Array:
        """What this worker is sent with an assignment."""


class ServerLoop:
    """Runs one server until it is done or the run stops.

    Args:
        index: which server of the run this is.
        server: the server.
        link: to its workers.
        workers: W.
        policy: what to do about workers that fail.
        stop: set from outside to end early.
        clock: seconds since the run's start.
        checkpoint: saves the chain from time to time; None if nothing is to be saved.
        prepares: whether the noise of the next update is made while nothing has arrived: where a core has nothing else
            to do, it is then not made while a worker waits.
    """

    def __init__(
        self,
        index: int,
        server: ServerLike,
        link: Link,
        workers: int,
        policy: FaultPolicy,
        stop: Flag,
        clock: Callable[[], float],
        checkpoint: Checkpoint | None = None,
        prepares: bool = False,
    ) -> None:
        self.index, self.server, self.link = index, server, link
        self.lifecycle = Lifecycle(workers, policy, index, needs_all=server.needs_all)
        self.events: list[Event] = []
        self.timing = Timing()
        self._stop, self._clock, self._checkpoint = stop, clock, checkpoint
        self._prepares = prepares and server.chain.can_prepare
        self._suspension = Suspension(_POLL)
        self._diverged = False

    @property
    def trace(self) -> ChainTrace:
        """What has happened to the chain, without the rows that a checkpoint has taken over."""
        return self.server.trace

    def run(self) -> None:
        """Receive, decide, send, until the server is done."""
        begun = looked = self._clock()
        self._suspension.look(begun)
        due, pause = begun + _POLL, _POLL
        try:
            for worker in self.lifecycle.begin(begun):
                self.link.start(worker, 0)
            express = self.link.express(self.server, self.lifecycle, self._clock())
            while not self.server.done and not self._stop.is_set():
                arrival = self._next_arrival(pause)
                if arrival is not None and self.lifecycle.is_current(arrival.worker, arrival.incarnation):
                    self._handle(arrival)
                    if express is not None and express.due():
                        self._go_by(express)
                if arrival is None or self._clock() - looked > pause:
                    looked = self._clock()
                    if not self.link.lossy or looked >= due:
                        self._check_deadlines()
                        looked = self._clock()
                        due = looked + _POLL
                    if self.link.lossy:
                        pause = self._ask_again(looked)
        finally:
            now = self._clock()
            self.timing.wall = now - begun
            self.timing.damaged, self.timing.repeated, self.timing.sent_again = self.link.repairs()
            self.timing.waiting += self.lifecycle.present_seconds(now) - self.timing.gradients
            self.link.close()
            if not self._diverged:  # its last checkpoint is better than what has become of it
                keep_up(self._checkpoint, self.server, self.events, last=True)

    def _next_arrival(self, pause: float) -> Arrival | None:
        """Wait for so many seconds at most; in an idle moment the noise of the next update is made first."""
        if self._prepares:
            arrival = self.link.receive(0.0)
            if arrival is not None:
                return arrival
            self.server.chain.prepare_noise()
        return self.link.receive(pause)

    def _handle(self, arrival: Arrival) -> None:
        if isinstance(arrival, Delivery):
            self._deliver(arrival)
        elif isinstance(arrival, Ready):
            for worker in self.lifecycle.ready(arrival.worker, self._clock()):
                self._send(self.server.join(worker))
        else:
            self._fail(arrival.worker, arrival.kind, arrival.details)

    def _deliver(self, delivery: Delivery) -> None:
        begun, worker = self._clock(), delivery.worker
        refusals = len(self.server.refusals)
        if self.link.lossy:
            self.lifecycle.timed(worker, delivery.taken, begun)
        self.lifecycle.delivered(worker, begun)
        assignments = self.server.receive(delivery.gradient, begun, delivery.seconds, more=delivery.more)
        self.timing.gradients += delivery.seconds
        self.timing.count += 1
        if len(self.server.refusals) == refusals:
            self.lifecycle.usable(worker)
            self._send(assignments)
        else:
            self._send([assignment for assignment in assignments if assignment.worker != worker])
            self._fail(worker, "refused", self.server.refusals[-1])
        self.timing.updates += self._clock() - begun

    def _go_by(self, express: Express) -> None:
        """Let gradients be dealt with elsewhere while they come fast."""
        count, computing, seconds = express.run()
        self.timing.count += count
        self.timing.gradients += computing
        self.timing.updates += seconds if count else 0.0

    def _send(self, assignments: Sequence[Any]) -> None:
        for assignment in assignments:
            worker = assignment.worker
            self.lifecycle.assigned(worker, self._clock())
            self.link.send(assignment, self.server.point(worker))

    def _check_deadlines(self) -> None:
        now = self._clock()
        if missed := self._suspension.look(now):
            self.lifecycle.suspended(missed)
        for worker, incarnation, age in self.link.last_seen():
            if self.lifecycle.is_current(worker, incarnation):
                self.lifecycle.heartbeat(worker, now - max(0.0, age - missed))
        for decision in self.lifecycle.tick(now):
            self._carry_out(decision)
        keep_up(self._checkpoint, self.server, self.events)

    def _ask_again(self, now: float) -> float:
        """Ask for answers that may have got lost; the seconds until there may be more of them."""
        for worker in self.lifecycle.overdue(now):
            self.link.send_again(worker)
        return min(_POLL, max(LEAST_WAIT, self.lifecycle.next_overdue() - now))

    def _fail(self, worker: int, kind: str, details: str) -> None:
        lost = kind == "refused" and is_not_finite(details) and self.server.chain.version > 0
        self._carry_out(self.lifecycle.failed(worker, kind, details, self._clock(), not_finite=lost))

    def _carry_out(self, decision: Decision) -> None:
        """Report a fault, take its worker out, and start another or end the run."""
        worker, kind, details = decision.fault
        event = Event(self._clock(), self.index, worker, kind, details)
        self.events.append(event)
        if self.lifecycle.first_not_finite:  # others of a row say nothing new
            log.warning("%s", event)
        self.link.discard(worker, kind)
        self._send(self.server.leave(worker))
        if isinstance(decision, Replace):
            self.link.start(worker, decision.incarnation)
        elif isinstance(decision, Abandon):
            self._diverged = decision.diverged
            if decision.diverged:
                raise diverged(self.index, self.server.chain.version, decision.reason)
            raise WorkersLost(decision.reason)


def monotonic_clock(elapsed: float = 0.0) -> Callable[[], float]:
    """A clock that shows the seconds since now, after those that had elapsed."""
    begun = time.perf_counter() - elapsed
    return lambda: time.perf_counter() - begun
