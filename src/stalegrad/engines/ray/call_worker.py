"""A worker that calls its server: it asks for work, computes, and brings the gradients with its next call.

Where a call costs more than a gradient, most of the time would go into calls. So a worker times its first calls and
gradients, and then wants as many minibatches a call as take about as long as the call. That costs staleness: with k
minibatches a call, kW gradients are under way instead of W.
"""

import time
from collections import deque
from collections.abc import Callable

import numpy as np

from stalegrad._internal.types import Array
from stalegrad.engines.ray.call_link import Answer, Call
from stalegrad.engines.ray.lanes import LaneChoice
from stalegrad.engines.worker_loop import Work
from stalegrad.potentials.base import Potential
from stalegrad.protocol.admission import Assignment
from stalegrad.protocol.server import Gradient
from stalegrad.protocol.worker import Worker


class CallWorker:
    """A worker's end of a link over calls, see :class:`stalegrad.engines.worker_loop.WorkerLink`.

    Args:
        potential: the model.
        seed: the run's.
        chain: the chain that this worker serves.
        number: of the worker.
        incarnation: how often it had been replaced before.
        call: makes a call to the server, again and again if need be, and returns the answer.
        lanes: minibatches a call; None to choose.
    """

    def __init__(
        self,
        potential: Potential,
        seed: int,
        chain: int,
        number: int,
        incarnation: int,
        call: Callable[[Call], Answer | None],
        *,
        lanes: int | None = None,
    ) -> None:
        self._potential, self._seed, self._chain = potential, seed, chain
        self._number, self._incarnation = number, incarnation
        self._call = call
        self._point = np.empty((1, potential.size), potential.dtype)
        self._lanes = LaneChoice(lanes, self._point.nbytes)
        self._workers: dict[int, Worker] = {}  # one a lane
        self._buffers: list[Array] = []
        self._sequence, self._failed = 0, False
        self._called = 0.0  # seconds that the last call took
        self._waiting: deque[tuple[Assignment, Array]] = deque()  # of the last answer, with their points
        self._assignment: Assignment | None = None
        self._results: list[tuple[float, Gradient]] = []  # for the next call

    def receive(self) -> Work | None:
        """The next minibatch of the last answer; after the last of them, call again."""
        if not self._waiting and (self._failed or not self._ask()):
            return None
        self._assignment, point = self._waiting.popleft()
        codec = self._potential.wire.point
        np.copyto(self._point, codec.unpacked(point))  # it may be read-only, and models may not like that
        lane, count, _ = self._assignment
        if lane not in self._workers:
            self._workers[lane] = Worker(self._potential, self._seed, self._chain, lane)
        return Work(self._workers[lane], count, self._point, self._buffer())

    def deliver(self, nanoseconds: int) -> None:
        """Keep the gradient for the next call."""
        assert self._assignment is not None
        gradient = Gradient(*self._assignment, self._potential.wire.gradient.packed(self._buffer()))
        self._results.append((nanoseconds * 1e-9, gradient))

    def fail(self, details: str) -> None:
        """Bring what there is, and the traceback, in a last call."""
        self._waiting.clear()
        self._failed = True
        self._call(self._next_call(details))

    def _ask(self) -> bool:
        """Call until there is work; False if the server wants no more."""
        if self._results:
            self._lanes.note(self._called, sum(seconds for seconds, _ in self._results) / len(self._results))
        answer: Answer | None = Answer()
        while answer is not None and not answer.assignments:
            begun = time.perf_counter()
            answer = self._call(self._next_call())
            self._results = []  # they have been received
        if answer is None:
            return False
        self._called = time.perf_counter() - begun
        self._sequence += 1
        self._waiting.extend((assignment, answer.points[which]) for assignment, which in answer.assignments)
        return True

    def _next_call(self, failure: str | None = None) -> Call:
        results = tuple(self._results)
        return Call(self._number, self._incarnation, self._sequence, self._lanes.wanted, results, failure)

    def _buffer(self) -> Array:
        """For the gradient that is computed now: those before it wait for the next call."""
        if len(self._results) == len(self._buffers):
            self._buffers.append(np.empty_like(self._point))
        return self._buffers[len(self._results)]
