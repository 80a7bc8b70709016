"""Which faults come in which run, and when: a function of the seed, so that a soak can be repeated.

The kinds of an engine are shuffled and dealt out, a few to a run, until all have been; then shuffled again. Which
process a fault hits, and in the middle of what, is left to chance.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import count

import numpy as np

SERVER_KILLED, RANK_KILLED, RUN_STOPPED = "server killed", "rank killed", "run stopped"
DISK_STOPS, DISK_RETRIES = "disk full, run stops", "disk full, run goes on"
RAISES, NAN, HANGS, SLOWED = "worker raises", "worker sends NaN", "worker hangs", "worker slowed"
KILLED, STOPPED = "worker killed", "worker stopped"
JOINS, LEAVES = "worker joins", "worker leaves"
ACTOR_KILLED, NODE_JOINS, NODE_LEAVES = "server's process killed", "node joins", "node leaves"

_ANYWHERE = (SERVER_KILLED, RUN_STOPPED, DISK_STOPS, DISK_RETRIES)
_IN_A_MODEL = (RAISES, NAN, SLOWED)
KINDS = {
    "inline": _ANYWHERE,
    "threads": (*_ANYWHERE, *_IN_A_MODEL, HANGS),
    "processes": (*_ANYWHERE, *_IN_A_MODEL, HANGS, KILLED, STOPPED),
    "mpi": (*_ANYWHERE, *_IN_A_MODEL, STOPPED, RANK_KILLED),
    "elastic": (*_ANYWHERE, *_IN_A_MODEL, KILLED, STOPPED, JOINS, LEAVES),
    "ray": (*_ANYWHERE, *_IN_A_MODEL, KILLED, STOPPED, ACTOR_KILLED, NODE_JOINS, NODE_LEAVES),
}
"""The faults that an engine can be given. ``elastic`` is MPI with workers that are jobs of their own."""

ENDING = frozenset({SERVER_KILLED, RANK_KILLED, DISK_STOPS})
"""The faults that end a session: the run goes on by being resumed."""
KILLING = frozenset({SERVER_KILLED, RANK_KILLED})
"""Those of them that end the process, or the job, that samples."""

DISK = frozenset({DISK_STOPS, DISK_RETRIES})

KERNELS = 2  # few: the code of each is loaded once, and until then a process grows
MOST_FAULTS = 4  # in a run
SHORT, LONG = 0.5, 4.0  # seconds; patience and heartbeats of the runs lie between them


@dataclass(frozen=True)
class Fault:
    """Something that is done to a run.

    Args:
        kind: one of :data:`KINDS`.
        pause: seconds that the run goes on undisturbed before.
        seconds: how long it lasts, if it does.
    """

    kind: str
    pause: float
    seconds: float


@dataclass(frozen=True)
class RunPlan:
    """One run.

    Args:
        seed: of the run.
        servers, workers, thin, burn_in, kernel: its settings; the kernel by its number.
        faults: what is done to it, in order.
    """

    seed: int
    servers: int
    workers: int
    thin: int
    burn_in: int
    kernel: int
    faults: tuple[Fault, ...]

    def sessions(self) -> list[tuple[Fault, ...]]:
        """The faults by session: each but the last ends with one that ends it."""
        found: list[list[Fault]] = [[]]
        for fault in self.faults:
            found[-1].append(fault)
            if fault.kind in ENDING:
                found.append([])
        return [tuple(session) for session in found]


def runs(engine: str, seed: int, turn: int) -> Iterator[RunPlan]:
    """The runs of an engine's turn, without end."""
    rng = np.random.Generator(np.random.Philox(key=[seed, list(KINDS).index(engine) << 32 | turn]))
    left: list[str] = []
    for number in count():
        chosen: list[str] = []
        for _ in range(int(rng.integers(2, MOST_FAULTS + 1))):
            if not left:
                left = [str(kind) for kind in rng.permutation(KINDS[engine])]
            if any(kind in ENDING for kind in chosen) and left[-1] in ENDING:
                break  # one resumption a run
            if any(kind in DISK for kind in chosen) and left[-1] in DISK:
                break  # a run either stops or goes on
            chosen.append(left.pop())
        yield RunPlan(
            seed=int(rng.integers(1 << 31)),
            servers=1 if engine == "elastic" else int(rng.integers(1, 3)),
            workers=3,
            thin=int(rng.integers(1, 6)),
            burn_in=int(rng.integers(0, 200)),
            kernel=number % KERNELS,
            faults=tuple(
                Fault(kind, round(float(rng.uniform(0.0, 0.6)), 3), float(rng.choice([SHORT, LONG]))) for kind in chosen
            ),
        )
