"""What an engine is: it moves messages between servers and workers, and holds no sampling logic."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from stalegrad.admission import Policy
from stalegrad.chain import Chain
from stalegrad.potentials.base import Potential
from stalegrad.server import Record
from stalegrad.trace import Trace


@dataclass(frozen=True)
class Job:
    """What is to be run: S servers with W workers each, L updates a server.

    Args:
        potential: the model.
        chain: makes the chain of server s at its start.
        record: gives the recorder of server s.
        steps: L.
        workers: W.
        servers: S.
        max_staleness, policy: see :mod:`stalegrad.admission`.
        seed: of everything random.
    """

    potential: Potential
    chain: Callable[[int], Chain]
    record: Callable[[int], Record]
    steps: int
    workers: int
    servers: int
    max_staleness: int | None
    policy: Policy
    seed: int


class Engine(Protocol):
    """Anything that can run a job."""

    def run(self, job: Job) -> Trace:
        """Run the job to its end and return what happened."""
        ...
