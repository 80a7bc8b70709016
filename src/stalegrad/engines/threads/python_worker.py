"""A worker whose gradient is computed in Python, by JAX or by torch, and which updates the chain itself all the same.

It comes back to Python for the gradient alone: all else is one compiled call that lands it and waits for the next point
(:mod:`stalegrad.engines.threads.landing`).
"""

import time
import traceback
from collections.abc import Callable
from typing import Protocol

import numpy as np

from stalegrad._internal.types import Array
from stalegrad.engines.threads.landing import NONE
from stalegrad.protocol.worker import Worker


class Turns(Protocol):
    """How a worker takes part in the chain that it shares."""

    def ready(self) -> None:
        """Say that the worker has been made and can take a minibatch."""
        ...

    def next(self, computing: int) -> int | None:
        """Land the gradient that took so many nanoseconds, and wait: the next minibatch, None if there is none."""
        ...

    def fail(self, details: str) -> None:
        """The worker, or its gradient, has raised this traceback."""
        ...


def compute_in_python(make: Callable[[], Worker], point: Array, gradient: Array, slow: float, turns: Turns) -> None:
    """What the thread of such a worker does until it is told to end, or fails.

    Args:
        make: makes the worker.
        point: where the gradient is wanted, (1, n), whenever there is a minibatch to compute. It is copied: a worker
            that was given up for hung may still hold what it was handed, and even change it, while its replacement is
            sent other points in the same place.
        gradient: where it goes.
        slow: extra seconds for each.
        turns: how it takes part.
    """
    try:
        worker = make()
    except BaseException:
        turns.fail(traceback.format_exc())
        return
    turns.ready()
    own, computing = np.empty_like(point), NONE
    while (count := turns.next(computing)) is not None:
        begun = time.perf_counter_ns()
        np.copyto(own, point)
        try:
            worker.compute(own, count, gradient)
        except BaseException:
            turns.fail(traceback.format_exc())
            return
        computing = time.perf_counter_ns() - begun
        if slow:
            time.sleep(slow)
