"""What an engine is: it moves messages between servers and workers, and holds no sampling logic."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import ClassVar, Protocol

from stalegrad._internal.errors import StalegradError
from stalegrad._internal.text import printable
from stalegrad._internal.types import Array
from stalegrad.engines.hostile_network import HostileNetwork
from stalegrad.engines.team import SingleProcess, Team
from stalegrad.potentials.base import Potential
from stalegrad.protocol.chain import Chain, Record
from stalegrad.protocol.chain_trace import ChainTrace
from stalegrad.protocol.collector import DrawBlock, DrawCollector
from stalegrad.protocol.past import Past
from stalegrad.protocol.server import ChainStatus
from stalegrad.protocol.settings import Settings


@dataclass(frozen=True)
class Job:
    """What is to be run: S servers with W workers each, L updates a server.

    Args:
        potential: the model as workers see it.
        settings: of the run.
        chain: makes the chain of server s at its start.
        record: gives the recorder of server s.
        status: what each server shows of itself while the run goes on.
        past: what has happened to each chain until now, where a run goes on that had stopped.
        checkpoint: gives what saves the chain of server s from time to time.
        recording: where the draws are, for engines whose servers are in other processes.
        team: those processes.
        stop_requests: what ends the run early, while it goes on: its engine puts it there.
    """

    potential: Potential
    settings: Settings
    chain: Callable[[int], Chain]
    record: Callable[[int], Record]
    status: tuple[ChainStatus, ...]
    past: tuple[Past, ...] = ()
    checkpoint: Callable[[int], "Checkpoint"] | None = None
    recording: "Recording | None" = None
    team: Team | None = None
    stop_requests: list[Callable[[], None]] = field(default_factory=list, compare=False, repr=False)

    def ask_to_stop(self) -> None:
        """Have the run end early, as Ctrl-C does, from any thread. Does nothing before it has begun or after it."""
        for ask in list(self.stop_requests):
            ask()

    def hurry(self) -> None:
        """The run is asked to stop: whoever records it is not to wait for long."""
        if self.recording is not None:
            self.recording.hurry()

    def past_of(self, server: int) -> Past | None:
        """What happened to a chain before this run, or None."""
        return self.past[server] if self.past else None


@dataclass(frozen=True)
class Event:
    """Something that went wrong with a worker, or with a server in a process of its own, while the run went on.

    Args:
        time: seconds since the start.
        chain: the server it belonged to.
        worker: its number; None for the server itself.
        kind: ``"raised"``, ``"died"``, ``"hung"`` or ``"refused"`` (its gradient was unusable).
        details: the worker's own traceback, the signal that ended it, or why its gradient was refused.

    >>> Event(time=12.5, chain=0, worker=3, kind="died", details="it was killed by SIGKILL").kind
    'died'
    """

    time: float
    chain: int
    worker: int | None
    kind: str
    details: str

    def __str__(self) -> str:
        who = "the server" if self.worker is None else f"worker {self.worker}"
        return printable(f"[{self.time:.1f} s] {who} of chain {self.chain} {self.kind}: {self.details}")


class Checkpoint(Protocol):
    """Saves one chain from time to time. An engine asks it between updates, and at the end in any case.

    Rows of the trace that it has been given are kept by nobody else.
    """

    most_rows: int
    """So many rows of the trace may wait for the next save; more are to be added before it."""

    def due(self) -> bool:
        """Whether it is time to save the chain again."""
        ...

    def add(self, rows: ChainTrace) -> None:
        """Take over the next rows of the trace, which count from the next :meth:`save` on."""
        ...

    def save(self, chain: Chain, events: Sequence[Event]) -> None:
        """Save the chain, with the rows that have been added, and the faults of its workers."""
        ...


class Advancing(Protocol):
    """Whoever advances a chain and writes down the rows of its trace: a server, or an executor."""

    @property
    def chain(self) -> Chain:
        """The chain as it is now."""
        ...

    @property
    def waiting(self) -> int:
        """How many rows have not been taken."""
        ...

    def take_rows(self) -> ChainTrace:
        """The rows since the last time; from now on they are the caller's."""
        ...


