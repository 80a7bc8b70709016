"""The life of a server's workers: every state, every transition and every deadline of them is in this file.

Events go in, decisions come out; no clock, no threads, no messages. The server loop
(:mod:`stalegrad.engines.server_loop`) reports what has happened and carries out what is decided.

    begin ─▶ starting ──ready──▶ ready ──assigned──▶ computing ──delivered──▶ ready …
                 ▲                 └─────────┬───────────┘
                 └──── replaced ◀── failed, hung or silent ──▶ given up

A worker that fails is replaced, as its next *incarnation*, unless it has failed too often in a row. Whatever an earlier
incarnation still sends is not current and must not be looked at.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum
from math import inf
from typing import NamedTuple

from stalegrad._internal.validation import real_number, whole_number
from stalegrad.engines.resend_timer import ResendTimer

LEAST_WAIT = 2e-3
"""Seconds after which an answer may be asked for again, at least, however fast answers are."""
_FIRST_WAIT = 0.25  # seconds, while nothing is known of a worker
_OFTEN = 4  # times that an answer is asked for before the patience with it ends


class State(Enum):
    """Where a worker is in its life."""

    STARTING = "starting"
    READY = "ready"
    COMPUTING = "computing"
    GIVEN_UP = "given up"


@dataclass(frozen=True)
class FaultPolicy:
    """When a worker counts as failed, and how often it is replaced.

    Args:
        patience: seconds after which a worker that does not answer counts as hung; None waits for ever.
        restarts: how often in a row a worker may fail, without a good gradient in between, before it is given up.
        start: seconds that a worker may take to start, however short the patience with its gradients is; None for as
            long as it takes.
        silence: seconds without a heartbeat after which a worker that has sent one counts as dead; None for links
            without heartbeats.
        elastic: whether workers come and go as they please: then one that dies has not failed.

    >>> FaultPolicy(patience=60.0).restarts
    3
    """

    patience: float | None = None
    restarts: int = 3
    start: float | None = 60.0
    silence: float | None = None
    elastic: bool = False

    def __post_init__(self) -> None:
        whole_number("restarts", self.restarts)
        if self.patience is not None:
            real_number("patience", self.patience, above=0)


class Fault(NamedTuple):
    """What went wrong with a worker, see :class:`stalegrad.engines.base.Event` for the kinds."""

    worker: int
    kind: str
    details: str


class Replace(NamedTuple):
    """Decision: drop the worker and start it again, as this incarnation."""

    fault: Fault
    incarnation: int


class GiveUp(NamedTuple):
    """Decision: drop the worker for good; the others carry on."""

    fault: Fault


class Abandon(NamedTuple):
    """Decision: drop the worker for good, and end the chain, which cannot go on without it; with the reason.

    ``diverged`` if the fault is the chain's own.
    """

    fault: Fault
    reason: str
    diverged: bool = False


Decision = Replace | GiveUp | Abandon


class _Worker:
    """What is known of one worker."""

    __slots__ = (
        "asked", "assignments", "faults", "heartbeat", "incarnation", "present_since", "since", "state", "timer",
    )  # fmt: skip

    def __init__(self) -> None:
        self.state = State.STARTING
        self.incarnation = 0
        self.faults = 0  # in a row
        self.assignments = 0  # sent and not answered
        self.since: float | None = None  # from when its patience counts: something is expected of it
        self.asked = 0  # how often the answer that is expected was asked for again
        self.timer = ResendTimer(_FIRST_WAIT, LEAST_WAIT)
        self.heartbeat: float | None = None  # the latest of this incarnation
        self.present_since: float | None = None  # when its first incarnation was ready


class Lifecycle:
    """The workers of one server.

    Args:
        workers: W.
        policy: when a worker counts as failed, and how often it is replaced.
        chain: the number of the server's chain, for reasons.
        needs_all: whether each worker has something that no other can take over, such as a shard of the data: then
            no worker is given work before all are ready, and the chain ends with the first that is given up.

    >>> workers = Lifecycle(2, FaultPolicy(restarts=3))
    >>> workers.begin(now=0.0)
    [0, 1]
    >>> workers.ready(0, now=0.1)
    [0]
    >>> workers.assigned(0, now=0.1)
    >>> workers.failed(0, "raised", "a traceback", now=0.5)
    Replace(fault=Fault(worker=0, kind='raised', details='a traceback'), incarnation=1)
    """

    def __init__(self, workers: int, policy: FaultPolicy, chain: int = 0, *, needs_all: bool = False) -> None:
        self._policy, self._chain, self._needs_all = policy, chain, needs_all
        self._incomplete = needs_all  # not all of those who are needed have been ready yet
        self._workers = [_Worker() for _ in range(workers)]
        self._not_finite: list[int] = []  # who has sent such a gradient since the last one that could be used

    def begin(self, now: float) -> list[int]:
        """The run begins: the workers to start, as incarnation 0."""
        for worker in self._workers:
            worker.since = now
        return list(range(len(self._workers)))

    def is_current(self, worker: int, incarnation: int) -> bool:
        """Whether this incarnation of a worker is the present one, so that what it sends counts."""
        known = self._workers[worker]
        return known.incarnation == incarnation and known.state is not State.GIVEN_UP

    def ready(self, worker: int, now: float) -> list[int]:
        """A worker has started, or can take more: the workers that may be given work now."""
        known = self._workers[worker]
        if known.state is State.STARTING:
            known.state = State.READY
            known.since = None
        if known.present_since is None:
            known.present_since = now
        if not self._incomplete:
            return [worker]
        if any(other.state is State.STARTING for other in self._workers):
            return []
        self._incomplete = False
        return list(range(len(self._workers)))

    def assigned(self, worker: int, now: float) -> None:
        """A worker is sent an assignment, perhaps one more."""
        known = self._workers[worker]
        known.state = State.COMPUTING
        known.assignments += 1
        known.since, known.asked = now, 0

    def delivered(self, worker: int, now: float) -> None:
        """A worker has answered an assignment. Whether it could be used is reported by :meth:`usable`."""
        known = self._workers[worker]
        if known.assignments > 1:
            known.assignments -= 1
            known.since = now
        elif known.state is State.COMPUTING:
            known.state, known.assignments, known.since = State.READY, 0, None

    def timed(self, worker: int, taken: float, now: float) -> None:
        """A worker answers, so many seconds after it was sent what it answers: for :meth:`overdue`.

        Called before :meth:`delivered`. Time in which nobody looked (:meth:`suspended`) does not count.
        """
        known = self._workers[worker]
        if known.since is not None:
            known.timer.note(min(taken, now - known.since))

    def exchanged(self, worker: int, answers: int, seconds: float, since: float | None) -> None:
        """A worker has answered several assignments, all of them usable, and has the next one since then, if any.

        Args:
            worker: which one.
            answers: how many.
            seconds: that an answer took on average.
            since: when it was sent its next assignment; None if it was sent none.
        """
        known = self._workers[worker]
        known.timer.note(seconds, answers)
        self.usable(worker)
        known.asked, known.since = 0, since
        known.state, known.assignments = (State.READY, 0) if since is None else (State.COMPUTING, 1)

    def usable(self, worker: int) -> None:
        """What a worker delivered could be used: its earlier faults no longer count."""
        self._workers[worker].faults = 0
        if self._not_finite:
            self._not_finite.clear()

    def heartbeat(self, worker: int, when: float) -> None:
        """A worker has given a sign of life; from its first one on, its silence is noticed."""
        known = self._workers[worker]
        known.heartbeat = when if known.heartbeat is None else max(when, known.heartbeat)

    def failed(self, worker: int, kind: str, details: str, now: float, *, not_finite: bool = False) -> Decision:
        """A worker has failed: what becomes of it.

        A gradient that is ``not_finite`` may be the fault of the chain, which has diverged. It is, where all who are
        there have sent such gradients, more often than a worker may fail, and none that could be used in between.
        """
        known, fault = self._workers[worker], Fault(worker, kind, details)
        if not_finite:
            self._not_finite.append(worker)
            if len(self._not_finite) > self._policy.restarts and self._present <= set(self._not_finite):
                known.state, known.since = State.GIVEN_UP, None
                return Abandon(fault, details, diverged=True)
        known.faults += not (self._policy.elastic and kind == "died")
        known.assignments, known.asked, known.heartbeat = 0, 0, None
        if known.faults <= self._policy.restarts:
            known.state, known.since = State.STARTING, now
            known.incarnation += 1
            return Replace(fault, known.incarnation)
        known.state, known.since = State.GIVEN_UP, None
        if not self._needs_all and any(other.state is not State.GIVEN_UP for other in self._workers):
            return GiveUp(fault)
        return Abandon(fault, self._reason(fault))

    def tick(self, now: float) -> Iterator[Decision]:
        """Time has passed: what becomes of workers that are late or silent, one at a time."""
        patience, silence = self._policy.patience, self._policy.silence
        for number, worker in enumerate(self._workers):
            if silence is not None and worker.heartbeat is not None and now - worker.heartbeat > silence:
                yield self.failed(number, "died", f"no sign of life for {now - worker.heartbeat:.1f} s", now)
            elif patience is not None and worker.since is not None and now - worker.since > self._allowed(worker):
                yield self.failed(number, "hung", f"no answer for {now - worker.since:.1f} s", now)

    def overdue(self, now: float) -> list[int]:
        """The workers whose answer is to be asked for again: either it has got lost, or the question has.

        The first time when it takes longer than answers do (:class:`~stalegrad.engines.resend_timer.ResendTimer`), then
        after twice as long, and so on.
        """
        late = []
        for number, worker in enumerate(self._workers):
            if worker.since is not None and now >= worker.since + self._wait(worker):
                worker.asked += 1
                late.append(number)
        return late

    def next_overdue(self) -> float:
        """When the next answer will have to be asked for again."""
        return min((w.since + self._wait(w) for w in self._workers if w.since is not None), default=inf)

    def suspended(self, seconds: float) -> None:
        """Nobody has looked for answers for so long: it does not count against the workers."""
        for worker in self._workers:
            if worker.since is not None:
                worker.since += seconds
            if worker.heartbeat is not None:
                worker.heartbeat += seconds

    def state(self, worker: int) -> State:
        """Where a worker is in its life."""
        return self._workers[worker].state

    @property
    def absent(self) -> int:
        """How many workers were to start and have given no sign of life yet."""
        return sum(worker.state is State.STARTING and worker.heartbeat is None for worker in self._workers)

    @property
    def _present(self) -> set[int]:
        """Those who have been ready, and are not given up."""
        there = (n for n, w in enumerate(self._workers) if w.present_since is not None)
        return {n for n in there if self._workers[n].state is not State.GIVEN_UP}

    @property
    def first_not_finite(self) -> bool:
        """Whether the gradient that failed last is the first of a row that are not finite."""
        return len(self._not_finite) < 2

    def present_seconds(self, now: float) -> float:
        """Seconds since each worker was first ready, summed over workers."""
        return sum(now - worker.present_since for worker in self._workers if worker.present_since is not None)

    def _wait(self, worker: _Worker) -> float:
        """Seconds after which an answer is asked for again."""
        wait = _FIRST_WAIT if worker.state is State.STARTING else worker.timer.wait
        if self._policy.patience is not None:
            wait = min(wait, self._policy.patience / 2**_OFTEN)
        return float(max(wait, LEAST_WAIT) * 2**worker.asked)

    def _allowed(self, worker: _Worker) -> float:
        """Seconds that a worker may take for what is expected of it."""
        assert self._policy.patience is not None
        if worker.state is not State.STARTING:
            return self._policy.patience
        return inf if self._policy.start is None else max(self._policy.patience, self._policy.start)

    def _reason(self, fault: Fault) -> str:
        times = f"given up after failing {self._policy.restarts + 1} times in a row"
        who = f"worker {fault.worker}, whose part no other worker can take over," if self._needs_all else "all workers"
        verb = "was" if self._needs_all else "were"
        return f"{who} of chain {self._chain} {verb} {times}; the last one {fault.kind}: {fault.details}"
