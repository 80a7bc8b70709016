"""The processes engine over a hostile network: slots are read through a :class:`HostileWire`.

Memory that processes of one machine share loses nothing, so there the engine has no checksums and asks for nothing
twice. Here both ends do as if the slot were a network's buffer: each takes its message out of the slot as bytes, header
and vector, and works with what the wire makes of them, in memory of its own. A question that is sent again may meet the
answer on its way into the slot: the checksum tells, because it is made of what was meant and not of what lies there.
"""

import socket
import time
from typing import Any

import numpy as np

from stalegrad._internal.types import Array
from stalegrad.engines import message as m
from stalegrad.engines.hostile_network import TO_SERVER, TO_WORKER, HostileNetwork, HostileWire, Wire
from stalegrad.engines.link import Delivery, Repairs
from stalegrad.engines.processes import ordering
from stalegrad.engines.processes.link import ProcessLink
from stalegrad.engines.processes.pool import Pool
from stalegrad.engines.processes.slot_worker import SlotWorker
from stalegrad.engines.worker_loop import Work
from stalegrad.potentials.base import Potential
from stalegrad.protocol.admission import Assignment

_POLL = 1e-3  # seconds between looks at a wire on which a message is on its way


class Letter:
    """A message of a slot, header and vector, in memory of one's own.

    Args:
        like: a vector of the slot.
    """

    def __init__(self, like: Array) -> None:
        self._room = np.zeros(m.BYTES + like.nbytes, np.uint8)
        self.header = m.header_of(self._room.data)
        self.vector: Array = self._room[m.BYTES :].view(like.dtype)[None]

    def fill(self, content: bytes) -> None:
        """Take what has come, which may be shorter than the room for it."""
        self._room.data[: len(content)] = content

    def hand_over(self, kind: int, header: m.Header, vector: Array) -> None:
        """Seal it as a message of this kind, and put it into a slot."""
        self.header[m.KIND] = kind
        self.header[m.CHECKSUM] = self.checksum
        np.copyto(vector, self.vector)
        header[1:] = self.header[1:]
        ordering.fence()
        header[m.KIND] = kind

    @property
    def checksum(self) -> int:
        """Of what is in here."""
        return m.checksum_of(self._room, len(self._room) - m.BYTES)

    @property
    def intact(self) -> bool:
        """Whether it is as it was sent."""
        return self.checksum == self.header[m.CHECKSUM]


def taken(header: m.Header, vector: Array) -> bytes:
    """The bytes of the message in a slot, which is empty then."""
    kind = header[m.KIND]
    ordering.fence()
    content = header.tobytes() + vector.tobytes()
    if header[m.KIND] == kind:
        header[m.KIND] = m.IDLE
    return content


