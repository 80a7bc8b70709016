"""Fair timing of several things on a machine that is never quite quiet.

The candidates take turns, round after round and each round starting with another one, so that a slow second hurts
them alike. Compilation and first touches happen in warm-up calls that are not timed. Two figures come out for each:
the *best* round, which is what the code can do when nothing disturbs it, and the *median*, which is what a user sees.

    cases = [Case("mine", run_mine, operations=10_000), Case("theirs", run_theirs, operations=10_000)]
    timings = measure(cases, rounds=9)
"""

import argparse
import gc
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from results import write_json

__all__ = ["Case", "Timing", "add_arguments", "measure", "parse", "write_json"]


@dataclass(frozen=True)
class Case:
    """One candidate.

    Args:
        name: as the table shows it.
        run: does the work and returns when it is done (wait for asynchronous devices inside).
        operations: how many steps, updates, … one call of ``run`` does.
    """

    name: str
    run: Callable[[], object]
    operations: int = 1


@dataclass(frozen=True)
class Timing:
    """What was measured for one candidate: seconds of every timed call, in order."""

    name: str
    operations: int
    seconds: tuple[float, ...]

    @property
    def best(self) -> float:
        """Microseconds an operation, in the best round."""
        return 1e6 * min(self.seconds) / self.operations

    @property
    def median(self) -> float:
        """Microseconds an operation, in the median round."""
        return 1e6 * statistics.median(self.seconds) / self.operations

    @property
    def rate(self) -> float:
        """Operations a second, in the median round."""
        return 1e6 / self.median

    @property
    def best_rate(self) -> float:
        """Operations a second, in the best round."""
        return 1e6 / self.best

    def as_dict(self) -> dict[str, Any]:
        """For JSON: every second that was measured."""
        return {"name": self.name, "operations": self.operations, "rate": self.rate, "seconds": list(self.seconds)}


def measure(
    cases: Sequence[Case], *, rounds: int = 9, warm_up: int = 1, clock: Callable[[], float] = time.perf_counter
) -> list[Timing]:
    """Time the cases by turns: ``warm_up`` calls of each that are not timed, then ``rounds`` timed calls of each.

    ``time.process_time`` as the clock counts the processor's time alone, for machines that others use as well.
    """
    if rounds < 1 or not cases:
        raise ValueError(f"nothing to time: {len(cases)} cases, {rounds} rounds")
    for case in cases:
        for _ in range(warm_up):
            case.run()
    seconds: list[list[float]] = [[] for _ in cases]
    collecting = gc.isenabled()
    gc.collect()
    gc.disable()
    try:
        for turn in range(rounds):
            for position in range(len(cases)):
                index = (position + turn) % len(cases)
                start = clock()
                cases[index].run()
                seconds[index].append(clock() - start)
    finally:
        if collecting:
            gc.enable()
    return [Timing(case.name, case.operations, tuple(times)) for case, times in zip(cases, seconds, strict=True)]


def add_arguments(parser: argparse.ArgumentParser, *, rounds: int | None = 9) -> None:
    """The options that every benchmark has: ``--json`` and, where there are rounds, ``--rounds``."""
    if rounds is not None:
        parser.add_argument(
            "--rounds", type=int, default=rounds, help="timed calls of each candidate (default %(default)s)"
        )
    parser.add_argument("--json", metavar="FILE", help="write the results as JSON; - prints them, the table to stderr")


def parse(parser: argparse.ArgumentParser, given: Sequence[str] | None = None, **quick: Any) -> argparse.Namespace:
    """The arguments, with one more, ``--quick``, that gives the options named here these defaults instead."""
    parser.add_argument("--quick", action="store_true", help="tiny sizes, to see that it runs; the figures mean little")
    words = sys.argv[1:] if given is None else list(given)
    if "--quick" in words:
        parser.set_defaults(**quick)
    return parser.parse_args(words)
