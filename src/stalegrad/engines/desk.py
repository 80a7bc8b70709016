"""The desk of a server whose workers call it from elsewhere: a :class:`stalegrad.engines.service.Link` over calls.

A worker *calls*: it brings what it has computed and waits for its next work, which is the answer. The server's loop is
one thread and every call another; here they meet.

A call may raise in the worker although it was executed here, and is then made again. Calls of a worker are therefore
numbered: (worker, incarnation, sequence) names one, its results are handed on once, and whoever asks again gets the
same answer again. A call is never held for long; an answer without work means: ask again, by the same number.
"""

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from queue import Empty, SimpleQueue
from typing import Any, NamedTuple

import numpy as np

from stalegrad.admission import Assignment
from stalegrad.engines.service import Arrival, Delivery, Failure, Ready
from stalegrad.server import Gradient
from stalegrad.types import Array

_LOOK = 0.2  # seconds between looks for workers that have fallen silent


class Call(NamedTuple):
    """What a worker says.

    Args:
        worker: its number.
        incarnation: how often it had been replaced before.
        sequence: of the call, from 0.
        lanes: how many minibatches it wants at a time, see :mod:`stalegrad.engines.service`.
        results: seconds and gradient of every minibatch that it was given.
        failure: the traceback of what kept it from computing the next one; it says no more after this.
    """

    worker: int
    incarnation: int
    sequence: int
    lanes: int = 1
    results: tuple[tuple[float, Gradient], ...] = ()
    failure: str | None = None


class Work(NamedTuple):
    """What a worker is to do: assignments, each with the number of its point; none at all if it is to ask again."""

    assignments: tuple[tuple[Assignment, int], ...] = ()
    points: tuple[Any, ...] = ()


@dataclass(eq=False)
class Point:
    """A copy of a chain's point, the workers that it has been given to, and whatever was made of it to be sent."""

    version: int
    values: Array
    readers: set[int] = field(default_factory=set)
    packed: Any = None
    source: Any = None  # the array that it is a copy of

    def holds(self, version: int, source: Array) -> bool:
        """Whether this is a copy of it, of that version: some chains have a point of its own for each worker."""
        return self.version == version and bool(np.may_share_memory(self.source, source))


@dataclass
class _Seat:
    """One incarnation of a worker, as the desk knows it. ``answer`` is notified when a call can be answered."""

    incarnation: int
    answer: threading.Condition
    heard: float | None = None  # when; None before its first sign of life
    sequence: int = -1  # of its latest call
    lanes: int = 0
    handed_on: int = 0  # arrivals out of that call that the server's loop has yet to take
    waiting: list[tuple[Assignment, Point]] = field(default_factory=list)  # for its next call
    reply: list[tuple[Assignment, Point]] | None = None  # to the latest call
    gone: bool = False


