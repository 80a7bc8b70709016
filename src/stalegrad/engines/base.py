"""What an engine is: it moves messages between servers and workers, and holds no sampling logic."""

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from stalegrad.admission import Policy
from stalegrad.chain import Chain
from stalegrad.errors import StalegradError
from stalegrad.potentials.base import Potential
from stalegrad.server import ChainStatus, Record
from stalegrad.trace import ChainTrace
from stalegrad.types import Array


class DrawBlock(NamedTuple):
    """Draws in a row, (draw, n), and what is noted beside each of them."""

    draws: Array
    gradient_norm: Array
    kinetic_temperature: Array


class Collector(Protocol):
    """Keeps the draws of one chain until they are taken. It can be pickled while it is empty."""

    @property
    def bytes(self) -> int:
        """How much it holds."""
        ...

    def record(self, update: int, chain: Chain, gradient: Array) -> None:
        """A :data:`Record <stalegrad.server.Record>`."""
        ...

    def take(self) -> DrawBlock:
        """The draws since the last time; from now on they are the caller's."""
        ...


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
        collector: keeps draws in place of ``record`` where a server is in another process; None if there is nobody
            to collect them.
        collect: takes what such a collector has kept for server s.
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
    collector: Collector | None = None
    collect: Callable[[int, DrawBlock], None] | None = None

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


class Engine(Protocol):
    """Anything that can run a job."""

    def run(self, job: Job) -> Outcome:
        """Run the job to its end, or until it is interrupted, and return what happened."""
        ...
