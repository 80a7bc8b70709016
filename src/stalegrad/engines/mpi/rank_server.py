"""A server's rank: its loop, and the messages between servers and rank 0 while the run goes on and at its end."""

import sys
import threading
import time
import traceback
from collections.abc import Callable, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import numpy as np

from stalegrad._internal.errors import GradientError, NotFinite, StalegradError, StoreError
from stalegrad._internal.types import Array
from stalegrad.engines.base import Event, Job, Recording, Timing
from stalegrad.engines.interrupts import stop_on_signals
from stalegrad.engines.lifecycle import FaultPolicy
from stalegrad.engines.link import Link
from stalegrad.engines.local_servers import elapsed, server_loop
from stalegrad.engines.reports import Report, Snapshot
from stalegrad.engines.server_loop import ServerLoop, WorkersLost, monotonic_clock
from stalegrad.engines.waiting import PollingSleep
from stalegrad.protocol.chain_trace import unchecked
from stalegrad.protocol.server import FIGURES, ChainStatus

if TYPE_CHECKING:
    from stalegrad.engines.mpi.channel import Channel

_STATUS, _STOP, _REPORT = 2, 3, 4  # tags
_EVERY = 0.25  # seconds between two messages on how a chain is doing
_RUNNING, _STOPPING, _ENDED, _FAILED = range(4)  # how a server is doing: where one is stopping or has failed, all stop
_ERRORS: dict[str, type[StalegradError]] = {e.__name__: e for e in (WorkersLost, StoreError, GradientError, NotFinite)}


class RankFailed(StalegradError, RuntimeError):
    """Something unforeseen has happened on another rank; its traceback is in the message."""


class StatusSender:
    """What the rank of a server other than 0 exchanges with rank 0: its status, and the order to stop."""

    def __init__(self, channel: "Channel", status: ChainStatus, stop: threading.Event) -> None:
        self._channel, self._status, self._stop = channel, status, stop
        self._figures, self._order = np.zeros(len(FIGURES) + 1, np.int64), np.zeros(1, np.int64)
        self._sending = channel.sender(0, _STATUS, self._figures)
        self._receiving = channel.receiver(0, _STOP, self._order)
        self._sent, self._ordered = 0.0, False
        channel.start(self._receiving)

    def poll(self) -> None:
        """Stop if that was ordered, and send the status if it is time; called from time to time."""
        if not self._ordered and self._channel.done(self._receiving):
            self._ordered = True
            self._stop.set()
        if time.perf_counter() - self._sent > _EVERY and self._channel.done(self._sending):
            self._send(_STOPPING if self._stop.is_set() else _RUNNING)

    def conclude(self, report: Report, drawn: Sequence[Array]) -> None:
        """Send the last report, and the draws unless they are on disk."""
        self._channel.wait(self._sending)
        self._send(_FAILED if self._stop.is_set() else _ENDED)
        self._channel.wait(self._sending)
        self._channel.send_facts(0, _REPORT, *encoded(report, drawn))
        for array in drawn:
            self._channel.send(0, _REPORT, array)
        self._channel.wait(self._receiving)  # there always is an order, sooner or later
        self._channel.free_requests(self._sending, self._receiving)

    def _send(self, state: int) -> None:
        self._figures[:] = [*self._status.figures().values(), state]
        self._channel.start(self._sending)
        self._sent = time.perf_counter()


class StatusCollector:
    """What rank 0 exchanges with the other servers: their status, and the order to stop if one of them must stop."""

    def __init__(self, channel: "Channel", statuses: tuple[ChainStatus, ...], stop: threading.Event) -> None:
        self._channel, self._statuses, self._stop = channel, statuses, stop
        self._figures = {s: np.zeros(len(FIGURES) + 1, np.int64) for s in range(1, len(statuses))}
        self._receiving = {s: channel.receiver(s, _STATUS, figures) for s, figures in self._figures.items()}
        self._running = set(self._figures)
        self._orders: list[Any] = []
        for request in self._receiving.values():
            channel.start(request)

    def poll(self) -> None:
        """Take over what the others have sent, and have all stop if one must; called from time to time."""
        for s in sorted(self._running):
            if self._channel.done(self._receiving[s]):
                *figures, state = self._figures[s].tolist()
                self._statuses[s].show(dict(zip(FIGURES, figures, strict=True)))
                if state in (_STOPPING, _FAILED):
                    self._stop.set()
                if state in (_ENDED, _FAILED):
                    self._running.discard(s)
                else:
                    self._channel.start(self._receiving[s])
        if self._stop.is_set():
            self._order_stop()

    def conclude(self, recording: Recording) -> list[Report]:
        """Wait for the others and take their last reports and draws."""
        PollingSleep(self._all_ended)()
        reports = []
        for s in self._figures:
            report, kept = decoded(*self._channel.receive_facts(s, _REPORT))
            for array in recording.reserve(s, kept):
                self._channel.receive(s, _REPORT, array)
            reports.append(report)
        self._order_stop()
        for request in self._orders:
            self._channel.wait(request)
        self._channel.free_requests(*self._receiving.values())
        return reports

    def _all_ended(self) -> bool:
        self.poll()
        return not self._running

    def _order_stop(self) -> None:
        """Send all others the order to stop; once."""
        if not self._orders:
            self._orders = [self._channel.post(s, _STOP, np.ones(1, np.int64)) for s in self._figures]


