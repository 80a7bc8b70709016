"""The one file that imports mpi4py: buffers in, buffers out, and waiting that leaves the processor to others.

MPICH's own waits burn a core each, so nothing here ever waits inside MPI: every transfer is started and then looked at,
with pauses (:mod:`stalegrad.engines.waiting`).
"""

import atexit
import ctypes
import json
import logging
import socket
import sys
import time
from collections.abc import Iterator, Sequence
from typing import Any, Self

import numpy as np
from mpi4py import MPI

from stalegrad._internal.types import Array, IntArray
from stalegrad.engines.mpi.express import Native
from stalegrad.engines.waiting import PollingSleep

_FLUSH = 0.5  # seconds; what a rank prints right before it ends the job may get lost
_PIECE = 1 << 30  # bytes of a message; older MPI libraries count in 31 bits

log = logging.getLogger("stalegrad")

Request = MPI.Prequest


class Channel:
    """Transfers between the ranks of a communicator of its own.

    Args:
        comm: the communicator.
    """

    def __init__(self, comm: MPI.Comm) -> None:
        self.comm = comm
        self.rank, self.size = comm.Get_rank(), comm.Get_size()

    @classmethod
    def among(cls, comm: MPI.Comm) -> Self:
        """A channel of its own among the ranks of a communicator; waits until all of them are there."""
        copy, request = comm.Idup()
        cls(comm).wait(request)
        return cls(copy)

    def sender(self, peer: int, tag: int, buffer: Array) -> Request:
        """A transfer that can be started again and again."""
        return self.comm.Send_init([buffer, MPI.BYTE], peer, tag)

    def receiver(self, peer: int, tag: int, buffer: Array) -> Request:
        """A transfer to this rank that can be started again and again. The message may be shorter than the buffer."""
        return self.comm.Recv_init([buffer, MPI.BYTE], peer, tag)

    def start(self, request: Request) -> None:
        """Start a transfer that is not under way."""
        request.Start()

    def done(self, request: MPI.Request) -> bool:
        """Whether a transfer is over, or was never started."""
        return request.Test()

    def some(self, requests: list[Request]) -> Sequence[int]:
        """Which of several transfers have come to their end since the last look."""
        return MPI.Request.Testsome(requests) or ()

    def native(self) -> Native | None:
        """How compiled code starts and tests transfers; None if the MPI library does not say where its functions are.

        Persistent transfers keep their handle, whose address is that in mpi4py's object, whatever a handle is.
        """
        try:
            library = ctypes.CDLL(MPI.__file__)
            start, test = (
                ctypes.cast(function, ctypes.c_void_p).value for function in (library.MPI_Start, library.MPI_Test)
            )
        except (OSError, AttributeError):
            return None
        if start is None or test is None:
            return None
        return Native(start, test, np.zeros(1, np.int64), np.zeros(-(-MPI._sizeof(MPI.Status) // 8), np.int64))

    def address_of(self, request: Request) -> int:
        """Where the handle of a transfer is."""
        return MPI._addressof(request)

    def wait(self, request: MPI.Request, timeout: float | None = None) -> bool:
        """Wait for the end of a transfer; whether it has come in time."""
        return PollingSleep(lambda: self.done(request))(timeout)

    def post(self, peer: int, tag: int, buffer: Array) -> MPI.Request:
        """Start a transfer that is made once; the buffer must be left alone until it is over."""
        return self.comm.Isend([buffer, MPI.BYTE], peer, tag)

    def send(self, peer: int, tag: int, array: Array) -> None:
        """Send an array of any size."""
        for piece in _pieces(array):
            self.wait(self.post(peer, tag, piece))

    def receive(self, peer: int, tag: int, array: Array) -> None:
        """Fill an array with what :meth:`send` sends."""
        for piece in _pieces(array):
            self.wait(self.comm.Irecv([piece, MPI.BYTE], peer, tag))

    def broadcast(self, array: Array) -> None:
        """Give an array of rank 0 to all."""
        for piece in _pieces(array):
            self.wait(self.comm.Ibcast([piece, MPI.BYTE], 0))

    def all_gather(self, numbers: Sequence[int]) -> IntArray:
        """The numbers of every rank, (rank, number)."""
        mine = np.array(numbers, np.int64)
        table = np.empty((self.size, len(mine)), np.int64)
        self.wait(self.comm.Iallgather(mine, table))
        return table

    def barrier(self, timeout: float | None = None) -> bool:
        """Wait until all ranks are here; whether they have come in time."""
        return self.wait(self.comm.Ibarrier(), timeout)

    def send_facts(self, peer: int, tag: int, facts: dict[str, Any], arrays: Sequence[Array] = ()) -> None:
        """Send plain data, and arrays beside it."""
        content = _encoded(facts, arrays)
        for part in (np.array([len(content)]), content, *arrays):
            self.send(peer, tag, part)

    def receive_facts(self, peer: int, tag: int) -> tuple[dict[str, Any], list[Array]]:
        """Receive what :meth:`send_facts` sends."""
        length = np.empty(1, np.int64)
        self.receive(peer, tag, length)
        content = np.empty(int(length[0]), np.uint8)
        self.receive(peer, tag, content)
        facts, arrays = _decoded(content)
        for array in arrays:
            self.receive(peer, tag, array)
        return facts, arrays

    def broadcast_facts(
        self, facts: dict[str, Any], arrays: Sequence[Array] = ()
    ) -> tuple[dict[str, Any], list[Array]]:
        """Give plain data of rank 0, and arrays beside it, to all. What the others give is not looked at."""
        content = _encoded(facts, arrays)
        length = np.array([len(content)])
        self.broadcast(length)
        if self.rank:
            content = np.empty(int(length[0]), np.uint8)
        self.broadcast(content)
        received, theirs = _decoded(content)
        result = theirs if self.rank else list(arrays)
        for array in result:
            self.broadcast(array)
        return received, result

    def free_requests(self, *requests: Request) -> None:
        """Free transfers that are not under way."""
        for request in requests:
            request.Free()

    def free(self) -> None:
        """Free the communicator, on all its ranks."""
        self.comm.Free()


def _pieces(array: Array) -> Iterator[Array]:
    assert array.flags.c_contiguous, "others cannot be filled in place"
    content = array.reshape(-1).view(np.uint8)
    for first in range(0, len(content), _PIECE):
        yield content[first : first + _PIECE]


def _encoded(facts: dict[str, Any], arrays: Sequence[Array]) -> Array:
    kinds = [(array.dtype.str, array.shape) for array in arrays]
    return np.frombuffer(json.dumps({"facts": facts, "arrays": kinds}).encode(), np.uint8)


def _decoded(content: Array) -> tuple[dict[str, Any], list[Array]]:
    message = json.loads(bytes(content))
    return message["facts"], [np.empty(shape, dtype) for dtype, shape in message["arrays"]]


# ------------------------------------------------------------------------------------------------ the end of the job


class Exit:
    """What this rank owes the others when it exits.

    While a run is under way they wait for this rank: if it exits then, whatever the reason, it must end the whole job.
    After the run they wait for nothing, but a transfer may still be on its way, so all leave together.
    """

    def __init__(self) -> None:
        self.awaited = False
        self.last: Channel | None = None
        """The channel whose barrier all leave together."""
        self.patience = 60.0
        """Seconds that rank 0 then waits for workers that are still computing, and may hang."""
        atexit.register(self._leave)

    def _leave(self) -> None:
        if MPI.Is_finalized():
            return
        sys.stdout.flush()
        if self.awaited:
            where = f"rank {MPI.COMM_WORLD.Get_rank()} on {socket.gethostname()}"
            print(f"{where} has ended before the run was over: the whole job ends", file=sys.stderr)
        sys.stderr.flush()
        if self.awaited or hasattr(sys, "last_value"):  # a traceback has been printed: let the launcher pass it on
            time.sleep(_FLUSH)
        if self.awaited and MPI.COMM_WORLD.Get_size() > 1:
            MPI.COMM_WORLD.Abort(1)
        if self.last is not None and not self.last.barrier(None if self.last.rank else self.patience):
            log.warning("some workers do not answer; the run is complete, and the job ends without them")
            time.sleep(_FLUSH)
            MPI.COMM_WORLD.Abort(0)


exiting = Exit()


def world() -> MPI.Comm:
    """All ranks that were started together."""
    return MPI.COMM_WORLD
