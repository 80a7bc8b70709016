"""Fair timing of several things on a machine that is never quite quiet.

The candidates take turns, round after round and each round starting with another one, so that a slow second hurts
them alike. Compilation and first touches happen in warm-up calls that are not timed. Two figures come out for each:
the *best* round, which is what the code can do when nothing disturbs it, and the *median*, which is what a user sees.

    cases = [Case("mine", run_mine, operations=10_000), Case("theirs", run_theirs, operations=10_000)]
    report("SGLD, J=50", measure(cases, rounds=9), json_to=arguments.json)
"""

import argparse
import gc
import json
import os
import platform
import statistics
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table


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


def add_arguments(parser: argparse.ArgumentParser, *, rounds: int = 9) -> None:
    """The options that every benchmark has: ``--rounds`` and ``--json``."""
    parser.add_argument(
        "--rounds", type=int, default=rounds, help="timed calls of each candidate (default %(default)s)"
    )
    parser.add_argument("--json", metavar="FILE", help="write the results as JSON; - prints them, the table to stderr")


def report(
    title: str,
    timings: Sequence[Timing],
    *,
    unit: str = "step",
    settings: Mapping[str, Any] | None = None,
    figures: Mapping[str, Any] | None = None,
    json_to: str | None = None,
) -> None:
    """Print a table of the timings and, where asked, write them as JSON.

    Args:
        title: heading of the table.
        timings: what :func:`measure` returned. The first is the one that the others are compared with.
        unit: what one operation is.
        settings: whatever a reader needs to repeat the measurement: sizes, batch, threads.
        figures: what the timings come to, such as ratios; they stand at the top of the JSON.
        json_to: a file, ``"-"`` for the standard output (the table then goes to the standard error), or None.
    """
    table = Table(title=title)
    table.add_column("candidate")
    for heading in (f"best, µs/{unit}", f"median, µs/{unit}", "× the first"):
        table.add_column(heading, justify="right")
    for timing in timings:
        ratio = timing.best / timings[0].best
        table.add_row(timing.name, f"{timing.best:.2f}", f"{timing.median:.2f}", f"{ratio:.2f}")
    Console(stderr=json_to == "-").print(table)
    document = {
        "title": title,
        **(figures or {}),
        "settings": dict(settings or {}),
        "results": [
            {
                "name": timing.name,
                "unit": unit,
                "operations": timing.operations,
                "best_us": timing.best,
                "median_us": timing.median,
                "seconds": timing.seconds,
            }
            for timing in timings
        ],
    }
    write_json(document, json_to)


def write_json(document: Mapping[str, Any], json_to: str | None) -> None:
    """Write results, with the machine they come from, to a file or, for ``"-"``, to the standard output."""
    if json_to is None:
        return
    text = json.dumps({**document, "machine": machine()}, indent=2, ensure_ascii=False) + "\n"
    if json_to == "-":
        sys.stdout.write(text)
    else:
        Path(json_to).write_text(text, encoding="utf-8")


def machine() -> dict[str, Any]:
    """What the figures depend on: processor, cores that this process may use, versions."""
    versions = {}
    for name in ("stalegrad", "numpy", "numba", "jax", "blackjax", "torch", "posteriors"):
        try:
            versions[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return {
        "processor": _processor(),
        "cores": cores,
        "system": f"{platform.system()} {platform.machine()}",
        "python": platform.python_version(),
        "versions": versions,
    }


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        lines = []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor()
