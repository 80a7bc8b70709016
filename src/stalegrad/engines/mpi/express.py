"""Small messages without Python: while gradients come thick and fast, one compiled call deals with all of them.

The server loop stays what it was, and what is out of the ordinary is left to it: :func:`exchange` receives, checks,
updates and sends as long as everything that comes is an intact gradient that was asked for. Anything else it hands
back, as it does when nothing has come for a moment, so that an idle server sleeps as before. Then
:class:`Express` tells server and lifecycle what has happened meanwhile. The trace, and so the replay, are the same.

It is for servers that hand a worker its next point at once, ``policy="drop"``, with a constant step size.
"""

import threading
import time
from typing import Any, NamedTuple, Protocol

import numpy as np
from numba import carray, njit, types  # type: ignore[attr-defined]

from stalegrad._internal.jit import compiled, is_compiled
from stalegrad._internal.native_calls import call_with_one, call_with_three, pointer
from stalegrad._internal.types import IntArray
from stalegrad.engines import message as m
from stalegrad.engines.checksum import of_parts
from stalegrad.engines.clock import CLOCK, nanoseconds_now
from stalegrad.engines.lifecycle import Lifecycle
from stalegrad.engines.segment import (
    ACCEPTED,
    MINIBATCH,
    NANOSECONDS,
    STALENESS,
    TOOK,
    WORKER,
    next_segment,
    trace_rows,
)
from stalegrad.kernels.noise.philox import MAX_COUNT
from stalegrad.kernels.schedules import Constant
from stalegrad.protocol.admission import Assignment
from stalegrad.protocol.chain import all_finite
from stalegrad.protocol.server import Server
from stalegrad.protocol.turn import CompiledChain, keep_if_due, make_update

WORTH_COMPILING, WORTH_LOADING = 50_000, 2_000
"""So many updates are worth compiling the loop for a kernel, and loading one that was compiled before."""
FIRST = 200
"""So many gradients that have come fast are waited for before anything is compiled."""
_LONGEST = 50_000_000  # nanoseconds in one call; others than workers are polled in between
_QUIET = 200_000  # nanoseconds without an arrival after which the server loop goes on, and sleeps
_BRIEF = 2 * _QUIET  # nanoseconds between arrivals at the server loop that come fast
_FEW = (
    8  # landings of a call that were not worth it; then so many arrivals are left to the server loop, and twice as many
)
_MOST_LEFT = 1 << 10
_UPDATES = 1 << 13

OPEN, FLYING, COUNT, READ, SINCE, ANSWERS, ANSWERING, COMPUTING, INCARNATION = range(9)
RECEIVING, SENDING, INCOMING, OUTGOING = range(9, 13)
_FIELDS = 13
QUIET, HANDED_BACK, ENDED = range(3)
"""Why :func:`exchange` returns: nothing comes, or it has taken long; a message that it leaves to the server loop has
come; the last update is made."""


class Native(NamedTuple):
    """Functions of the MPI library, by address, and memory for a status: see :meth:`Channel.native`."""

    start: int
    test: int
    flag: IntArray
    status: IntArray


class ExpressLink(Protocol):
    """What is asked of a link of MPI: see :class:`stalegrad.engines.mpi.link.MpiLink`."""

    connections: dict[int, Any]

    def native(self) -> Native | None:
        """How compiled code calls what carries the messages; None if it cannot."""
        ...

    def addresses(self, connection: Any) -> tuple[int, ...]:
        """Where the handles of a connection's transfers and its packets are, incoming first."""
        ...

    @property
    def has_arrivals(self) -> bool:
        """Whether messages have come that are still to be given to the server loop; there is room for all others."""
        ...

    def is_open(self, worker: int) -> bool:
        """Whether an answer of this worker may come: it was asked for work, and there is room."""
        ...

    def incarnation(self, worker: int) -> int:
        """The present one of a worker."""
        ...

    def handed_back(self, worker: int, *, read: bool) -> None:
        """Compiled code has received a message of this worker: whether it has read it, or leaves it to be read."""
        ...


yield_core: Any = types.ExternalFunction("sched_yield", types.int32())


@njit
def over(native, request):  # type: ignore[no-untyped-def]
    """Whether a transfer is over."""
    call_with_three(native.test, request, native.flag.ctypes.data, native.status.ctypes.data)
    return native.flag.view(np.int32)[0] != 0


@njit
def _plain(lane, header, message, length):  # type: ignore[no-untyped-def]
    """Whether a message is the intact gradient that this worker was asked for."""
    if header[m.KIND] != m.DONE or header[m.LENGTH] != length or header[m.INCARNATION] != lane[INCARNATION]:
        return False
    if header[m.COUNT] != lane[COUNT] or header[m.VERSION] != lane[READ]:
        return False
    return of_parts(message, 8 * m.CHECKSUM, m.BYTES, length) == header[m.CHECKSUM]


