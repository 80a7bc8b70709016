"""The processes that make a run together, each executing the same script."""

import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol, TypeVar

from stalegrad.potentials.base import Potential

T = TypeVar("T")


def available_cores() -> int:
    """How many processors this process may use.

    >>> available_cores() >= 1
    True
    """
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


class Team(Protocol):
    """The processes that call :func:`stalegrad.sample` together, each executing the same script.

    >>> import stalegrad as sg
    >>> team = sg.engines.Threads().team(servers=1, workers=4)
    >>> team.leads, team.workers
    (True, 4)
    """

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

    def synchronize(self, potential: Potential, seed: int) -> None:
        """Wait for the others, and refuse to start if they were called with another model or seed."""
        ...

    def broadcast(self, compute: Callable[[], T], encode: Callable[[T], str], decode: Callable[[str], T]) -> T:
        """What the leader computes, on all processes: they decode what it has encoded. If it fails, all fail."""
        ...


@dataclass(frozen=True)
class SingleProcess:
    """The team of an engine that is called by one process."""

    workers: int = 1
    leads = True
    even = True

    @property
    def cores(self) -> int:
        """How many processors this process may use."""
        return available_cores()

    def synchronize(self, potential: Potential, seed: int) -> None:
        """Return at once: there are no others to wait for."""

    def broadcast(self, compute: Callable[[], T], encode: Callable[[T], str], decode: Callable[[str], T]) -> T:
        """The result itself: there are no others to send it to."""
        return compute()
