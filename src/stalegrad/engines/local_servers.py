"""Runs the servers of a job side by side in this process; ends them at the end, on a failure, on Ctrl-C or SIGTERM."""

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from stalegrad._internal.errors import StalegradError
from stalegrad.engines.base import Event, Job, Outcome, Timing
from stalegrad.engines.interrupts import stop_on_signals
from stalegrad.engines.lifecycle import FaultPolicy
from stalegrad.engines.link import Link
from stalegrad.engines.server_loop import ServerLoop, monotonic_clock
from stalegrad.engines.task import new_server
from stalegrad.engines.team import available_cores
from stalegrad.protocol.chain import Chain, Record
from stalegrad.protocol.chain_trace import ChainTrace

LEAST_PARAMETERS = 20_000
"""Noise of fewer takes less time than looking for arrivals once more."""


class Serving(Protocol):
    """Whatever advances one chain of a job until it is done: a server loop, or what takes its place."""

    index: int
    """Which server of the job it is."""
    events: list[Event]
    """Faults of its workers."""
    timing: Timing
    """Where the seconds went."""

    @property
    def trace(self) -> ChainTrace:
        """What has happened to the chain, without the rows that a checkpoint has taken over."""
        ...

    def run(self) -> None:
        """Advance the chain until its last update, or until the run stops."""
        ...


def run_servers(job: Job, link: Callable[[int], Link], policy: FaultPolicy) -> Outcome:
    """Run every server of the job in a thread of its own, with the links that ``link`` makes.

    Args:
        job: what is to be run.
        link: makes the link of server s to its workers.
        policy: what to do about workers that fail.
    """
    workers = job.settings.workers
    return run_side_by_side(job, lambda s, stop, clock: server_loop(job, s, link(s), workers, policy, stop, clock))


def run_side_by_side(job: Job, make: Callable[[int, threading.Event, Callable[[], float]], Serving]) -> Outcome:
    """Run whatever ``make`` makes for each server of the job, in a thread of its own.

    Args:
        job: what is to be run.
        make: called with the number of the server, what is set to end the run early, and the run's clock.
    """
    stop, interrupted = threading.Event(), threading.Event()
    clock = monotonic_clock(elapsed(job))
    loops = [make(s, stop, clock) for s in range(job.settings.servers)]
    failures: list[BaseException] = []

    def serve(loop: Serving) -> None:
        try:
            loop.run()
        except BaseException as failure:
            failures.append(failure)
            stop.set()

    threads = [
        threading.Thread(target=serve, args=(loop,), name=f"stalegrad-server-{loop.index}", daemon=True)
        for loop in loops
    ]
    with stop_on_signals(stop, interrupted, job.hurry, job.stop_requests):
        for thread in threads:
            thread.start()
        _join(threads, stop, interrupted)
    expected = [failure for failure in failures if isinstance(failure, StalegradError)]
    unexpected = [failure for failure in failures if not isinstance(failure, StalegradError)]
    if unexpected:
        raise unexpected[0]
    results = [ChainResult(loop.trace, loop.events, loop.timing) for loop in loops]
    return outcome_of(results, interrupted=interrupted.is_set(), failure=expected[0] if expected else None)


def server_loop(
    job: Job,
    s: int,
    link: Link,
    workers: int,
    policy: FaultPolicy,
    stop: threading.Event,
    clock: Callable[[], float],
    made: tuple[Chain, Record] | None = None,
) -> ServerLoop:
    """The loop of server s, in this process, before it starts; with its chain and record, if they are there already."""
    checkpoint = job.checkpoint(s) if job.checkpoint else None
    server = new_server(job, s, made)
    loop = ServerLoop(s, server, link, workers, policy, stop, clock, checkpoint, _may_prepare(job, workers))
    job.status[s].faults = loop.events
    return loop


def _may_prepare(job: Job, workers: int) -> bool:
    """Whether noise may be made in idle moments: there is enough of it, and a core for every server and worker.

    Otherwise a worker's gradient would have to wait for it.
    """
    cores = available_cores() if job.team is None else job.team.cores
    return job.potential.size >= LEAST_PARAMETERS and job.settings.servers * (1 + workers) <= cores


def elapsed(job: Job) -> float:
    """The seconds of a run's past, by the clock of the chain that went on for longest."""
    return max((past.seconds for past in job.past), default=0.0)


@dataclass(frozen=True)
class ChainResult:
    """What became of one chain, wherever its server ran.

    Args:
        trace: of the chain, without the rows that a checkpoint has taken over.
        events: faults of its workers, and of servers elsewhere.
        timing: where the seconds of its server and its workers went.
    """

    trace: ChainTrace
    events: Sequence[Event]
    timing: Timing


def outcome_of(results: Sequence[ChainResult], *, interrupted: bool, failure: StalegradError | None) -> Outcome:
    """The outcome of a run out of what became of its chains."""
    return Outcome(
        chains=tuple(result.trace for result in results),
        events=tuple(sorted((event for result in results for event in result.events), key=lambda e: e.time)),
        timing=total([result.timing for result in results]),
        interrupted=interrupted,
        failure=failure,
    )


def _join(threads: list[threading.Thread], stop: threading.Event, interrupted: threading.Event) -> None:
    """Wait for all. Where no handler could be installed, Ctrl-C arrives here as an exception."""
    while any(thread.is_alive() for thread in threads):
        try:
            for thread in threads:
                thread.join(0.5)
        except KeyboardInterrupt:
            if stop.is_set():
                raise
            interrupted.set()
            stop.set()


def total(timings: Sequence[Timing]) -> Timing:
    """The timing of several servers together, which ran side by side."""
    return Timing(
        wall=max(t.wall for t in timings),
        gradients=sum(t.gradients for t in timings),
        waiting=sum(t.waiting for t in timings),
        updates=sum(t.updates for t in timings),
        count=sum(t.count for t in timings),
        damaged=sum(t.damaged for t in timings),
        repeated=sum(t.repeated for t in timings),
        sent_again=sum(t.sent_again for t in timings),
    )