def encoded(report: Report, drawn: Sequence[Array]) -> tuple[dict[str, Any], list[Array]]:
    """A last report as plain data and arrays, which is what ranks send each other; draws follow it by themselves."""
    snapshot, failure = report.snapshot, report.failure
    assert snapshot is not None, "a last report has the whole chain"
    columns = {name: column for name, column in snapshot.rows.columns().items() if column is not None}
    facts = {
        "columns": list(columns), "events": [asdict(event) for event in snapshot.events], "version": snapshot.version,
        "timing": asdict(report.timing), "status": report.status.figures(), "interrupted": report.interrupted,
        "failure": None if failure is None else (type(failure).__name__, str(failure)),
        "kept": len(drawn[0]) if drawn else 0,
    }  # fmt: skip
    return facts, list(columns.values())


def decoded(facts: dict[str, Any], arrays: list[Array]) -> tuple[Report, int]:
    """A last report out of plain data and arrays, and how many draws follow it."""
    events = tuple(Event(**event) for event in facts["events"])
    trace = unchecked(**dict(zip(facts["columns"], arrays, strict=True)))
    failure = None
    if facts["failure"] is not None:
        kind, words = facts["failure"]
        failure = _ERRORS.get(kind, RankFailed)(words)
    snapshot = Snapshot(0, facts["version"], {}, trace, None, events)
    report = Report(
        ChainStatus(**facts["status"]), Timing(**facts["timing"]), snapshot, True, failure,
        interrupted=facts["interrupted"],
    )  # fmt: skip
    return report, facts["kept"]


def serve(
    job: Job,
    channel: "Channel",
    server: int,
    link: Callable[[Callable[[], None]], Link],
    workers: int,
    policy: FaultPolicy,
) -> list[Report]:
    """Run a server to its end. The last reports of all servers on rank 0, on others their own.

    Args:
        job: the job.
        channel: between the ranks.
        server: which one.
        link: makes the link to the workers, given what is to be polled while waiting for them.
        workers: how many there are.
        policy: what to do about workers that fail.
    """
    stop, interrupted = threading.Event(), threading.Event()
    run: StatusCollector | StatusSender
    run = StatusSender(channel, job.status[server], stop) if server else StatusCollector(channel, job.status, stop)
    recording = job.recording
    assert recording is not None, "jobs that come from sample have one"
    with stop_on_signals(stop, interrupted, job.hurry, job.stop_requests):
        loop = server_loop(job, server, link(run.poll), workers, policy, stop, monotonic_clock(elapsed(job)))
        failure = _run(loop)
        if failure is not None:
            stop.set()
        failure = failure or recording.settle()
        version, trace, events = loop.server.chain.version, loop.server.trace, tuple(loop.events)
        report = Report(
            job.status[server], loop.timing, Snapshot(0, version, {}, trace, None, events), True,
            None if failure is None else _known(failure, server), interrupted=interrupted.is_set(),
        )  # fmt: skip
        if isinstance(run, StatusSender):
            run.conclude(report, recording.arrays(server))
            return [report]
        return [report, *run.conclude(recording)]


def _run(loop: ServerLoop) -> Exception | None:
    try:
        loop.run()
    except Exception as failure:
        return failure
    return None


def _known(failure: Exception, server: int) -> StalegradError:
    """A failure as rank 0 may raise it: one that was not foreseen with its traceback, which is printed here, too."""
    if isinstance(failure, StalegradError):
        return _ERRORS.get(type(failure).__name__, RankFailed)(str(failure))
    text = f"rank {server}, the server of chain {server}, has failed: "
    details = "".join(traceback.format_exception(failure))
    print(f"{text}\n{details}", file=sys.stderr, flush=True)
    return RankFailed(f"{text}{details}")