@compiled
def exchange(lanes, native, chain, segment, largest, begun, progress):  # type: ignore[no-untyped-def]
    """Deal with gradients until none comes or something else does; returns why, and whose message is handed back.

    Args:
        lanes: for each worker: OPEN, whether its answer may come; FLYING, COUNT and READ: whether it computes, which
            minibatch, at which version; SINCE when; how many ANSWERS came, and nanoseconds ANSWERING, from question to
            answer, and COMPUTING; INCARNATION; addresses of the handles of RECEIVING and SENDING and of the packets
            INCOMING and OUTGOING.
        native: a :class:`Native`.
        chain: a :class:`~stalegrad.protocol.turn.CompiledChain`.
        segment: a :class:`~stalegrad.engines.segment.Segment`.
        largest: τ, negative for no bound.
        begun: when the run began, in nanoseconds.
        progress: version, rows written and the entry of the next draw; afterwards as they are then.
    """
    spec = np.empty(2, np.int64)
    point = chain.sent[0]
    n, length = point.shape[0], point.shape[0] * point.itemsize
    first = last = nanoseconds_now(spec)
    while True:
        found = False
        for worker in range(lanes.shape[0]):
            lane = lanes[worker]
            if lane[OPEN] == 0 or not over(native, lane[RECEIVING]):
                continue
            header = carray(pointer(lane[INCOMING]), 8, np.int64)
            message = carray(pointer(lane[INCOMING]), m.BYTES + length, np.uint8)
            gradient = carray(pointer(lane[INCOMING] + m.BYTES), (1, n), point.dtype)
            version, row = progress[0], progress[1]
            full = version == segment.last or row == segment.rows.shape[0] or lane[COUNT] + 1 >= MAX_COUNT
            lane[OPEN] = 0
            if full or not _plain(lane, header, message, length) or not all_finite(gradient):
                return HANDED_BACK, worker
            came = nanoseconds_now(spec)
            lane[ANSWERS] += 1
            lane[ANSWERING] += came - lane[SINCE]
            lane[COMPUTING] += header[m.NANOSECONDS]
            staleness = version - lane[READ]
            accepted = largest < 0 or staleness <= largest
            if accepted:
                update = version - segment.first
                make_update(
                    chain.state, chain.momentum, chain.point, chain.sent, chain.linear,
                    segment.ahead[0 if segment.ahead.shape[0] == 1 else update], gradient, segment.coefficients[0],
                    chain.key, chain.chain, chain.first_repeat, version,
                )  # fmt: skip
                version += 1
                progress[0] = version
                progress[2] = keep_if_due(
                    segment.window, progress[2], version, chain.state.position, gradient, chain.momentum
                )
            written = segment.rows[row]
            written[WORKER], written[MINIBATCH] = worker, lane[COUNT]
            written[STALENESS], written[ACCEPTED] = staleness, accepted
            written[NANOSECONDS], written[TOOK] = came - begun, header[m.NANOSECONDS]
            progress[1] = row + 1
            last, found = came, True
            if version == progress[3]:
                lane[FLYING] = 0
                return ENDED, worker
            lane[COUNT] += 1
            lane[READ] = version
            while not over(native, lane[SENDING]):  # it was answered, so that it has long been received
                yield_core()
            asked = carray(pointer(lane[OUTGOING]), 8, np.int64)
            lane[SINCE] = nanoseconds_now(spec)
            asked[m.COUNT], asked[m.VERSION], asked[m.TIME] = lane[COUNT], version, lane[SINCE]
            vector = carray(pointer(lane[OUTGOING] + m.BYTES), n, point.dtype)
            for i in range(n):
                vector[i] = point[i]
            question = carray(pointer(lane[OUTGOING]), m.BYTES + length, np.uint8)
            asked[m.CHECKSUM] = of_parts(question, 8 * m.CHECKSUM, m.BYTES, length)
            call_with_one(native.start, lane[RECEIVING])
            call_with_one(native.start, lane[SENDING])
            lane[OPEN] = 1
        now = nanoseconds_now(spec)  # after looking: what came while others had the core has come in time
        if now - first > _LONGEST or (not found and now - last > _QUIET):
            return QUIET, -1
        if not found:
            yield_core()


