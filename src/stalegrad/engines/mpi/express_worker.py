"""From one gradient to the next without Python: a worker's counterpart of :mod:`stalegrad.engines.mpi.express`.

A worker of a model in Python comes back to Python for its gradient alone, while the waits for its points are brief: the
answer is sealed and sent, and the next question received and checked, in one compiled call. What is not a plain
question, and one that does not come in a moment, is left to :class:`stalegrad.engines.mpi.rank_worker.RankWorker`.
"""

import threading
from typing import Any

import numpy as np
from numba import carray  # type: ignore[attr-defined]

from stalegrad._internal.jit import compiled
from stalegrad._internal.native_calls import call_with_one, pointer
from stalegrad.engines import message as m
from stalegrad.engines.checksum import of_parts
from stalegrad.engines.clock import nanoseconds_now
from stalegrad.engines.mpi.connection import Connection
from stalegrad.engines.mpi.express import Native, over, yield_core

FIRST = 200
"""So many brief waits are made before anything is compiled or loaded."""
_PATIENCE = 200_000  # nanoseconds
RECEIVING, SENDING, INCOMING, OUTGOING, INCARNATION, LATEST = range(6)
NOTHING, UNSENT, OTHER, PLAIN = range(4)
"""What :func:`turn_around` returns: the answer is sent, and nothing has come yet; something had come before the answer
was sent, which it is not; the answer is sent and something has come that is left to Python; a plain question has."""


@compiled
def turn_around(lane, native, length, nanoseconds):  # type: ignore[no-untyped-def]
    """Send the gradient that is in the outgoing packet, and wait for a moment for the next question.

    Args:
        lane: addresses of the handles of RECEIVING and SENDING and of the packets INCOMING and OUTGOING; INCARNATION of
            the worker, and the LATEST minibatch that it was asked for.
        native: a :class:`~stalegrad.engines.mpi.express.Native`.
        length: bytes of a vector.
        nanoseconds: that the gradient took.
    """
    spec = np.empty(2, np.int64)
    asked = carray(pointer(lane[INCOMING]), 8, np.int64)
    answer = carray(pointer(lane[OUTGOING]), 8, np.int64)
    answer[m.KIND], answer[m.INCARNATION], answer[m.NANOSECONDS] = m.DONE, lane[INCARNATION], nanoseconds
    answer[m.COUNT], answer[m.VERSION], answer[m.TIME] = asked[m.COUNT], asked[m.VERSION], asked[m.TIME]
    call_with_one(native.start, lane[RECEIVING])
    if over(native, lane[RECEIVING]):
        return UNSENT
    whole = carray(pointer(lane[OUTGOING]), m.BYTES + length, np.uint8)
    answer[m.CHECKSUM] = of_parts(whole, 8 * m.CHECKSUM, m.BYTES, length)
    call_with_one(native.start, lane[SENDING])
    begun = nanoseconds_now(spec)
    while not over(native, lane[RECEIVING]):
        if nanoseconds_now(spec) - begun > _PATIENCE:
            return NOTHING
        yield_core()
    question = carray(pointer(lane[INCOMING]), m.BYTES + length, np.uint8)
    if asked[m.KIND] != m.WORK or asked[m.LENGTH] != length or asked[m.INCARNATION] != lane[INCARNATION]:
        return OTHER
    if asked[m.COUNT] <= lane[LATEST]:
        return OTHER
    if of_parts(question, 8 * m.CHECKSUM, m.BYTES, length) != asked[m.CHECKSUM] or not over(native, lane[SENDING]):
        return OTHER
    lane[LATEST] = asked[m.COUNT]
    return PLAIN


class ExpressWorker:
    """The compiled way of a worker with one server.

    Args:
        connection: to the server.
        native: how MPI is called from compiled code.
        addresses: of the handles of the connection's transfers, receiving first.
    """

    def __init__(self, connection: Connection, native: Native, addresses: tuple[int, int]) -> None:
        self._native, self._length = native, connection.outgoing.header[m.LENGTH]
        packets = connection.incoming.room.ctypes.data, connection.outgoing.room.ctypes.data
        self._lane = np.array([*addresses, *packets, 0, -1], np.int64)
        self._left = FIRST
        self._compiled = False

    @classmethod
    def if_possible(cls, connection: Any) -> "ExpressWorker | None":
        """That of a connection whose transfers compiled code can call, and whose vectors travel as they are."""
        if type(connection) is not Connection or not (connection.incoming.exact and connection.outgoing.exact):
            return None
        native = connection.channel.native()
        if native is None:
            return None
        channel: Any = connection.channel
        receiving, sending = connection.transfers
        return cls(connection, native, (channel.address_of(receiving), channel.address_of(sending)))

    def due(self) -> bool:
        """A wait was brief: whether the compiled way is at hand. It is compiled, or loaded, beside the worker."""
        if self._left > 0:
            self._left -= 1
            if self._left == 0:
                threading.Thread(target=self._compile, name="stalegrad-compiler", daemon=True).start()
        return self._compiled

    def _compile(self) -> None:
        arguments = self._lane, self._native, self._length, 0
        turn_around.compile(tuple(turn_around.typeof_pyval(argument) for argument in arguments))
        self._compiled = True

    def turn_around(self, incarnation: int, latest: int, nanoseconds: int) -> int:
        """See :func:`turn_around`, for this incarnation of the worker, which was asked for minibatch ``latest``."""
        self._lane[INCARNATION], self._lane[LATEST] = incarnation, latest
        found: int = turn_around(self._lane, self._native, self._length, nanoseconds)
        return found
