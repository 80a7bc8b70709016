"""A server's rank: its service, and what servers and rank 0 tell each other while the run goes on and at its end."""

import sys
import threading
import time
import traceback
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, fields
from typing import TYPE_CHECKING, Any

import numpy as np

from stalegrad.engines.base import Event, Job, Outcome, Recording, Timing
from stalegrad.engines.conductor import elapsed, make_service, total
from stalegrad.engines.interrupts import stop_on_signals
from stalegrad.engines.service import Care, Link, Service, WorkersLost, monotonic_clock
from stalegrad.engines.waiting import Doze
from stalegrad.errors import GradientError, StalegradError, StoreError
from stalegrad.server import ChainStatus
from stalegrad.trace import ChainTrace
from stalegrad.types import Array

if TYPE_CHECKING:
    from stalegrad.engines.mpi.channel import Channel

_STATUS, _ORDER, _REPORT = 2, 3, 4  # tags
_EVERY = 0.25  # seconds between words on how a chain is doing
_RUNNING, _TROUBLE, _OVER, _BROKEN = range(4)  # how a server is doing: in trouble it stops, and so do all others
_FIGURES = [f.name for f in fields(ChainStatus)]
_ERRORS: dict[str, type[StalegradError]] = {e.__name__: e for e in (WorkersLost, StoreError, GradientError)}


class RankFailed(StalegradError, RuntimeError):
    """Something unforeseen has happened on another rank; its traceback is in the message."""


class Outpost:
    """What the rank of a server other than 0 has to do with rank 0: tell how it is doing, and stop when told to."""

    def __init__(self, channel: "Channel", status: ChainStatus, stop: threading.Event) -> None:
        self._channel, self._status, self._stop = channel, status, stop
        self._word, self._order = np.zeros(len(_FIGURES) + 1, np.int64), np.zeros(1, np.int64)
        self._telling = channel.sender(0, _STATUS, self._word)
        self._listening = channel.receiver(0, _ORDER, self._order)
        self._told, self._ordered = 0.0, False
        channel.start(self._listening)

    def look(self) -> None:
        """Called from time to time."""
        if not self._ordered and self._channel.done(self._listening):
            self._ordered = True
            self._stop.set()
        if time.perf_counter() - self._told > _EVERY and self._channel.done(self._telling):
            self._tell(_TROUBLE if self._stop.is_set() else _RUNNING)

    def conclude(self, report: "Report", drawn: Sequence[Array]) -> None:
        """Hand in the report, and the draws unless they are on disk."""
        self._channel.wait(self._telling)
        self._tell(_BROKEN if self._stop.is_set() else _OVER)
        self._channel.wait(self._telling)
        report.send(self._channel)
        for array in drawn:
            self._channel.send(0, _REPORT, array)
        self._channel.wait(self._listening)  # there always is an order, sooner or later
        self._channel.give_back(self._telling, self._listening)

    def _tell(self, state: int) -> None:
        self._word[:] = [*(getattr(self._status, name) for name in _FIGURES), state]
        self._channel.start(self._telling)
        self._told = time.perf_counter()


class Headquarters:
    """What rank 0 has to do with the other servers: hear how they are doing, and stop all if one of them must stop."""

    def __init__(self, channel: "Channel", statuses: tuple[ChainStatus, ...], stop: threading.Event) -> None:
        self._channel, self._statuses, self._stop = channel, statuses, stop
        self._words = {s: np.zeros(len(_FIGURES) + 1, np.int64) for s in range(1, len(statuses))}
        self._hearing = {s: channel.receiver(s, _STATUS, word) for s, word in self._words.items()}
        self._running = set(self._words)
        self._orders: list[Any] = []
        for request in self._hearing.values():
            channel.start(request)

    def look(self) -> None:
        """Called from time to time."""
        for s in sorted(self._running):
            if self._channel.done(self._hearing[s]):
                *figures, state = self._words[s].tolist()
                for name, figure in zip(_FIGURES, figures, strict=True):
                    setattr(self._statuses[s], name, figure)
                if state in (_TROUBLE, _BROKEN):
                    self._stop.set()
                if state in (_OVER, _BROKEN):
                    self._running.discard(s)
                else:
                    self._channel.start(self._hearing[s])
        if self._stop.is_set():
            self._order()

    def conclude(self, recording: Recording) -> "list[Report]":
        """Wait for the others and take their reports and draws."""
        Doze(self._all_over)()
        reports = []
        for s in self._words:
            report = Report.receive(self._channel, s)
            for array in recording.reserve(s, report.kept):
                self._channel.receive(s, _REPORT, array)
            reports.append(report)
        self._order()
        for request in self._orders:
            self._channel.wait(request)
        self._channel.give_back(*self._hearing.values())
        return reports

    def _all_over(self) -> bool:
        self.look()
        return not self._running

    def _order(self) -> None:
        """Tell all others to stop; once."""
        if not self._orders:
            self._orders = [self._channel.post(s, _ORDER, np.ones(1, np.int64)) for s in self._words]


