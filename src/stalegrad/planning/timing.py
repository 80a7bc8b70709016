"""The clock: seconds of calls, and the parts of a worker's round trip in a real run."""

import math
import time
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from stalegrad.planning.scaling import updates_per_second
from stalegrad.runs.result import Run

_QUARTILES = 1.35  # those of a normal are so many standard deviations apart


class RoundTrip(NamedTuple):
    """What one real run says about time, with W workers a chain.

    >>> trip = RoundTrip(workers=2, gradient=0.02, served=0.001, updates_per_second=90.0, mean_staleness=1.0)
    >>> trip.workers / trip.updates_per_second > trip.gradient + trip.served  # the rest is messages and waiting
    True
    """

    workers: int
    """W."""
    gradient: float
    """Seconds in which a worker computes a gradient, with whatever else ran on its core meanwhile; NaN if virtual."""
    served: float
    """Seconds that the server is busy with a gradient: update, checks, recording and answer; NaN if virtual."""
    updates_per_second: float
    """Accepted updates of a chain."""
    mean_staleness: float
    """Of those."""


def round_trip(run: Run, workers: int) -> RoundTrip:
    """The times of a run, from the second halves of its chains, after the start in which all hold version 0.

    A worker's round trip takes W over the gradients that arrive a second. What of it is gradient and what is server are
    means over the whole run.
    """
    accepted = float(np.mean([updates_per_second(chain) for chain in run.trace.chains]))
    updates = [chain.updates() for chain in run.trace.chains]
    arrived = sum(len(chain) for chain in run.trace.chains) / sum(len(chain) for chain in updates)
    timing = run.timing
    whole = workers / (accepted * arrived)
    gradient = served = math.nan
    if timing is not None:
        gradient, served = timing.gradients / max(timing.count, 1), timing.updates / max(timing.count, 1)
        part = min(1.0, whole / max(gradient + served, 1e-12))  # the start may have been slower than the second half
        gradient, served = part * gradient, part * served
    return RoundTrip(
        workers=workers,
        gradient=gradient,
        served=served,
        updates_per_second=accepted,
        mean_staleness=float(np.mean([chain.staleness[len(chain) // 2 :].mean() for chain in updates])),
    )


def call_seconds(
    action: Callable[[int], object], *, most: int, least: int = 1, budget: float = math.inf, warm_up: int = 2
) -> list[float]:
    """Seconds of each call of an action, which is given the number of the call.

    Args:
        action: what to time.
        most: calls to time.
        least: calls to time even when the budget is used up.
        budget: seconds for all of them.
        warm_up: calls before them that are not timed: they compile code and fill the caches.
    """
    for number in range(warm_up):
        action(number)
    times: list[float] = []
    ends = time.perf_counter() + budget
    while len(times) < least or (len(times) < most and time.perf_counter() < ends):
        begun = time.perf_counter()
        action(warm_up + len(times))
        times.append(time.perf_counter() - begun)
    return times


def median_and_variation(times: Sequence[float]) -> tuple[float, float]:
    """The median, and the spread over it from quartiles: interruptions move neither.

    >>> median, variation = median_and_variation([1.0, 2.0, 3.0, 4.0, 1000.0])
    >>> median, round(variation, 3)
    (3.0, 0.494)
    """
    low, median, high = (float(q) for q in np.quantile(times, [0.25, 0.5, 0.75]))
    return median, (high - low) / _QUARTILES / median
