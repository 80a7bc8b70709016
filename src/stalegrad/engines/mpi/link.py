"""A server's connections to workers that are ranks of the same job."""

import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from stalegrad._internal.types import Array
from stalegrad.engines import message as m
from stalegrad.engines.lifecycle import Lifecycle
from stalegrad.engines.link import Arrival, Failure, Link, Ready, Repairs
from stalegrad.engines.mpi.connection import KEPT, Connection
from stalegrad.engines.mpi.express import Express, Native
from stalegrad.engines.waiting import AdaptiveWait, PollingSleep
from stalegrad.protocol.admission import Assignment

if TYPE_CHECKING:
    from stalegrad.engines.mpi.channel import Channel

_POLL = 0.1  # seconds between polls of anything but workers
_GRACE = 2.0  # seconds that workers have at the end for the gradient that they are computing


class MpiLink(Link):
    """A server's connections to workers that were started with it. They cannot be ended, only restarted by a message.

    What arrives is looked at once: if it is intact, and answers what its worker was asked last. (incarnation, count,
    version) names a question; a worker that is asked again answers the same.

    Args:
        channel: to all of them.
        connections: by the worker's number.
        poll_run: called from time to time while the server waits, to exchange messages between servers.
    """

    lossy = True

    def __init__(self, channel: "Channel", connections: Mapping[int, Connection], poll_run: Callable[[], None]) -> None:
        self._channel, self.connections = channel, dict(connections)
        self._incarnation: dict[int, int] = {}
        self._damaged = self._repeated = self._sent_again = 0
        self._poll_run, self._polled = poll_run, 0.0
        self._arrived: deque[int] = deque()
        self._given: Connection | None = None  # whose message the server loop may still be looking at
        self._wait = AdaptiveWait(self._poll, PollingSleep(self._poll))
        self._numbers = list(self.connections)
        self._requests = [connection.receiving for connection in self.connections.values()]
        for connection in self.connections.values():
            connection.post_receive()

    def start(self, worker: int, incarnation: int) -> None:
        """Have a worker start, or start again, as this incarnation."""
        self._incarnation[worker] = incarnation
        self.connections[worker].awaited = m.START
        self.connections[worker].send_short(m.START, incarnation)

    def send(self, assignment: Assignment, point: Array) -> None:
        """Send a worker its assignment and its point."""
        connection = self.connections[assignment.worker]
        connection.post_receive()  # first, so that the answer finds its place
        connection.await_outgoing()
        connection.outgoing.header[m.KIND] = m.WORK
        m.put_assignment(connection.outgoing.header, assignment, self._incarnation[assignment.worker])
        m.put_time(connection.outgoing.header)
        np.copyto(connection.outgoing.vector, point)
        connection.awaited = m.WORK
        connection.send()

    def send_again(self, worker: int) -> None:
        """Send a worker again what it was sent last and has not answered."""
        connection = self.connections.get(worker)
        if connection is None:
            return
        if connection.awaited == m.START:
            connection.send_short(m.START, self._incarnation[worker])
            self._sent_again += 1
        elif connection.awaited == m.WORK:
            self._sent_again += connection.send_again(m.put_time)

    def express(self, server: Any, lifecycle: Lifecycle, seconds: float) -> Express | None:
        """Small messages without Python, see :mod:`stalegrad.engines.mpi.express`."""
        return Express.if_possible(self, server, lifecycle, seconds)

    def native(self) -> Native | None:
        """How compiled code calls what carries the messages; None if it cannot."""
        return self._channel.native()

    def addresses(self, connection: Connection) -> tuple[int, ...]:
        """For compiled code: where the handles of a connection's transfers and its packets are, incoming first."""
        requests = (self._channel.address_of(request) for request in connection.transfers)
        return *requests, connection.incoming.room.ctypes.data, connection.outgoing.room.ctypes.data

    @property
    def has_arrivals(self) -> bool:
        """Whether messages have come that are still to be given to the server loop; there is room for all others."""
        if self._given is not None:
            self._given.post_receive()
            self._given = None
        return bool(self._arrived)

    def is_open(self, worker: int) -> bool:
        """Whether an answer of this worker may come: it was asked for work, and there is room."""
        connection = self.connections[worker]
        return connection.posted and connection.awaited == m.WORK

    def incarnation(self, worker: int) -> int:
        """The present one of a worker."""
        return self._incarnation[worker]

    def handed_back(self, worker: int, *, read: bool) -> None:
        """Compiled code has received a message of this worker: whether it has read it, or leaves it to be read here."""
        connection = self.connections[worker]
        connection.mark_received()
        if read:
            connection.awaited = m.IDLE
            connection.post_receive()
        else:
            self._arrived.append(worker)

    def repairs(self) -> Repairs:
        """Messages that were damaged here or there, answers that came again, and questions that were sent again."""
        return Repairs(self._damaged, self._repeated, self._sent_again)

    def receive(self, timeout: float) -> Arrival | None:
        """Wait for a worker, and poll the run from time to time."""
        while True:
            if self._given is not None:
                self._given.post_receive()
                self._given = None
            if time.perf_counter() - self._polled > _POLL:
                self._poll_others()
                self._polled = time.perf_counter()
            if not self._arrived and not self._wait.wait(timeout):
                return None
            if self._arrived and (arrival := self._arrival(self._arrived.popleft())) is not None:
                return arrival

    def discard(self, worker: int, kind: str) -> None:
        """Do nothing: a rank cannot be ended, and what it may still send carries its old incarnation."""

    def close(self) -> None:
        """Send all workers the end of the run, and give those that compute a moment."""
        self._arrived.clear()
        for connection in self.connections.values():
            connection.post_receive()
            connection.send_short(m.STOP)
        silent = set(self.connections)
        deadline = time.perf_counter() + _GRACE
        while silent and self._wait.wait(max(0.0, deadline - time.perf_counter())):
            while self._arrived:
                worker = self._arrived.popleft()
                if self.connections[worker].incoming.header[m.KIND] == m.STOPPED:
                    silent.discard(worker)
                else:
                    self.connections[worker].post_receive()
        for worker, connection in self.connections.items():
            if worker in silent:
                self._keep(connection)
            else:
                connection.close()

    def _keep(self, connection: Connection) -> None:
        """Leave a connection as it is whose worker has not answered: MPI may still write to its packet."""
        KEPT.append(connection)

    def _poll(self) -> bool:
        """Find the connections on which something has come; whether there are any."""
        for worker in self._finished():
            self.connections[worker].mark_received()
            self._arrived.append(worker)
        return bool(self._arrived)

    def _finished(self) -> Iterable[int]:
        return [self._numbers[k] for k in self._channel.some(self._requests)]

    def _poll_others(self) -> None:
        """Poll anything but the workers that are there."""
        self._poll_run()

    def _arrival(self, worker: int) -> Arrival | None:
        connection = self._given = self.connections[worker]
        header = connection.incoming.header
        kind, incarnation = header[m.KIND], header[m.INCARNATION]
        if not connection.incoming.intact or kind == m.AGAIN:
            self._damaged += 1
            self.send_again(worker)
            return None
        if not self._is_awaited(connection, worker):
            self._repeated += incarnation == self._incarnation[worker]
            return None
        connection.awaited = m.IDLE
        if kind == m.DONE:
            return m.get_delivery(header, worker, connection.incoming.unpack(), m.seconds_taken(header))
        return Ready(worker, incarnation) if kind == m.READY else self._failure(connection, worker)

    def _is_awaited(self, connection: Connection, worker: int) -> bool:
        """Whether what has come answers what the worker was sent last, and is the first that does."""
        answer, asked, awaited = connection.incoming.header, connection.outgoing.header, connection.awaited
        if answer[m.INCARNATION] != self._incarnation[worker]:
            return False
        kind = answer[m.KIND]
        if kind == m.DONE:
            same = answer[m.COUNT] == asked[m.COUNT] and answer[m.VERSION] == asked[m.VERSION]
            return same and awaited == m.WORK
        return awaited == m.START if kind == m.READY else kind == m.FAILED and awaited != m.IDLE

    def _failure(self, connection: Connection, worker: int) -> Failure:
        return Failure(worker, self._incarnation[worker], "raised", connection.incoming.text)
