"""A server's link to workers that call it from elsewhere: a :class:`stalegrad.engines.link.Link` over calls.

A worker *calls*: it brings what it has computed and waits for its next work, which is the answer. The server loop is
one thread and every call another; here they exchange.

A call may raise in the worker although it was executed here, and is then made again. Calls of a worker are therefore
numbered: (worker, incarnation, sequence) names one, its results are enqueued once, and a repeated call gets the
same answer again. A call is never held for long; an answer without work means: ask again, by the same number.
"""

import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from queue import Empty, SimpleQueue
from typing import Any, NamedTuple

import numpy as np

from stalegrad._internal.types import Array
from stalegrad.engines.checksum import checksum
from stalegrad.engines.link import Arrival, Delivery, Failure, LastSeen, Link, Ready, Repairs
from stalegrad.engines.ray.lanes import LaneAssignment
from stalegrad.potentials.wire.formats import EXACT, WireFormat
from stalegrad.protocol.admission import Assignment
from stalegrad.protocol.server import Gradient


class Call(NamedTuple):
    """What a worker brings and asks for.

    Args:
        worker: its number.
        incarnation: how often it had been replaced before.
        sequence: of the call, from 0.
        lanes: how many minibatches it wants at a time, see :mod:`stalegrad.engines.ray.lanes`.
        results: seconds and gradient of every minibatch that it was given.
        failure: the traceback of what kept it from computing the next one; it says no more after this.
    """

    worker: int
    incarnation: int
    sequence: int
    lanes: int = 1
    results: tuple[tuple[float, Gradient], ...] = ()
    failure: str | None = None


class Answer(NamedTuple):
    """What a worker is to do: assignments, each with the number of its point; none at all if it is to ask again."""

    assignments: tuple[tuple[Assignment, int], ...] = ()
    points: tuple[Any, ...] = ()
    checksums: tuple[int, ...] = ()


SUPERSEDED = Answer()
"""What a call is answered when the same worker has called again: nobody listens to this answer."""


@dataclass(eq=False)
class Point:
    """A copy of a chain's point, the workers that it has been given to, and whatever was made of it to be sent."""

    version: int
    values: Array
    readers: set[int] = field(default_factory=set)
    packed: Any = None
    checksum: int | None = None
    source: Any = None  # the array that it is a copy of

    def sum(self) -> int:
        """The checksum of the values, computed once for all readers."""
        if self.checksum is None:
            self.checksum = checksum(self.values.reshape(-1).view(np.uint8))
        return self.checksum

    def holds(self, version: int, source: Array) -> bool:
        """Whether this is a copy of it, of that version: some chains have a point of its own for each worker."""
        return self.version == version and bool(np.may_share_memory(self.source, source))


@dataclass
class _Session:
    """One incarnation of a worker. ``answer`` is notified when a call can be answered."""

    incarnation: int
    answer: threading.Condition
    last_seen: float | None = None  # when; None before its first sign of life
    sequence: int = -1  # of its latest call
    lanes: int = 0
    calls: int = 0  # that have come, of whatever number
    repairs: tuple[int, ...] = (0, 0, 0)  # of the worker's end
    enqueued: int = 0  # arrivals out of that call that the server's loop has yet to take
    waiting: list[tuple[Assignment, Point]] = field(default_factory=list)  # for its next call
    reply: list[tuple[Assignment, Point]] | None = None  # to the latest call
    gone: bool = False