class Express:
    """Deals with gradients that come thick and fast on behalf of a server loop.

    Args:
        link: to the workers.
        native: how MPI is called from compiled code.
        server: whose chain is advanced.
        lifecycle: of the workers.
        begun: when the run began, on the monotonic clock, in nanoseconds.
    """

    def __init__(self, link: ExpressLink, native: Native, server: Server, lifecycle: Lifecycle, begun: int) -> None:
        self._link, self._native, self._server, self._lifecycle, self._begun = link, native, server, lifecycle, begun
        self._chain = CompiledChain.of(server.chain)
        largest = server.admission.max_staleness
        self._largest = -1 if largest is None else largest
        self._lanes = np.zeros((len(link.connections), _FIELDS), np.int64)
        for worker, connection in link.connections.items():
            self._lanes[worker, RECEIVING:] = link.addresses(connection)
        self._arrived = 0  # when the last gradient came to the server loop
        self._left, self._leaving = FIRST, _FEW  # arrivals that are left to the server loop, and how many next time
        self._compiler: threading.Thread | None = None
        self._compiled = False

    @classmethod
    def if_possible(cls, link: ExpressLink, server: Any, lifecycle: Lifecycle, seconds: float) -> "Express | None":
        """That of a link whose server it can stand in for."""
        native = link.native()
        if native is None or not isinstance(server, Server) or server.admission.policy != "drop":
            return None
        if not isinstance(server.chain.kernel.schedule, Constant) or not server.compiles:
            return None
        return cls(link, native, server, lifecycle, time.clock_gettime_ns(CLOCK) - round(seconds * 1e9))

    def due(self) -> bool:
        """A gradient has been dealt with: whether those that follow are likely to come as fast, and all is compiled.

        It is compiled beside the server loop, once enough gradients have come fast.
        """
        now = time.clock_gettime_ns(CLOCK)
        brief, self._arrived = now - self._arrived < _BRIEF, now
        if not brief:
            return False
        if self._left > 0:
            self._left -= 1
            if self._left == 0 and self._compiler is None:
                self._compiler = threading.Thread(
                    target=self._compile, args=(self._arguments(self._segment()[0]),), daemon=True,
                    name="stalegrad-compiler",
                )  # fmt: skip
                self._compiler.start()
            return False
        return self._compiled

    def _compile(self, arguments: tuple[Any, ...]) -> None:
        """Have the loop compiled, or loaded, if the updates that are left are worth it."""
        left = self._server.steps - self._server.chain.version
        if left >= WORTH_COMPILING or (left >= WORTH_LOADING and is_compiled(exchange, arguments)):
            exchange.compile(tuple(exchange.typeof_pyval(argument) for argument in arguments))
            self._compiled = True

    def run(self) -> tuple[int, float, float]:
        """Deal with gradients while they come; how many did, seconds computing them, and seconds in this call."""
        server, begun = self._server, time.perf_counter()
        if self._link.has_arrivals or server.admission.held or server.done:
            return 0, 0.0, 0.0
        lanes = self._lanes
        self._enter(lanes)
        (segment, step_sizes), first = self._segment(), server.chain.version
        progress = np.array([first, 0, segment.window.entry, server.steps])
        arguments = (lanes, self._native, self._chain, segment, self._largest, self._begun, progress)
        why, worker = exchange(*arguments)
        version, rows = int(progress[0]), int(progress[1])
        if rows:
            server.went_on(trace_rows(segment.rows[:rows], step_sizes[: version - first]), self._flights(lanes, worker))
        for number in np.flatnonzero(lanes[:, ANSWERS]).tolist():
            answers, taken = int(lanes[number, ANSWERS]), float(lanes[number, ANSWERING])
            since = (int(lanes[number, SINCE]) - self._begun) * 1e-9 if lanes[number, FLYING] else None
            self._lifecycle.exchanged(number, answers, 1e-9 * taken / answers, since)
        if why != QUIET:
            self._link.handed_back(worker, read=why == ENDED)
        if rows < _FEW:
            self._left, self._leaving = self._leaving, min(2 * self._leaving, _MOST_LEFT)
        else:
            self._leaving = _FEW
        self._arrived = time.clock_gettime_ns(CLOCK)
        return rows, float(lanes[:, COMPUTING].sum()) * 1e-9, time.perf_counter() - begun

    def _segment(self) -> Any:
        server = self._server
        return next_segment(server.chain, server.record, 0, server.steps, _UPDATES)

    def _arguments(self, segment: Any) -> tuple[Any, ...]:
        progress = np.zeros(4, np.int64)
        return self._lanes, self._native, self._chain, segment, self._largest, self._begun, progress

    def _enter(self, lanes: IntArray) -> None:
        """What the server loop knows of the workers."""
        now = time.clock_gettime_ns(CLOCK)
        lanes[:, :RECEIVING] = 0
        for worker, count, version in self._server.admission.flying:
            lanes[worker, :RECEIVING] = (
                self._link.is_open(worker), 1, count, version, now, 0, 0, 0, self._link.incarnation(worker)
            )  # fmt: skip

    def _flights(self, lanes: IntArray, worker: int) -> list[Assignment]:
        """Who computes what now, oldest first."""
        flying = [
            Assignment(number, int(lane[COUNT]), int(lane[READ])) for number, lane in enumerate(lanes) if lane[FLYING]
        ]
        return sorted(flying, key=lambda flight: flight.version)
