"""What processes occupy, whether it grows from run to run, and what is left when they have ended."""

import os
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path

WARM_UP = 3  # runs, in which modules are imported, code is loaded and pools of memory fill
FEWEST = 5  # runs after that, from which growth can be told
ALLOWED = {"resident": 200.0, "descriptors": 0.2, "threads": 0.2}
"""Growth a run that is not told from none: kilobytes (less than the trace of a run takes), and numbers."""


@dataclass(frozen=True)
class Usage:
    """What one process occupies.

    Args:
        resident: kilobytes of memory that no other process could have in its place.
        descriptors: open files.
        threads: of the system.
    """

    resident: float
    descriptors: int
    threads: int


def usage(pid: int) -> Usage:
    """What a process occupies now. Pages of files, such as libraries, come and go as the system likes: not counted."""
    status = dict(line.split(":", 1) for line in Path(f"/proc/{pid}/status").read_text().splitlines())
    resident = sum(float(status[name].split()[0]) for name in ("RssAnon", "RssShmem"))
    return Usage(resident, len(os.listdir(f"/proc/{pid}/fd")), int(status["Threads"]))


def growth(usages: Sequence[Usage]) -> dict[str, float] | None:
    """Growth a run after the warm-up, the median slope between any two runs; None if there are too few to tell.

    The median lets single runs be off, as they are when a fault has left a thread that is about to end.
    """
    later = usages[WARM_UP:]
    if len(later) < FEWEST:
        return None
    return {
        name: statistics.median(
            (getattr(later[b], name) - getattr(later[a], name)) / (b - a) for a, b in combinations(range(len(later)), 2)
        )
        for name in ALLOWED
    }


def grows(slopes: dict[str, float]) -> list[str]:
    """What grows by more than is allowed, in words."""
    units = {"resident": "kB of memory", "descriptors": "descriptors", "threads": "threads"}
    return [f"{slope:.1f} {units[name]} more with every run" for name, slope in slopes.items() if slope > ALLOWED[name]]


def descendants(pid: int) -> list[int]:
    """The processes below a process, without it."""
    found: list[int] = []
    try:
        tasks = os.listdir(f"/proc/{pid}/task")
        for task in tasks:
            children = Path(f"/proc/{pid}/task/{task}/children").read_text().split()
            for child in map(int, children):
                found += [child, *descendants(child)]
    except OSError:
        pass  # it has just ended
    return found


def state(pid: int) -> str | None:
    """The letter that the system has for what a process does, such as R, S, T or Z; None if there is none."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return None


def parent(pid: int) -> int | None:
    """The process that a process belongs to; None if there is no such process."""
    try:
        return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
    except OSError:
        return None


def is_alive(pid: int) -> bool:
    """Whether a process is there, or any of its threads: others may still hold files when the first has ended."""
    try:
        threads = os.listdir(f"/proc/{pid}/task")
    except OSError:
        return False
    return len(threads) > 1 or state(pid) not in (None, "Z", "X")


def shared_memory() -> set[str]:
    """The names in /dev/shm."""
    return set(os.listdir("/dev/shm"))