class CallLink(Link):
    """One server's link to workers that call it.

    Args:
        start_worker: has a worker of this number and incarnation started somewhere; it returns at once.
        end_worker: ends a worker, if it is still there.
        held: seconds after which a call is answered even if there is no work.
        most_lanes: of a worker, however many it wants.
        pack: makes of a point what is sent of it.
        wire: how points and gradients travel.
        clock: in seconds.
    """

    def __init__(
        self,
        start_worker: Callable[[int, int], None],
        end_worker: Callable[[int], None],
        *,
        held: float = 5.0,
        most_lanes: int = 1,
        pack: Callable[[Point], Any] = lambda point: point.values,
        wire: WireFormat = EXACT,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._start_worker, self._end_worker, self._held = start_worker, end_worker, held
        self._most_lanes, self._pack, self._wire, self._clock = most_lanes, pack, wire, clock
        self._lock = threading.Lock()
        self._sessions: dict[int, _Session] = {}
        self._arrivals: SimpleQueue[Arrival] = SimpleQueue()
        self._unanswered: set[int] = set()  # workers for whom work is waiting
        self._point: Point | None = None  # the latest
        self._repairs = [0, 0, 0]  # of this end, and of workers that are gone

    # What the server loop does.

    def start(self, worker: int, incarnation: int) -> None:
        """Have a worker, or its replacement, started."""
        with self._lock:
            self._sessions[worker] = _Session(incarnation, threading.Condition(self._lock))
        self._start_worker(worker, incarnation)

    def send(self, assignment: LaneAssignment, point: Array) -> None:
        """Keep work for a worker. It gets all that is there when the loop next waits."""
        worker, wanted = assignment
        if self._point is None or not self._point.holds(wanted.version, point):
            values = self._wire.point.packed(point) if self._wire.rounds else point.copy()
            self._point = Point(wanted.version, values, source=point)
        self._point.readers.add(worker)
        with self._lock:
            self._sessions[worker].waiting.append((wanted, self._point))
            self._unanswered.add(worker)

    def receive(self, timeout: float) -> Arrival | None:
        """Let the calls be answered for which there is work, then wait for another."""
        self._answer_calls()
        try:
            arrival = self._arrivals.get(timeout=timeout)
        except Empty:
            return None
        with self._lock:
            session = self._sessions.get(arrival.worker)
            if session is not None and session.incarnation == arrival.incarnation:
                session.enqueued -= 1
        return arrival

    def discard(self, worker: int, kind: str) -> None:
        """Answer a worker's next call with the end, and have it ended."""
        self._end_session(worker)
        self._end_worker(worker)

    def close(self) -> None:
        """Answer all workers' calls with the end; one that computes gets it when it next calls."""
        for worker in list(self._sessions):
            self._end_session(worker)

    def last_seen(self) -> Iterable[LastSeen]:
        """When each worker that has called at all last called or gave a heartbeat."""
        now = self._clock()
        with self._lock:
            return [
                LastSeen(worker, session.incarnation, now - session.last_seen)
                for worker, session in self._sessions.items()
                if session.last_seen is not None
            ]

    def lanes(self, worker: int) -> int:
        """How many minibatches at a time a worker wants, as far as it may have them."""
        with self._lock:
            return self._sessions[worker].lanes

    def repairs(self) -> Repairs:
        """Calls and answers that were damaged, results that came again, and calls that were made again."""
        with self._lock:
            return Repairs(*map(sum, zip(self._repairs, *(s.repairs for s in self._sessions.values()), strict=True)))

    # What workers do, each in a thread of its own.

    def note_damaged(self) -> None:
        """A call has come that cannot be read."""
        with self._lock:
            self._repairs[0] += 1

    def exchange(self, call: Call, repairs: Repairs | None = None) -> Answer | None:
        """Enqueue a worker's results, unless they came before, and wait for its work; None if it is to end.

        :data:`SUPERSEDED` if the worker has called again meanwhile, and that call waits.
        """
        call = _copied(call, self._wire)
        with self._lock:
            session = self._sessions.get(call.worker)
            if session is None or session.incarnation != call.incarnation:
                return None
            session.last_seen = self._clock()
            session.repairs = repairs or session.repairs
            if call.sequence <= session.sequence and call.results:
                self._repairs[1] += 1
            if call.sequence < session.sequence:  # an echo, by which nobody is disturbed who waits
                return SUPERSEDED
            session.calls += 1
            number = session.calls
            if call.sequence > session.sequence:
                session.sequence, session.reply = call.sequence, None
                self._enqueue(call, session)
                self._unanswered.add(call.worker)
            session.answer.notify_all()  # of a worker that calls again, nobody waits for the call before
            session.answer.wait_for(
                lambda: session.gone or session.reply is not None or session.calls != number, timeout=self._held
            )
            if session.gone:
                return None
            if session.calls != number and (session.sequence != call.sequence or session.reply is None):
                return SUPERSEDED
            reply = session.reply or []
        points = list({id(point): point for _, point in reply}.values())
        numbers = {id(point): number for number, point in enumerate(points)}
        return Answer(
            tuple((assignment, numbers[id(point)]) for assignment, point in reply),
            tuple(self._pack(point) for point in points),
            tuple(point.sum() for point in points),
        )

    def heartbeat(self, worker: int, incarnation: int) -> bool:
        """A worker has given a sign of life; whether it is still wanted."""
        with self._lock:
            session = self._sessions.get(worker)
            if session is None or session.incarnation != incarnation:
                return False
            session.last_seen = self._clock()
            return True

    def lost(self, worker: int, incarnation: int, kind: str, details: str) -> None:
        """Note that a worker was seen to end."""
        with self._lock:
            session = self._sessions.get(worker)
            if session is not None and session.incarnation == incarnation:
                self._put(Failure(worker, incarnation, kind, details), session)

    def _enqueue(self, call: Call, session: _Session) -> None:
        worker, incarnation = call.worker, call.incarnation
        lanes = max(session.lanes, min(call.lanes, self._most_lanes))
        more = len(call.results) + (lanes > session.lanes) + (call.failure is not None)
        for seconds, gradient in call.results:
            more -= 1
            self._put(Delivery(worker, incarnation, seconds, gradient, more > 0), session)
        if call.failure is not None:
            self._put(Failure(worker, incarnation, "raised", call.failure), session)
        elif lanes > session.lanes:
            session.lanes = lanes
            self._put(Ready(worker, incarnation), session)

    def _put(self, arrival: Arrival, session: _Session) -> None:
        session.enqueued += 1
        self._arrivals.put(arrival)

    def _answer_calls(self) -> None:
        """Answer calls, once the loop has dealt with all that came in them: all lanes get work together."""
        with self._lock:
            for worker in list(self._unanswered):
                session = self._sessions.get(worker)
                if session is None:
                    self._unanswered.discard(worker)
                elif session.waiting and session.reply is None and session.sequence >= 0 and not session.enqueued:
                    session.reply, session.waiting = session.waiting, []
                    self._unanswered.discard(worker)
                    session.answer.notify_all()

    def _end_session(self, worker: int) -> None:
        with self._lock:
            session = self._sessions.pop(worker, None)
            self._unanswered.discard(worker)
            if session is not None:
                self._repairs = [here + there for here, there in zip(self._repairs, session.repairs, strict=True)]
                session.gone = True
                session.answer.notify_all()


def _copied(call: Call, wire: WireFormat) -> Call:
    """The call with copies of its gradients: those in shared memory are read-only, and stay while held."""
    copied = wire.gradient.unpacked if wire.rounds else np.array
    copies = ((seconds, gradient._replace(values=copied(gradient.values))) for seconds, gradient in call.results)
    return call._replace(results=tuple(copies))
