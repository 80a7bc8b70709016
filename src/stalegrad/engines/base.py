"""What an engine is: it moves messages between servers and workers, and holds no sampling logic."""

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

from stalegrad.admission import Policy
from stalegrad.chain import Chain
from stalegrad.collector import DrawBlock, DrawCollector
from stalegrad.errors import StalegradError
from stalegrad.potentials.base import Potential
from stalegrad.server import ChainStatus, Record
from stalegrad.trace import ChainTrace
from stalegrad.types import Array

T = TypeVar("T")


@dataclass(frozen=True)
class Job:
    """What is to be run: S servers with W workers each, L updates a server.

    Args:
        potential: the model.
        chain: makes the chain of server s at its start.
        record: gives the recorder of server s.
        status: what each server shows to whoever looks at the run while it goes on.
        steps: L.
        workers: W.
        servers: S.
        max_staleness: bound on the staleness, see :mod:`stalegrad.admission`.
        policy: what happens at the bound.
        seed: of everything random.
        past: the trace of each chain until now, where a run goes on that had stopped.
        checkpoint: gives what saves the chain of server s from time to time.
        recording: where the draws are, for engines whose servers are in other processes.
        team: those processes.
    """

    potential: Potential
    chain: Callable[[int], Chain]
    record: Callable[[int], Record]
    status: tuple[ChainStatus, ...]
    steps: int
    workers: int
    servers: int
    max_staleness: int | None
    policy: Policy
    seed: int
    past: tuple[ChainTrace, ...] = ()
    checkpoint: Callable[[int], "Checkpoint"] | None = None
    recording: "Recording | None" = None
    team: "Team | None" = None

    def past_of(self, server: int) -> ChainTrace | None:
        """What happened to a chain before."""
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
    """

    time: float
    chain: int
    worker: int | None
    kind: str
    details: str

    def __str__(self) -> str:
        who = "the server" if self.worker is None else f"worker {self.worker}"
        return f"[{self.time:.1f} s] {who} of chain {self.chain} {self.kind}: {self.details}"


class Checkpoint(Protocol):
    """Saves one chain from time to time. An engine asks it between updates, and at the end in any case."""

    def due(self) -> bool:
        """Whether it is time."""
        ...

    def save(self, chain: Chain, rows: Callable[[int], ChainTrace], events: Sequence[Event]) -> None:
        """Save the chain, its trace (``rows(k)`` gives the rows from number k on) and the faults of its workers."""
        ...


class Recording(Protocol):
    """Where the draws of a run are kept. Each process has its own, with the chains of the servers that it runs."""

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
    """Where the seconds of a run went, summed over workers or servers.

    Args:
        wall: seconds from the start to the end.
        gradients: seconds in which workers computed.
        waiting: seconds in which workers that had joined did not compute: exchange, and waiting for the server.
        updates: seconds in which servers handled gradients.
        count: gradients that were computed.
    """

    wall: float = 0.0
    gradients: float = 0.0
    waiting: float = 0.0
    updates: float = 0.0
    count: int = 0


@dataclass(frozen=True)
class Outcome:
    """What an engine returns.

    Args:
        chains: the trace of every chain.
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


def available_cores() -> int:
    """How many processors this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


class Team(Protocol):
    """The processes that call :func:`stalegrad.sample` together, each executing the same script."""

    @property
    def leads(self) -> bool:
        """Whether this is the process that makes the store, shows progress and returns the run."""
        ...

    @property
    def workers(self) -> int:
        """W: the most workers that a server may have."""
        ...

    @property
    def even(self) -> bool:
        """Whether every server has W workers, neither fewer nor others in between."""
        ...

    @property
    def cores(self) -> int:
        """How many processors all of them may use."""
        ...

    def meet(self, potential: Potential, seed: int) -> None:
        """Wait for the others, and refuse to start if they were called with another model or seed."""
        ...

    def first(self, lead: Callable[[], T], tell: Callable[[T], str], follow: Callable[[str], T]) -> T:
        """Have the leader do something, ``tell`` the others of it, and let them ``follow``. If it fails, all fail."""
        ...


@dataclass(frozen=True)
class Alone:
    """The team of an engine that is called by one process."""

    workers: int = 1
    leads = True
    even = True

    @property
    def cores(self) -> int:
        """Of this process."""
        return available_cores()

    def meet(self, potential: Potential, seed: int) -> None:
        """There is nobody to wait for."""

    def first(self, lead: Callable[[], T], tell: Callable[[T], str], follow: Callable[[str], T]) -> T:
        """There is nobody to tell."""
        return lead()


ALONE = Alone()


def team_of(engine: Any, servers: int, workers: int) -> Team:
    """The processes among which an engine spreads so many servers, of so many workers each."""
    team: Team = engine.team(servers, workers) if hasattr(engine, "team") else Alone(workers)
    return team


def begin(engine: Any) -> None:
    """Say that this process has set out to take part in a run: the others of an engine's team count on it now."""
    if hasattr(engine, "begin"):
        engine.begin()


class Engine(Protocol):
    """Anything that can run a job. One that spans processes has a method ``team`` besides, see :func:`team_of`.

    If its processes wait for each other it has a method ``begin``, too, see :func:`begin`.
    """

    def run(self, job: Job) -> Outcome:
        """Run the job to its end, or until it is interrupted, and return what happened."""
        ...