class Desk:
    """One server's desk.

    Args:
        workers: W.
        hire: has a worker of this number and incarnation started somewhere; it returns at once.
        dismiss: ends a worker, if it is still there.
        silence: seconds without a call or a :meth:`beat` after which a worker counts as dead; None for any number.
        held: seconds after which a call is answered even if there is no work.
        most_lanes: of a worker, however many it wants.
        pack: makes of a point what is sent of it.
        clock: in seconds.
    """

    def __init__(
        self,
        workers: int,
        hire: Callable[[int, int], None],
        dismiss: Callable[[int], None],
        *,
        silence: float | None = None,
        held: float = 5.0,
        most_lanes: int = 1,
        pack: Callable[[Point], Any] = lambda point: point.values,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._workers, self._hire, self._dismiss = workers, hire, dismiss
        self._silence, self._held = silence, held
        self._most_lanes, self._pack, self._clock = most_lanes, pack, clock
        self._lock = threading.Lock()
        self._seats: dict[int, _Seat] = {}
        self._arrivals: SimpleQueue[Arrival] = SimpleQueue()
        self._unposted: set[int] = set()  # workers for whom work is waiting
        self._point: Point | None = None  # the latest
        self._looked = clock()

    # What the server's loop does.

    def start(self, worker: int, incarnation: int) -> None:
        """Hire a worker, or its replacement."""
        with self._lock:
            self._seats[worker] = _Seat(incarnation, threading.Condition(self._lock))
        self._hire(worker, incarnation)

    def send(self, assignment: Assignment, point: Array) -> None:
        """Lay out work for a worker. It gets all that is there when the loop next waits."""
        worker = assignment.worker % self._workers
        if self._point is None or not self._point.holds(assignment.version, point):
            self._point = Point(assignment.version, point.copy(), source=point)
        self._point.readers.add(worker)
        with self._lock:
            self._seats[worker].waiting.append((assignment, self._point))
            self._unposted.add(worker)

    def receive(self, timeout: float) -> Arrival | None:
        """Let the calls be answered for which there is work, then wait for another."""
        self._post()
        if (silent := self._silent()) is not None:
            return silent
        try:
            arrival = self._arrivals.get(timeout=timeout)
        except Empty:
            return None
        with self._lock:
            seat = self._seats.get(arrival.worker)
            if seat is not None and seat.incarnation == arrival.incarnation:
                seat.handed_on -= 1
        return arrival

    def discard(self, worker: int) -> None:
        """Send a worker home when it next calls, and have it ended."""
        self._leave(worker)
        self._dismiss(worker)

    def close(self) -> None:
        """Send everybody home; whoever computes hears it at the end of that."""
        for worker in list(self._seats):
            self._leave(worker)

    # What workers do, each in a thread of its own.

    def exchange(self, call: Call) -> Work | None:
        """Hand on what a worker brings, unless it was brought before, and wait for its work; None sends it home."""
        call = _own(call)
        with self._lock:
            seat = self._seats.get(call.worker)
            if seat is None or seat.incarnation != call.incarnation:
                return None
            seat.heard = self._clock()
            if call.sequence > seat.sequence:
                seat.sequence, seat.reply = call.sequence, None
                self._hand_on(call, seat)
                self._unposted.add(call.worker)
            seat.answer.wait_for(
                lambda: seat.gone or seat.reply is not None or seat.sequence != call.sequence, timeout=self._held
            )
            if seat.gone:
                return None
            reply = (seat.reply if seat.sequence == call.sequence else None) or []
        points = list({id(point): point for _, point in reply}.values())
        numbers = {id(point): number for number, point in enumerate(points)}
        return Work(
            tuple((assignment, numbers[id(point)]) for assignment, point in reply),
            tuple(self._pack(point) for point in points),
        )

    def beat(self, worker: int, incarnation: int) -> bool:
        """A worker is still there; whether it is still wanted."""
        with self._lock:
            seat = self._seats.get(worker)
            if seat is None or seat.incarnation != incarnation:
                return False
            seat.heard = self._clock()
            return True

    def lost(self, worker: int, incarnation: int, kind: str, details: str) -> None:
        """Somebody has seen a worker end."""
        with self._lock:
            seat = self._seats.get(worker)
            if seat is not None and seat.incarnation == incarnation:
                self._put(Failure(worker, incarnation, kind, details), seat)

    @property
    def absent(self) -> int:
        """How many workers were hired and have not been heard of yet."""
        with self._lock:
            return sum(seat.heard is None for seat in self._seats.values())

    def _hand_on(self, call: Call, seat: _Seat) -> None:
        worker, incarnation = call.worker, call.incarnation
        lanes = max(seat.lanes, min(call.lanes, self._most_lanes))
        more = len(call.results) + (lanes > seat.lanes) + (call.failure is not None)
        for seconds, gradient in call.results:
            more -= 1
            self._put(Delivery(worker, incarnation, seconds, gradient, more > 0), seat)
        if call.failure is not None:
            self._put(Failure(worker, incarnation, "raised", call.failure), seat)
        elif lanes > seat.lanes:
            seat.lanes = lanes
            self._put(Ready(worker, incarnation, lanes), seat)

    def _put(self, arrival: Arrival, seat: _Seat) -> None:
        seat.handed_on += 1
        self._arrivals.put(arrival)

    def _post(self) -> None:
        """Answer calls. Not before the loop has dealt with all that came in a call: its lanes get work together."""
        with self._lock:
            for worker in list(self._unposted):
                seat = self._seats.get(worker)
                if seat is None:
                    self._unposted.discard(worker)
                elif seat.waiting and seat.reply is None and seat.sequence >= 0 and not seat.handed_on:
                    seat.reply, seat.waiting = seat.waiting, []
                    self._unposted.discard(worker)
                    seat.answer.notify_all()

    def _silent(self) -> Failure | None:
        now = self._clock()
        if self._silence is None or now - self._looked < _LOOK:
            return None
        self._looked = now
        with self._lock:
            for worker, seat in self._seats.items():
                if seat.heard is not None and now - seat.heard > self._silence:
                    details = f"no sign of life for {now - seat.heard:.1f} s: it was stopped, or its node is cut off"
                    return Failure(worker, seat.incarnation, "died", details)
        return None

    def _leave(self, worker: int) -> None:
        with self._lock:
            seat = self._seats.pop(worker, None)
            self._unposted.discard(worker)
            if seat is not None:
                seat.gone = True
                seat.answer.notify_all()


def _own(call: Call) -> Call:
    """The call with gradients of our own: those in shared memory are read-only, and stay there while they are held."""
    copies = ((seconds, gradient._replace(values=np.array(gradient.values))) for seconds, gradient in call.results)
    return call._replace(results=tuple(copies))
