"""Runs the services of all servers side by side; ends them at the end, on a failure, on Ctrl-C or SIGTERM."""

import threading
from collections.abc import Callable

from stalegrad.admission import Admission
from stalegrad.engines.base import Job, Outcome, Timing
from stalegrad.engines.interrupts import stop_on_signals
from stalegrad.engines.service import Care, Link, Service, monotonic_clock
from stalegrad.errors import StalegradError
from stalegrad.server import Server


def conduct(job: Job, link: Callable[[int], Link], care: Care) -> Outcome:
    """Run every server of the job in a thread of its own, with the links that ``link`` makes."""
    stop, interrupted = threading.Event(), threading.Event()
    clock = monotonic_clock(elapsed(job))
    services = [make_service(job, s, link(s), job.workers, care, stop, clock) for s in range(job.servers)]
    failures: list[BaseException] = []

    def serve(service: Service) -> None:
        try:
            service.run()
        except BaseException as failure:
            failures.append(failure)
            stop.set()

    threads = [
        threading.Thread(target=serve, args=(service,), name=f"stalegrad-server-{service.index}", daemon=True)
        for service in services
    ]
    with stop_on_signals(stop, interrupted):
        for thread in threads:
            thread.start()
        _join(threads, stop, interrupted)
    expected = [failure for failure in failures if isinstance(failure, StalegradError)]
    unexpected = [failure for failure in failures if not isinstance(failure, StalegradError)]
    if unexpected:
        raise unexpected[0]
    return Outcome(
        chains=tuple(service.server.trace for service in services),
        events=tuple(sorted((e for service in services for e in service.events), key=lambda e: e.time)),
        timing=total([service.timing for service in services]),
        interrupted=interrupted.is_set(),
        failure=expected[0] if expected else None,
    )


def make_service(
    job: Job, s: int, link: Link, workers: int, care: Care, stop: threading.Event, clock: Callable[[], float]
) -> Service:
    """The service of server s, before it starts."""
    past, batches = job.past_of(s), job.potential.minibatches
    admission = Admission(job.max_staleness, job.policy, past, job.potential.epoch)
    server = Server(job.chain(s), admission, job.steps, job.record(s), job.status[s], past, batches)
    checkpoint = job.checkpoint(s) if job.checkpoint else None
    return Service(s, server, link, workers, care, stop, clock, checkpoint)


def elapsed(job: Job) -> float:
    """The seconds of a run's past, by the clock of the chain that went on for longest."""
    return max((float(past.time[-1]) for past in job.past if past.time is not None and len(past)), default=0.0)


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


def total(timings: list[Timing]) -> Timing:
    """The timing of several services together."""
    return Timing(
        wall=max(t.wall for t in timings),
        gradients=sum(t.gradients for t in timings),
        waiting=sum(t.waiting for t in timings),
        updates=sum(t.updates for t in timings),
        count=sum(t.count for t in timings),
    )
