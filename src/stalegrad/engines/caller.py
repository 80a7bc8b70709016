"""A worker that calls its server: it asks for work, computes, and brings the gradients with its next call.

Where a call costs more than a gradient, most of the time would go into calls. So a worker times its first calls and
gradients, and then wants as many minibatches a call as take about as long as the call. That costs staleness: with k
minibatches a call, kW gradients are under way instead of W.
"""

import math
import time
import traceback
from collections.abc import Callable
from statistics import median
from typing import Any

import numpy as np

from stalegrad.engines.desk import Call, Work
from stalegrad.potentials.base import Potential
from stalegrad.server import Gradient
from stalegrad.types import Array
from stalegrad.worker import Worker

MOST_LANES = 16
"""No more minibatches a call are chosen, however cheap they are: beyond that, staleness costs more than calls."""
_MESSAGE = 32 << 20  # bytes of gradients a call: with more, a call's time is that of copying, and there is none to save
_TIMED = 8  # calls after which the choice is made


class Lanes:
    """How many minibatches a call a worker wants: a given number, or what its first calls make of it.

    Args:
        given: the number, if it is.
        nbytes: of a gradient.
    """

    def __init__(self, given: int | None = None, nbytes: int = 0) -> None:
        self.wanted = given or 1
        self._most = max(1, _MESSAGE // max(1, nbytes))
        self._open = given is None
        self._calls: list[float] = []
        self._gradients: list[float] = []

    def note(self, call: float, gradient: float) -> None:
        """A call and the mean gradient out of it took so many seconds."""
        if self._open:
            self._calls.append(call)
            self._gradients.append(gradient)
            if len(self._calls) == _TIMED:
                # The shortest call, because most of a long one may be waiting for the server's permission.
                self.wanted = min(self._most, worthwhile_lanes(min(self._calls), median(self._gradients)))
                self._open = False


def worthwhile_lanes(call: float, gradient: float) -> int:
    """As many gradients as fill the time of a call.

    >>> worthwhile_lanes(call=1e-3, gradient=0.3e-3), worthwhile_lanes(call=1e-3, gradient=0.1)
    (4, 1)
    """
    return min(MOST_LANES, max(1, math.ceil(call / max(gradient, 1e-9))))


def attend(
    potential: Potential,
    seed: int,
    chain: int,
    number: int,
    incarnation: int,
    call: Callable[[Call], Work | None],
    *,
    unpack: Callable[[Any], Array] = lambda point: point,
    lanes: int | None = None,
) -> None:
    """A worker's life, until its server sends it home.

    Args:
        potential: the model.
        seed: the run's.
        chain: the chain that this worker serves.
        number: of the worker.
        incarnation: how often it had been replaced before.
        call: makes a call to the server, again and again if need be, and returns the answer.
        unpack: makes the point of what was sent of it.
        lanes: minibatches a call; None to choose.
    """
    workers: dict[int, Worker] = {}
    buffers: list[Array] = []
    point = np.empty((1, potential.size), potential.dtype)
    choice = Lanes(lanes, point.nbytes)
    sequence = 0
    results: tuple[tuple[float, Gradient], ...] = ()
    while True:
        begun = time.perf_counter()
        work = call(Call(number, incarnation, sequence, choice.wanted, results))
        if work is None:
            return
        if not work.assignments:
            results = ()  # they were understood
            continue
        spent = time.perf_counter() - begun
        points = [unpack(packed) for packed in work.points]
        while len(buffers) < len(work.assignments):
            buffers.append(np.empty_like(point))
        done: list[tuple[float, Gradient]] = []
        try:
            for (assignment, which), buffer in zip(work.assignments, buffers, strict=False):
                begun = time.perf_counter()
                np.copyto(point, points[which])  # it may be read-only, and models may not like that
                if assignment.worker not in workers:
                    workers[assignment.worker] = Worker(potential, seed, chain, assignment.worker)
                workers[assignment.worker].compute(point, assignment.count, buffer)
                done.append((time.perf_counter() - begun, Gradient(*assignment, buffer)))
        except BaseException:
            call(Call(number, incarnation, sequence + 1, choice.wanted, tuple(done), traceback.format_exc()))
            return
        choice.note(spent, sum(seconds for seconds, _ in done) / len(done))
        sequence, results = sequence + 1, tuple(done)