class HostileProcessLink(ProcessLink):
    """A server's side of slots whose messages suffer.

    Args:
        pool: the host process and the shared memory.
        server: which one.
        network: the plan.
    """

    lossy = True

    def __init__(self, pool: Pool, server: int, network: HostileNetwork) -> None:
        super().__init__(pool, server)
        self._network = network
        self._wires: dict[int, HostileWire] = {}
        self._received = [Letter(vector) for vector in self._slots.gradients]
        self._sent = [Letter(vector) for vector in self._slots.points]
        self._asked: dict[int, tuple[int, int]] = {}  # count and version, until they are answered
        self._damaged = self._repeated = self._sent_again = 0

    def start(self, worker: int, incarnation: int) -> None:
        """Have the host fork a worker, to which another wire leads."""
        self._wires[worker] = HostileWire(self._network, Wire(self._server, worker, TO_SERVER, incarnation))
        super().start(worker, incarnation)

    def send(self, assignment: Assignment, point: Array) -> None:
        """Copy the point into the worker's slot, with a checksum, and wake it."""
        worker, count, version = assignment
        letter = self._sent[worker]
        self._asked[worker] = count, version
        np.copyto(letter.vector, point)
        m.put_assignment(letter.header, assignment, self._incarnation[worker])
        self._hand_over(worker)

    def send_again(self, worker: int) -> None:
        """Hand a slot over again, unless the answer lies in it, or nobody has taken the question."""
        if worker in self._asked and worker in self._incarnation and self._headers[worker][m.KIND] == m.IDLE:
            self._sent_again += 1
            self._hand_over(worker)

    def discard(self, worker: int, kind: str) -> None:
        """Kill the worker, and forget what it was asked."""
        self._asked.pop(worker, None)
        super().discard(worker, kind)

    def repairs(self) -> Repairs:
        """Messages that were damaged on either side, answers that came again, questions that were sent again."""
        return Repairs(self._damaged, self._repeated, self._sent_again)

    def _hand_over(self, worker: int) -> None:
        m.put_time(self._sent[worker].header)
        self._sent[worker].hand_over(m.WORK, self._headers[worker], self._slots.points[worker])
        self._wake_ups[worker].signal()

    def _collect(self) -> bool:
        """Take messages out of the slots, and out of the wires; whether there is one that was waited for."""
        now = time.monotonic()
        for worker, wire in self._wires.items():
            header, letter = self._headers[worker], self._received[worker]
            if header[m.KIND] in (m.DONE, m.AGAIN):
                wire.put(taken(header, self._slots.gradients[worker]), now)
            while (content := wire.take(now)) is not None:
                letter.fill(content)
                if (delivery := self._opened(worker, letter)) is not None:
                    self._delivered.insert(0, delivery)
                    break  # its vector is in the letter until it was looked at
        return bool(self._delivered)

    def _opened(self, worker: int, letter: Letter) -> Delivery | None:
        header = letter.header
        if not letter.intact or header[m.KIND] == m.AGAIN:
            self._damaged += 1
            self.send_again(worker)
        elif header[m.INCARNATION] == self._incarnation.get(worker):
            if self._asked.get(worker) == (header[m.COUNT], header[m.VERSION]):
                del self._asked[worker]
                return m.get_delivery(header, worker, letter.vector, m.seconds_taken(header))
            self._repeated += 1
        return None


class HostileSlotWorker(SlotWorker):
    """A worker's end of a slot whose messages suffer."""

    def __init__(self, potential: Potential, settings: dict[str, Any], link: socket.socket, *who: int) -> None:
        super().__init__(potential, settings, link, *who)
        server, worker, incarnation = who
        network = HostileNetwork(**settings["hostile"])
        self._wire = HostileWire(network, Wire(server, worker, TO_WORKER, incarnation))
        self._question, self._last_answer = Letter(self._point), Letter(self._gradient)
        self._last_answer.header[m.INCARNATION], self._last_answer.header[m.COUNT] = incarnation, -1

    def receive(self) -> Work | None:
        """Wait until something that is intact and new has come out of the wire."""
        header, question, answer = self._header, self._question, self._last_answer
        while not self._failed:
            if header[m.KIND] == m.STOP:
                return None
            if header[m.KIND] == m.WORK:
                self._wire.put(taken(header, self._point), time.monotonic())
            if (content := self._wire.take(time.monotonic())) is None:
                self._mine.wait_for(_POLL)
                continue
            question.fill(content)
            if not question.intact:
                self._send(m.AGAIN)
            elif question.header[m.INCARNATION] == self._incarnation:
                count = question.header[m.COUNT]
                if count > answer.header[m.COUNT]:
                    answer.header[m.COUNT], answer.header[m.VERSION] = count, question.header[m.VERSION]
                    answer.header[m.TIME] = question.header[m.TIME]
                    return Work(self._worker, count, question.vector, answer.vector)
                if count == answer.header[m.COUNT]:
                    m.echo_time(answer.header, question.header)
                    self._send(m.DONE)
        return None

    def deliver(self, nanoseconds: int) -> None:
        """Hand the slot, with the gradient in it, to the server."""
        self._last_answer.header[m.NANOSECONDS] = nanoseconds
        self._send(m.DONE)

    def _send(self, kind: int) -> None:
        if self._header[m.KIND] != m.STOP:
            self._last_answer.hand_over(kind, self._header, self._gradient)
            self._server.signal()
