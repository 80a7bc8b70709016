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

    >>> import numpy as np
    >>> import stalegrad as sg
    >>> class Twice:  # a link that asks for two gradients and sends nothing anywhere
    ...     def __init__(self, worker):
    ...         self.point, self.gradient = np.zeros((2, 1, worker.potential.size), worker.potential.dtype)
    ...         self.work = [Work(worker, count, self.point, self.gradient) for count in (1, 0)]
    ...         self.delivered = 0
    ...     def receive(self):
    ...         return self.work.pop() if self.work else None
    ...     def deliver(self, nanoseconds):
    ...         self.delivered += 1
    ...     def fail(self, details):
    ...         raise RuntimeError(details)
    >>> link = Twice(Worker(sg.testing.small_model(), seed=0, chain=0, worker=0))
    >>> run_worker(link)
    >>> link.delivered, bool(link.gradient.any())
    (2, True)
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
