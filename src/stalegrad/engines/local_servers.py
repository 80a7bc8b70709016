"""Runs the servers of a job side by side in this process; ends them at the end, on a failure, on Ctrl-C or SIGTERM."""

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from stalegrad._internal.errors import StalegradError
from stalegrad.engines.base import Event, Job, Outcome, Timing
from stalegrad.engines.interrupts import stop_on_signals
from stalegrad.engines.lifecycle import FaultPolicy
from stalegrad.engines.link import Link
from stalegrad.engines.server_loop import ServerLoop, monotonic_clock
from stalegrad.engines.task import new_server
from stalegrad.protocol.chain_trace import ChainTrace


def run_servers(job: Job, link: Callable[[int], Link], policy: FaultPolicy) -> Outcome:
    """Run every server of the job in a thread of its own, with the links that ``link`` makes.

    Args:
        job: what is to be run.
        link: makes the link of server s to its workers.
        policy: what to do about workers that fail.
    """
    stop, interrupted = threading.Event(), threading.Event()
    clock = monotonic_clock(elapsed(job))
    loops = [
        server_loop(job, s, link(s), job.settings.workers, policy, stop, clock) for s in range(job.settings.servers)
    ]
    failures: list[BaseException] = []

    def serve(loop: ServerLoop) -> None:
        try:
            loop.run()
        except BaseException as failure:
            failures.append(failure)
            stop.set()

    threads = [
        threading.Thread(target=serve, args=(loop,), name=f"stalegrad-server-{loop.index}", daemon=True)
        for loop in loops
    ]
    with stop_on_signals(stop, interrupted, job.hurry):
        for thread in threads:
            thread.start()
        _join(threads, stop, interrupted)
    expected = [failure for failure in failures if isinstance(failure, StalegradError)]
    unexpected = [failure for failure in failures if not isinstance(failure, StalegradError)]
    if unexpected:
        raise unexpected[0]
    results = [ChainResult(loop.server.trace, loop.events, loop.timing) for loop in loops]
    return outcome_of(results, interrupted=interrupted.is_set(), failure=expected[0] if expected else None)


def server_loop(
    job: Job, s: int, link: Link, workers: int, policy: FaultPolicy, stop: threading.Event, clock: Callable[[], float]
) -> ServerLoop:
    """The loop of server s, in this process, before it starts."""
    checkpoint = job.checkpoint(s) if job.checkpoint else None
    return ServerLoop(s, new_server(job, s), link, workers, policy, stop, clock, checkpoint)


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
