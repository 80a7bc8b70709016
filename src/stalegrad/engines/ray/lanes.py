"""Lanes: where a message costs more than a gradient, a worker is given several minibatches in one message.

To the server, and in the trace, each lane is a worker of its own with one minibatch at a time: lane j of worker w of W
has the number w + jW. To link, lifecycle and server loop it is all one worker; :class:`LaneServer` stands between.
"""

import math
from collections.abc import Callable
from statistics import median
from typing import NamedTuple

from stalegrad._internal.types import Array
from stalegrad.protocol.admission import Assignment
from stalegrad.protocol.chain import Chain
from stalegrad.protocol.chain_trace import ChainTrace
from stalegrad.protocol.server import Gradient, Server

MOST_LANES = 16
"""No more minibatches a call are chosen, however cheap they are: beyond that, staleness costs more than calls."""
_MESSAGE = 32 << 20  # bytes of gradients a call: with more, a call's time is that of copying, and there is none to save
_TIMED = 8  # calls after which the choice is made


class LaneAssignment(NamedTuple):
    """An assignment of a lane, and the worker that the lane belongs to."""

    worker: int
    assignment: Assignment


class LaneServer:
    """A server whose workers are lanes, as one whose workers have so many lanes each.

    Args:
        server: the server.
        workers: W.
        wanted: how many lanes a worker is to have now.
    """

    def __init__(self, server: Server, workers: int, wanted: Callable[[int], int]) -> None:
        self._server, self._workers, self._wanted = server, workers, wanted
        self._joined = dict.fromkeys(range(workers), 0)
        self.refusals, self.needs_all = server.refusals, server.needs_all

    @property
    def chain(self) -> Chain:
        """The chain that is advanced."""
        return self._server.chain

    @property
    def done(self) -> bool:
        """Whether all updates have been made."""
        return self._server.done

    @property
    def trace(self) -> ChainTrace:
        """Everything that has happened to the chain, lane by lane."""
        return self._server.trace

    @property
    def waiting(self) -> int:
        """How many rows of the trace have not been taken."""
        return self._server.waiting

    def take_rows(self) -> ChainTrace:
        """The rows of the trace that have come since the last time."""
        return self._server.take_rows()

    def join(self, worker: int) -> list[LaneAssignment]:
        """A worker is ready, or wants more lanes: those that have not joined yet do."""
        assignments: list[Assignment] = []
        for lane in range(self._joined[worker], self._wanted(worker)):
            assignments += self._server.join(worker + lane * self._workers)
            self._joined[worker] += 1
        return self._by_worker(assignments)

    def leave(self, worker: int) -> list[LaneAssignment]:
        """A worker is gone, and all its lanes with it."""
        lanes, self._joined[worker] = self._joined[worker], 0
        return self._by_worker(self._server.leave(*(worker + lane * self._workers for lane in range(lanes))))

    def receive(self, gradient: Gradient, time: float, seconds: float, *, more: bool) -> list[LaneAssignment]:
        """A lane's gradient has come."""
        return self._by_worker(self._server.receive(gradient, time, seconds, more=more))

    def point(self, worker: int) -> Array:
        """What all lanes of a worker are sent now: those with points of their own have one lane."""
        return self._server.point(worker)

    def _by_worker(self, assignments: list[Assignment]) -> list[LaneAssignment]:
        return [LaneAssignment(assignment.worker % self._workers, assignment) for assignment in assignments]


class LaneChoice:
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
