"""One server's side of the memory that it shares with its workers."""

import numpy as np

from stalegrad._internal.types import Array
from stalegrad.engines import message as m
from stalegrad.engines.link import Arrival, Delivery, Link
from stalegrad.engines.processes import ordering
from stalegrad.engines.processes.pool import Pool
from stalegrad.engines.server_loop import WorkersLost
from stalegrad.engines.waiting import AdaptiveWait
from stalegrad.protocol.admission import Assignment


class ProcessLink(Link):
    """One server's side of the shared memory."""

    def __init__(self, pool: Pool, server: int) -> None:
        self._pool, self._server = pool, server
        self._slots = pool.slots[server]
        self._wake_ups, self._arrivals = pool.wake_ups[server], pool.arrivals[server]
        self._headers = self._slots.headers
        self._incarnation: dict[int, int] = {}
        self._wait = AdaptiveWait(self._anything, pool.server_wake_ups[server].wait_for)
        self._delivered: list[Delivery] = []  # found in one look at the slots, latest first

    def start(self, worker: int, incarnation: int) -> None:
        """Have the host fork a worker."""
        self._headers[worker][m.KIND] = m.IDLE
        self._incarnation[worker] = incarnation
        self._pool.order("start", self._server, worker, incarnation)

    def send(self, assignment: Assignment, point: Array) -> None:
        """Copy the point into the worker's slot and wake it."""
        worker = assignment.worker
        header = self._headers[worker]
        np.copyto(self._slots.points[worker], point)
        m.put_assignment(header, assignment, self._incarnation[worker])
        ordering.fence()
        header[m.KIND] = m.WORK
        self._wake_ups[worker].signal()

    def receive(self, timeout: float) -> Arrival | None:
        """Wait for a worker, or for news from the host."""
        while True:
            if not self._arrivals.empty():  # first, or busy workers would keep a new one waiting
                return self._arrivals.get()
            if self._delivered or self._collect():
                return self._delivered.pop()
            if self._pool.lost is not None:
                raise WorkersLost(self._pool.lost)
            if not self._wait.wait(timeout):
                return None

    def discard(self, worker: int, kind: str) -> None:
        """Kill the worker if it is still there."""
        if (incarnation := self._incarnation.pop(worker, None)) is not None:
            self._headers[worker][m.KIND] = m.IDLE
            self._delivered = [d for d in self._delivered if d.worker != worker]
            self._pool.order("kill", self._server, worker, incarnation)

    def close(self) -> None:
        """Let all workers end; the pool ends those that do not."""
        for header, wake_up in zip(self._headers, self._wake_ups, strict=True):
            header[m.KIND] = m.STOP
            wake_up.signal()

    def _anything(self) -> bool:
        return not self._arrivals.empty() or self._collect()

    def _collect(self) -> bool:
        """Find the slots with finished gradients, in the order in which they were finished; whether there are any."""
        kind, done = m.KIND, m.DONE
        finished = [w for w, header in enumerate(self._headers) if header[kind] == done]
        if not finished:
            return False
        ordering.fence()
        if len(finished) > 1:
            finished.sort(key=lambda w: -self._headers[w][m.TIME])
        for worker in finished:
            header = self._headers[worker]
            header[kind] = m.IDLE
            self._delivered.append(m.get_delivery(header, worker, self._slots.gradients[worker]))
        return True
