"""The worker loop, which every real engine runs in each of its workers: wait for work, compute, deliver.

What carries the messages is a :class:`WorkerLink`, the worker's end of a :class:`stalegrad.engines.link.Link`.
"""

import time
import traceback
from typing import NamedTuple, Protocol

from stalegrad._internal.types import Array
from stalegrad.protocol.worker import Worker


class Work(NamedTuple):
    """A minibatch to compute: by which worker, its number, at which point, and where the gradient goes."""

    worker: Worker
    count: int  # type: ignore[assignment]  # not tuple.count
    point: Array
    gradient: Array


class WorkerLink(Protocol):
    """A worker's end of a link, or its ends where it works for several servers."""

    def receive(self) -> Work | None:
        """Wait for work; None when there will be no more, because the run is over or because of a failure."""
        ...

    def deliver(self, nanoseconds: int) -> None:
        """Send the gradient of what was received last, which took so long to compute."""
        ...

    def fail(self, details: str) -> None:
        """Report that what was received last could not be computed, with the traceback."""
        ...


def run_worker(link: WorkerLink, slow: float = 0.0) -> None:
    """Compute what a link asks for until it has no more work.

    Args:
        link: to the server, or to several.
        slow: extra seconds for each gradient, to study stragglers.
    """
    while (work := link.receive()) is not None:
        worker, count, point, gradient = work
        try:
            begun = time.perf_counter_ns()
            worker.compute(point, count, gradient)
            nanoseconds = time.perf_counter_ns() - begun
        except BaseException:
            link.fail(traceback.format_exc())
            continue
        if slow:
            time.sleep(slow)
        link.deliver(nanoseconds)