@dataclass(frozen=True)
class Report:
    """What became of a server.

    Args:
        trace: of its chain.
        events: faults of its workers.
        timing: where the time went.
        interrupted: whether a signal reached it.
        problem: the type and the words of what ended it early.
        kept: how many draws are to follow.
    """

    trace: ChainTrace
    events: tuple[Event, ...]
    timing: Timing
    interrupted: bool
    problem: tuple[str, str] | None
    kept: int

    def send(self, channel: "Channel") -> None:
        """Hand it to rank 0."""
        facts, arrays = self.parts()
        channel.send_facts(0, _REPORT, facts, arrays)

    @classmethod
    def receive(cls, channel: "Channel", server: int) -> "Report":
        """Take it from a server."""
        return cls.whole(*channel.receive_facts(server, _REPORT))

    def parts(self) -> tuple[dict[str, Any], list[Array]]:
        """As plain data and arrays."""
        columns = {name: column for name, column in self.trace.columns().items() if column is not None}
        facts = {
            "columns": list(columns), "events": [asdict(event) for event in self.events], "timing": asdict(self.timing),
            "interrupted": self.interrupted, "problem": self.problem, "kept": self.kept,
        }  # fmt: skip
        return facts, list(columns.values())

    @classmethod
    def whole(cls, facts: dict[str, Any], arrays: list[Array]) -> "Report":
        """From its parts."""
        events = tuple(Event(**event) for event in facts["events"])
        trace = ChainTrace(**dict(zip(facts["columns"], arrays, strict=True)))
        problem = facts["problem"] and tuple(facts["problem"])
        return cls(trace, events, Timing(**facts["timing"]), facts["interrupted"], problem, facts["kept"])


def serve(
    job: Job,
    channel: "Channel",
    server: int,
    link: Callable[[Callable[[], None]], Link],
    workers: int,
    care: Care,
) -> list[Report]:
    """Run a server to its end. The reports of all servers on rank 0, on others their own.

    Args:
        job: the job.
        channel: between the ranks.
        server: which one.
        link: makes the link to the workers, given what is to be done beside waiting for them.
        workers: how many there are.
        care: what to do about workers that fail.
    """
    stop, interrupted = threading.Event(), threading.Event()
    post: Headquarters | Outpost
    post = Outpost(channel, job.status[server], stop) if server else Headquarters(channel, job.status, stop)
    recording = job.recording
    assert recording is not None, "jobs that come from sample have one"
    with stop_on_signals(stop, interrupted):
        service = make_service(job, server, link(post.look), workers, care, stop, monotonic_clock(elapsed(job)))
        failure = _run(service)
        if failure is not None:
            stop.set()
        failure = failure or recording.settle()
        drawn = recording.arrays(server)
        report = Report(
            service.server.trace, tuple(service.events), service.timing, interrupted.is_set(),
            None if failure is None else _described(failure, server), len(drawn[0]) if drawn else 0,
        )  # fmt: skip
        if isinstance(post, Outpost):
            post.conclude(report, drawn)
            return [report]
        return [report, *post.conclude(recording)]


def outcome(reports: list[Report]) -> Outcome:
    """What became of the run."""
    problems = [report.problem for report in reports if report.problem is not None]
    return Outcome(
        chains=tuple(report.trace for report in reports),
        events=tuple(sorted((e for report in reports for e in report.events), key=lambda e: e.time)),
        timing=total([report.timing for report in reports]),
        interrupted=any(report.interrupted for report in reports),
        failure=_ERRORS.get(problems[0][0], RankFailed)(problems[0][1]) if problems else None,
    )


def _run(service: Service) -> Exception | None:
    try:
        service.run()
    except Exception as failure:
        return failure
    return None


def _described(failure: Exception, server: int) -> tuple[str, str]:
    if isinstance(failure, StalegradError):
        return type(failure).__name__, str(failure)
    text = "".join(traceback.format_exception(failure))
    print(f"rank {server}, the server of chain {server}, has failed:\n{text}", file=sys.stderr, flush=True)
    return "RankFailed", f"rank {server}, the server of chain {server}, has failed: {text}"
