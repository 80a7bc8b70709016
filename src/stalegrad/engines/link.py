"""How a server reaches its workers: what arrives, and the :class:`Link` that every engine makes of its transport."""

from collections.abc import Iterable
from typing import Any, NamedTuple, Protocol

from stalegrad._internal.types import Array
from stalegrad.protocol.server import Gradient


class Ready(NamedTuple):
    """A worker has started and wants work; or it has some already and can take more."""

    worker: int
    incarnation: int


class Delivery(NamedTuple):
    """A worker has computed what it was asked for, in so many seconds.

    With ``more``, something else of the same message follows at once: no worker is given work before the last of it.
    Over links that may lose messages, ``taken`` are the seconds since the message was sent that it answers.
    """

    worker: int
    incarnation: int
    seconds: float
    gradient: Gradient
    more: bool = False
    taken: float = 0.0


class Failure(NamedTuple):
    """A worker is gone, or could not compute what it was asked for."""

    worker: int
    incarnation: int
    kind: str
    details: str


Arrival = Ready | Delivery | Failure


class LastSeen(NamedTuple):
    """How many seconds ago a worker's last message or heartbeat came.

    >>> [seen.worker for seen in (LastSeen(0, 0, age=0.2), LastSeen(1, 0, age=31.0)) if seen.age > 30]
    [1]
    """

    worker: int
    incarnation: int
    age: float


class Repairs(NamedTuple):
    """What a link has made good: messages that were damaged, that came again, and that were sent again."""

    damaged: int = 0
    repeated: int = 0
    sent_again: int = 0


class Express(Protocol):
    """Stands in for a server loop while gradients come that need no decision: see ``engines/mpi/express.py``."""

    def due(self) -> bool:
        """A gradient has been dealt with: whether those that follow are likely to come as fast."""
        ...

    def run(self) -> tuple[int, float, float]:
        """Deal with gradients while they come; how many did, seconds computing them, and seconds in this call."""
        ...


class Link(Protocol):
    """How one server reaches its workers. Messages of an incarnation that was discarded may still arrive."""

    lossy: bool = False
    """Whether a message may get lost, so that :meth:`send_again` must be asked for what is not answered in time."""

    def start(self, worker: int, incarnation: int) -> None:
        """Start a worker, or its replacement; it announces itself with :class:`Ready`."""
        ...

    def send(self, assignment: Any, point: Array) -> None:
        """Give a worker an assignment, as its server makes them, and a copy of the point."""
        ...

    def receive(self, timeout: float) -> Arrival | None:
        """The next arrival, or None when nothing has come for so many seconds."""
        ...

    def discard(self, worker: int, kind: str) -> None:
        """Have nothing more to do with this worker, for a fault of this kind; end it if that is possible."""
        ...

    def close(self) -> None:
        """End all workers and free what they used."""
        ...

    def send_again(self, worker: int) -> None:
        """Send a worker again what it has not answered. It is meant as one message, however often it arrives."""
        return

    def express(self, server: Any, lifecycle: Any, seconds: float) -> Express | None:
        """What deals with gradients that come thick and fast, faster than the server loop can; None if nothing does.

        Args:
            server: the server whose link this is.
            lifecycle: of its workers.
            seconds: since the run's start.
        """
        return None

    def repairs(self) -> Repairs:
        """What has been made good so far."""
        return Repairs()

    def last_seen(self) -> Iterable[LastSeen]:
        """When each worker's last message or heartbeat came; none on links that have no heartbeats."""
        return ()