def keep_up(checkpoint: Checkpoint | None, of: Advancing, events: Sequence[Event], *, last: bool = False) -> None:
    """Between two updates: save the chain if it is time, or ``last``; else hand over the rows if there are many."""
    if checkpoint is None:
        return
    if last or checkpoint.due():
        checkpoint.add(of.take_rows())
        checkpoint.save(of.chain, events)
    elif of.waiting >= checkpoint.most_rows:
        checkpoint.add(of.take_rows())


class Recording(Protocol):
    """Where the draws of a run are kept. Each process has its own, with the chains of the servers that it runs."""

    def hurry(self) -> None:
        """The run is asked to stop: do not wait for what may take long, such as a disk that is full."""
        ...

    def settle(self) -> StalegradError | None:
        """Wait until all that was recorded here is safe; why it is not, if that ends the run."""
        ...

    def arrays(self, server: int) -> tuple[Array, ...]:
        """What is recorded here of a chain and cannot be seen by other processes."""
        ...

    def reserve(self, server: int, kept: int) -> tuple[Array, ...]:
        """Room for such arrays of so many draws, to take over what another process has recorded."""
        ...

    def collector(self) -> DrawCollector:
        """What keeps the draws of a chain in another process, until they are taken from it."""
        ...

    def collect(self, server: int, block: DrawBlock) -> None:
        """Add draws that such a collector has kept to those of a chain."""
        ...


@dataclass
class Timing:
    """Where the seconds of a run went, summed over workers or servers, and what befell its messages.

    Args:
        wall: seconds from the start to the end.
        gradients: seconds in which workers computed.
        waiting: seconds in which workers that had joined did not compute: exchange, and waiting for the server.
        updates: seconds in which servers handled gradients.
        count: gradients that were computed.
        damaged, repeated, sent_again: messages that were refused because of their checksum, that came once more, and
            that were sent once more because no answer had come in time or what had come was damaged.
    """

    wall: float = 0.0
    gradients: float = 0.0
    waiting: float = 0.0
    updates: float = 0.0
    count: int = 0
    damaged: int = 0
    repeated: int = 0
    sent_again: int = 0


@dataclass(frozen=True)
class Outcome:
    """What an engine returns.

    Args:
        chains: the trace of every chain, without the rows that a checkpoint has taken over.
        events: faults of workers, in order.
        timing: where the time went; None in virtual time.
        interrupted: whether the run was stopped before its end, by Ctrl-C or SIGTERM.
        failure: why the run could not go on, or None.
    """

    chains: tuple[ChainTrace, ...]
    events: tuple[Event, ...] = ()
    timing: Timing | None = None
    interrupted: bool = False
    failure: StalegradError | None = None


class Engine(ABC):
    """Anything that can run a job: the base class of all engines, ours and yours.

    What has a default here is declared by the engines that differ. See ``examples/own_engine.py`` for one that is made
    of a link (:class:`stalegrad.engines.Link`) and the two loops, and :func:`stalegrad.testing.check_engine` for what
    every engine must promise.
    """

    has_workers: ClassVar[bool] = True
    """Whether there are workers that run beside their servers, and can fail."""

    update_threads: int = 1
    """Threads among which each server splits its updates."""

    @abstractmethod
    def run(self, job: Job) -> Outcome:
        """Run the job to its end, or until it is interrupted, and return what happened."""

    def team(self, servers: int, workers: int) -> Team:
        """The processes among which so many servers, of so many workers each, are spread: this one alone."""
        return SingleProcess(workers)

    def over(self, network: HostileNetwork) -> "Engine | None":
        """The same engine over a hostile network, for tests; None if its messages do not travel."""
        return None

    def begin(self) -> None:  # noqa: B027  a default that does nothing, not a duty
        """Say that this process has set out to take part in a run, where others of its team count on it from now on."""
