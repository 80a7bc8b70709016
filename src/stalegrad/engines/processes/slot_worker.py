"""One worker's side of the memory that it shares with its server."""

import socket
import time
from typing import Any

from stalegrad.engines import message as m
from stalegrad.engines.processes import ordering
from stalegrad.engines.processes.reports import report
from stalegrad.engines.processes.shared import Slots, WakeUp
from stalegrad.engines.waiting import AdaptiveWait
from stalegrad.engines.worker_loop import Work
from stalegrad.potentials.base import Potential
from stalegrad.protocol.worker import Worker


class SlotWorker:
    """A worker's end of the shared memory, see :class:`stalegrad.engines.worker_loop.WorkerLink`."""

    def __init__(self, potential: Potential, settings: dict[str, Any], link: socket.socket, *who: int) -> None:
        server, number, self._incarnation = self._who = who
        slots = Slots(settings["slots"][server], settings["workers"], potential.size, potential.dtype)
        mine = self._mine = WakeUp(*settings["wake_ups"][server][number])
        self._server = WakeUp(*settings["server_wake_ups"][server])
        header = self._header = slots.headers[number]
        self._worker = Worker(potential, settings["seed"], server, number)
        self._point, self._gradient = slots.points[number], slots.gradients[number]
        self._link, self._failed = link, False
        self._wait = AdaptiveWait(lambda: header[m.KIND] in (m.WORK, m.STOP), mine.wait)
        report(link, "ready", self._who)

    def receive(self) -> Work | None:
        """Wait until the server has laid out work in the slot."""
        header = self._header
        while not self._failed:
            self._wait.wait()
            kind = header[m.KIND]
            if kind == m.STOP:
                return None
            if kind == m.WORK and header[m.INCARNATION] == self._incarnation:  # else it was for one that is no more
                ordering.fence()
                return Work(self._worker, header[m.COUNT], self._point, self._gradient)
        return None

    def deliver(self, nanoseconds: int) -> None:
        """Hand the slot, with the gradient in it, to the server."""
        header = self._header
        header[m.NANOSECONDS] = nanoseconds
        header[m.TIME] = time.monotonic_ns()
        ordering.fence()
        header[m.KIND] = m.DONE
        self._server.signal()

    def fail(self, details: str) -> None:
        """Report the traceback, and end."""
        report(self._link, "raised", self._who, details)
        self._failed = True
