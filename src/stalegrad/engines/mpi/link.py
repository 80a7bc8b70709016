"""Lines between a server and its workers: one packet and one persistent transfer each way."""

import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from stalegrad.admission import Assignment
from stalegrad.engines.mpi import packet as p
from stalegrad.engines.service import Arrival, Delivery, Failure, Ready
from stalegrad.engines.waiting import Doze, Nap
from stalegrad.potentials.base import Potential
from stalegrad.server import Gradient
from stalegrad.types import Array

if TYPE_CHECKING:
    from stalegrad.engines.mpi.channel import Channel

_TAG = 1
_BESIDE = 0.1  # seconds between looks at anything but workers
_GRACE = 2.0  # seconds that workers have at the end for the gradient that they are computing

KEPT: list[Any] = []
"""What MPI may still write to, however long ago its run was: it must not be freed."""


class Line:
    """One end of what connects a server and a worker; both ends are alike.

    A message that has come stays in ``incoming`` until :meth:`listen` makes room for the next one.

    Args:
        channel: to the other end.
        peer: the rank there.
        potential: the model, for the size and type of a point.
    """

    def __init__(self, channel: "Channel", peer: int, potential: Potential) -> None:
        self.channel, self._peer = channel, peer
        self.outgoing = p.Packet(potential.size, potential.dtype)
        self.incoming = p.Packet(potential.size, potential.dtype)
        self._sending = channel.sender(peer, _TAG, self.outgoing.whole)
        self.receiving = channel.receiver(peer, _TAG, self.incoming.room)
        self._listening = False
        self._posted: list[tuple[Any, Array]] = []  # short messages on their way, with their buffers

    def listen(self) -> None:
        """Make room for a message."""
        if not self._listening:
            self.channel.start(self.receiving)
            self._listening = True

    def heard(self) -> None:
        """The transfer ``receiving`` is over."""
        self._listening = False

    def has_heard(self) -> bool:
        """Whether a message has come that was listened for, told once."""
        if self._listening and self.channel.done(self.receiving):
            self._listening = False
            return True
        return False

    def clear(self) -> None:
        """Wait until ``outgoing`` may be written to: what it held is on its way, or has been received."""
        if not self.channel.done(self._sending):
            self.channel.wait(self._sending)

    def send(self) -> None:
        """Send ``outgoing``, with its vector. What it held before has been received: it was answered."""
        self.channel.start(self._sending)

    def note(self, kind: int, incarnation: int = 0, text: str = "") -> None:
        """Send a message without a vector."""
        packet = p.Packet(0, np.uint8)
        packet.header[p.KIND], packet.header[p.INCARNATION] = kind, incarnation
        buffer = packet.set_text(text) if text else packet.head
        request = self.channel.post(self._peer, _TAG, buffer)
        self._posted = [(old, held) for old, held in self._posted if not self.channel.done(old)] + [(request, buffer)]

    def close(self) -> None:
        """Give back what the line uses. The other end has said, or was told, that there is nothing more to come."""
        for request, _ in self._posted:
            self.channel.wait(request)
        self.channel.give_back(self._sending, self.receiving)


class MpiLink:
    """A server's lines to workers that were started with it. They cannot be ended, only told to start again.

    Args:
        channel: to all of them.
        lines: by the worker's number.
        beside: called from time to time while the server waits.
    """

    def __init__(self, channel: "Channel", lines: Mapping[int, Line], beside: Callable[[], None]) -> None:
        self._channel, self.lines = channel, dict(lines)
        self._beside, self._looked = beside, 0.0
        self._arrived: deque[int] = deque()
        self._given: Line | None = None  # whose message the service may still be looking at
        self._nap = Nap(self._look, Doze(self._look))
        self._numbers, self._requests = list(self.lines), [line.receiving for line in self.lines.values()]
        for line in self.lines.values():
            line.listen()

    def start(self, worker: int, incarnation: int) -> None:
        """Have a worker start, or start again."""
        self.lines[worker].note(p.START, incarnation)

    def send(self, assignment: Assignment, point: Array) -> None:
        """Send a worker its point."""
        line = self.lines[assignment.worker]
        line.listen()  # first, so that the answer finds its place
        line.clear()
        header = line.outgoing.header
        header[p.KIND], header[p.COUNT], header[p.VERSION] = p.WORK, assignment.count, assignment.version
        np.copyto(line.outgoing.vector, point)
        line.send()

    def receive(self, timeout: float) -> Arrival | None:
        """Wait for a worker."""
        while True:
            if self._given is not None:
                self._given.listen()
                self._given = None
            if time.perf_counter() - self._looked > _BESIDE:
                self._look_beside()
                self._looked = time.perf_counter()
            if not self._arrived and not self._nap.wait(timeout):
                return None
            if self._arrived and (arrival := self._arrival(self._arrived.popleft())) is not None:
                return arrival

    def discard(self, worker: int) -> None:
        """A rank cannot be ended. What it may still send carries its old incarnation."""

    def close(self) -> None:
        """Tell all workers that it is over, and give those that compute a moment."""
        self._arrived.clear()
        for line in self.lines.values():
            line.listen()
            line.note(p.STOP)
        silent = set(self.lines)
        deadline = time.perf_counter() + _GRACE
        while silent and self._nap.wait(max(0.0, deadline - time.perf_counter())):
            while self._arrived:
                worker = self._arrived.popleft()
                if self.lines[worker].incoming.header[p.KIND] == p.BYE:
                    silent.discard(worker)
                else:
                    self.lines[worker].listen()
        for worker, line in self.lines.items():
            if worker in silent:
                KEPT.append(line)
            else:
                line.close()

    def _look(self) -> bool:
        """Find the lines on which something has come; whether there are any."""
        for worker in self._finished():
            self.lines[worker].heard()
            self._arrived.append(worker)
        return bool(self._arrived)

    def _finished(self) -> Iterable[int]:
        return [self._numbers[k] for k in self._channel.some(self._requests)]

    def _look_beside(self) -> None:
        self._beside()

    def _arrival(self, worker: int) -> Arrival | None:
        line = self._given = self.lines[worker]
        header = line.incoming.header
        kind, incarnation = header[p.KIND], header[p.INCARNATION]
        if kind == p.DONE:
            gradient = Gradient(worker, header[p.COUNT], header[p.VERSION], line.incoming.vector)
            return Delivery(worker, incarnation, header[p.NANOSECONDS] * 1e-9, gradient)
        if kind == p.READY:
            return Ready(worker, incarnation)
        return Failure(worker, incarnation, "raised", line.incoming.text) if kind == p.FAILED else None
