"""What the checksum of messages costs a run on MPI and on Ray: throughput with it over throughput without.

Without is the same code with a checksum that is 0 whatever the message, put in before anything is compiled, and
compiled into a folder of its own. Gradients cost next to nothing, so that a run is nothing but messages and updates:
what a real model loses is less. Runs with and without take turns, each in processes of their own; the figure is the
median of the pairs, and beside it what a message takes of the processor, from ``benchmarks/hostile_link.py``.

    python benchmarks/checksum_cost.py [--engines mpi ray] [--parameters 124 431080] [--rounds 5] [--json FILE]
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

import harness

ENGINES = ("mpi", "ray")
UPDATES = {"mpi": {124: 200_000, 431_080: 2_000}, "ray": {124: 2_000, 431_080: 400}}
LEAST = 400
WITH, WITHOUT = "with", "without"


def arguments(given: Sequence[str] | None = None) -> argparse.Namespace:
    """What the command line says."""
    parser = argparse.ArgumentParser(description="Runs with and without checksums.")
    parser.add_argument("--engines", nargs="+", default=list(ENGINES), choices=ENGINES)
    parser.add_argument("--parameters", type=int, nargs="+", default=[124, 431_080])
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--scale", type=float, default=1.0, help="of the lengths of runs (default %(default)s)")
    parser.add_argument("--child", nargs=2, metavar=("ENGINE", "HOW"), help=argparse.SUPPRESS)
    harness.add_arguments(parser, rounds=5)
    return harness.parse(parser, given, engines=["mpi"], parameters=[124], rounds=1, scale=0.02)


def leave_out_checksums() -> None:
    """Have every message the checksum 0; before any of the functions that are changed here has been compiled."""
    import numpy as np

    from stalegrad._internal.jit import compiled
    from stalegrad.engines import checksum
    from stalegrad.engines.mpi import express

    @compiled
    def nothing(content, start):  # type: ignore[no-untyped-def]
        return np.int64(0)

    @compiled
    def nothing_of_parts(message, head, skipped, length):  # type: ignore[no-untyped-def]
        return np.int64(0)

    checksum._checksum, checksum.of_parts = nothing, nothing_of_parts
    express.of_parts = nothing_of_parts  # it has the name from there


def rates(name: str, given: argparse.Namespace) -> dict[int, float]:
    """Gradients a second by the number of parameters, in this process or these ranks; a first run compiles."""
    import stalegrad as sg
    from hostile_link import Quadratic

    found = {}
    for size in given.parameters:
        steps = max(LEAST, round(given.scale * UPDATES[name].get(size, 0)))
        engine: Any = sg.engines.MPI(everywhere=True)
        if name == "ray":
            engine = sg.engines.Ray(gradients_per_call=1, cpus_per_worker=0)
        for length in (steps // 4, steps):
            run = sg.sample(
                Quadratic(size, 0.0), sg.SGLD(step_size=1e-6), steps=length, workers=given.workers,
                thin=max(1, length // 10), engine=engine, progress=False,
            )  # fmt: skip
        (chain,) = run.trace.chains
        assert chain.time is not None
        skip = steps // 4
        found[size] = float((steps - 1 - skip) / (chain.time[-1] - chain.time[skip]))
    return found


def child(name: str, how: str, given: argparse.Namespace) -> None:
    """What a process, or a rank, of :func:`in_processes` does."""
    if how == WITHOUT:
        leave_out_checksums()
    if name == "ray":
        from hostile_link import ray_on_loopback

        with ray_on_loopback(leave_out_checksums if how == WITHOUT else None):
            found = rates(name, given)
    else:
        found = rates(name, given)
        from mpi4py import MPI

        if MPI.COMM_WORLD.rank:
            return
    print(json.dumps(found), flush=True)


def in_processes(name: str, how: str, given: argparse.Namespace, caches: Path) -> dict[str, float]:
    """The rates of an engine in processes of its own, which keep compiled code apart: numba would mistake it."""
    command: list[Any] = [sys.executable]
    if name == "mpi":
        mpiexec = Path(sys.executable).parent / "mpiexec"
        command = [mpiexec, "-localhost", "127.0.0.1", "-n", given.workers + 1, sys.executable, "-m", "mpi4py"]
    command += [__file__, "--child", name, how, "--workers", given.workers, "--parameters", *given.parameters]
    command += ["--scale", given.scale]
    environment = os.environ | {"NUMBA_CACHE_DIR": str(caches / how)}
    done = subprocess.run(list(map(str, command)), env=environment, stdout=subprocess.PIPE, text=True, check=True)
    result: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return result


def main() -> None:
    """Measure and report."""
    given = arguments()
    if given.child:
        child(*given.child, given)
        return
    rows = []
    with tempfile.TemporaryDirectory(prefix="stalegrad-") as folder:
        for name in given.engines:
            for how in (WITH, WITHOUT):  # compiles
                in_processes(name, how, given, Path(folder))
            pairs = []
            for turn in range(given.rounds):
                order = (WITH, WITHOUT) if turn % 2 else (WITHOUT, WITH)
                pairs.append({how: in_processes(name, how, given, Path(folder)) for how in order})
            for size in given.parameters:
                shares = [pair[WITH][str(size)] / pair[WITHOUT][str(size)] for pair in pairs]
                rows.append(
                    {
                        "engine": name, "parameters": size, "share": statistics.median(shares), "shares": shares,
                        **{how: [pair[how][str(size)] for pair in pairs] for how in (WITH, WITHOUT)},
                    }
                )  # fmt: skip
    shown = Table(title="Gradients a second, medians; with checksums over without, median of the pairs and all of them")
    for heading in ("engine", "parameters", WITH, WITHOUT, "share", "lowest", "highest"):
        shown.add_column(heading, justify="left" if heading == "engine" else "right")
    for row in rows:
        medians = [f"{statistics.median(row[how]):,.0f}" for how in (WITH, WITHOUT)]
        shares = [f"{share:.3f}" for share in (row["share"], min(row["shares"]), max(row["shares"]))]
        shown.add_row(row["engine"], f"{row['parameters']:,}", *medians, *shares)
    Console(stderr=given.json == "-").print(shown)
    harness.write_json({"workers": given.workers, "results": rows}, given.json)


if __name__ == "__main__":
    main()
