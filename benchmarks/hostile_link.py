"""What a hostile network costs, and what the checksum costs that notices its damage.

*Hostile* is a network that drops a share of all messages between servers and workers, repeats as many, reorders as
many and damages as many, both ways, by a seeded plan (``sg.testing.HostileNetwork``). Each run must make all its
updates, apply nothing twice and replay bit for bit; what is measured is how many gradients a second reach the chain,
beside the same engine over its own, clean transport. The runs take turns. On a clean network a gradient that costs next
to nothing comes back within some ten microseconds to a millisecond, while what is lost is noticed after two
milliseconds (twenty on Ray) at the earliest: the less a gradient costs, the more a loss does. So there are
figures for a gradient of some milliseconds, too.

*Checksum* is that of messages between machines beside CRC-32 of Python's zlib, on a message of n float32.

    python benchmarks/hostile_link.py [--engines processes mpi ray] [--share 0.1] [--json FILE]
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from rich.box import SIMPLE
from rich.console import Console
from rich.table import Table

import harness
import stalegrad as sg
from harness import Case
from stalegrad.engines.checksum import checksum
from stalegrad.potentials import Minibatches, Potential
from stalegrad.testing import HostileNetwork

ENGINES = ("processes", "mpi", "ray")
KERNEL = sg.SGLD(step_size=1e-6)
_MARK = "figures "


class Quadratic(Potential):
    """A gradient that depends on the point and on the minibatch, and takes ``seconds`` of sleep besides."""

    fork_safe = True

    def __init__(self, size: int, seconds: float) -> None:
        super().__init__(size, Minibatches(40, 4), np.dtype(np.float32))
        self.seconds = seconds

    def gradient(self, theta: Any, indices: Any) -> Any:
        """θ and the sum of the minibatch's numbers."""
        if self.seconds:
            time.sleep(self.seconds)
        return theta + np.float32(indices.sum())


def arguments(given: Sequence[str] | None = None) -> argparse.Namespace:
    """What the command line says."""
    parser = argparse.ArgumentParser(description="A hostile network beside a clean one.")
    parser.add_argument("--engines", nargs="+", default=list(ENGINES), choices=ENGINES)
    parser.add_argument("--parameters", type=int, nargs="+", default=[124, 431_080])
    parser.add_argument("--milliseconds", type=float, nargs="+", default=[0.0, 10.0], help="of a gradient")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--share", type=float, default=0.1, help="of messages, for each of the four (default 0.1)")
    parser.add_argument("--updates", type=int, default=400, help="of a run (default %(default)s)")
    parser.add_argument("--measure", choices=ENGINES, help=argparse.SUPPRESS)
    harness.add_arguments(parser, rounds=3)
    return harness.parse(
        parser, given, engines=["processes"], parameters=[124], milliseconds=[0.0], updates=60, rounds=1
    )


def measured(engine: Any, given: argparse.Namespace) -> list[dict[str, Any]]:
    """The figures of one engine, clean and hostile by turns."""
    rows = []
    for size in given.parameters:
        for milliseconds in given.milliseconds:
            model, found = Quadratic(size, milliseconds / 1e3), []
            for seed in range(given.rounds):
                hostile = engine.over(HostileNetwork.evenly(given.share, seed))
                found.append([_figures(model, each, given) for each in (engine, hostile)])
            clean, spoilt = zip(*found, strict=True)
            rows.append(
                {
                    "parameters": size, "milliseconds": milliseconds,
                    "clean": [each["rate"] for each in clean], "hostile": [each["rate"] for each in spoilt],
                    "share": statistics.median(b["rate"] / a["rate"] for a, b in found),
                    **{name: sum(each[name] for each in spoilt) for name in _COUNTS},
                    "replayed": all(each["replayed"] for each in (*clean, *spoilt)),
                }
            )  # fmt: skip
    return rows


_COUNTS = ("updates", "damaged", "repeated", "sent_again", "twice", "faults")


def _figures(model: Quadratic, engine: Any, given: argparse.Namespace) -> dict[str, Any]:
    steps = given.updates
    run = sg.sample(
        model, KERNEL, steps=steps, workers=given.workers, thin=max(1, steps // 10), seed=3, engine=engine,
        progress=False,
    )  # fmt: skip
    (chain,), timing = run.trace.chains, run.timing
    assert chain.time is not None
    assert timing is not None
    again = sg.replay(run.trace, Quadratic(model.size, 0.0), KERNEL)
    skip = steps // 4
    return {
        "rate": float((steps - 1 - skip) / (chain.time[-1] - chain.time[skip])), "updates": chain.steps,
        "damaged": timing.damaged, "repeated": timing.repeated, "sent_again": timing.sent_again,
        "twice": chain.applied_twice(), "faults": len(run.events),
        "replayed": bool(np.array_equal(again.draws, run.draws)),
    }  # fmt: skip


def in_a_process(name: str, given: argparse.Namespace) -> list[dict[str, Any]]:
    """The figures of an engine, in a process, or in ranks, of its own."""
    words = ["--measure", name, "--workers", given.workers, "--share", given.share, "--updates", given.updates]
    words += ["--rounds", given.rounds, "--parameters", *given.parameters, "--milliseconds", *given.milliseconds]
    command: list[Any] = [sys.executable, __file__, *words]
    if name == "mpi":
        mpiexec = Path(sys.executable).parent / "mpiexec"
        local = ("-localhost", "127.0.0.1")
        command = [mpiexec, *local, "-n", given.workers + 1, sys.executable, "-m", "mpi4py", __file__, *words]
    done = subprocess.run(list(map(str, command)), stdout=subprocess.PIPE, text=True, check=True)
    (line,) = (line for line in done.stdout.splitlines() if line.startswith(_MARK))
    rows: list[dict[str, Any]] = json.loads(line.removeprefix(_MARK))
    return [{"engine": name, **row} for row in rows]


def measure_here(given: argparse.Namespace) -> None:
    """What the process of :func:`in_a_process` does."""
    if given.measure == "ray":
        rows = _on_ray(given)
    else:
        engine = sg.engines.Processes() if given.measure == "processes" else sg.engines.MPI(everywhere=True)
        rows = measured(engine, given)
    if given.measure == "mpi":
        from mpi4py import MPI

        if MPI.COMM_WORLD.rank:
            return
    print(_MARK + json.dumps(rows), flush=True)


@contextmanager
def ray_on_loopback(prepare: Callable[[], None] | None = None) -> Iterator[None]:
    """A Ray cluster of this machine alone, while it is wanted; its processes call ``prepare`` first."""
    import ray

    from stalegrad.engines.ray.connection import on_loopback
    from stalegrad.engines.ray.security import make_token

    make_token()
    os.environ["RAY_worker_niceness"] = "0"  # noqa: SIM112  as all the others
    with tempfile.TemporaryDirectory(prefix="sg-", ignore_cleanup_errors=True) as folder, on_loopback():
        ray.init(
            address="local", num_cpus=4, include_dashboard=False, log_to_driver=False, _temp_dir=folder,
            object_store_memory=512 << 20, runtime_env={"worker_process_setup_hook": prepare} if prepare else None,
        )  # fmt: skip
        try:
            yield
        finally:
            ray.shutdown()


def _on_ray(given: argparse.Namespace) -> list[dict[str, Any]]:
    with ray_on_loopback():
        return measured(sg.engines.Ray(gradients_per_call=1, cpus_per_worker=0), given)


def checksums(given: argparse.Namespace) -> list[dict[str, Any]]:
    """Microseconds that the checksum of a message takes, beside zlib's and beside copying the message."""
    rows = []
    for size in given.parameters:
        message = np.random.Generator(np.random.Philox(key=1)).integers(0, 256, 64 + 4 * size).astype(np.uint8)
        copy, calls = np.empty_like(message), max(20, 2_000_000 // size)
        functions = {
            "checksum": lambda m=message: checksum(m), "crc32": lambda m=message: zlib.crc32(m),
            "copy": lambda m=message, c=copy: np.copyto(c, m),
        }  # fmt: skip
        cases = [Case(name, _repeated(function, calls), calls) for name, function in functions.items()]
        best = {timing.name: timing.best for timing in harness.measure(cases, rounds=9)}
        rows.append({"parameters": size, "bytes": message.nbytes, **best})
    return rows


def _repeated(function: Any, calls: int) -> Any:
    def run() -> None:
        for _ in range(calls):
            function()

    return run


def main() -> None:
    """Measure and report."""
    given = arguments()
    if given.measure:
        measure_here(given)
        return
    console = Console(stderr=given.json == "-")
    sums = checksums(given)
    shown = Table(title="Microseconds a message, best of 9")
    for heading in ("parameters", "checksum", "crc32 of zlib", "copy"):
        shown.add_column(heading, justify="right")
    for row in sums:
        shown.add_row(f"{row['parameters']:,}", *(f"{row[name]:,.2f}" for name in ("checksum", "crc32", "copy")))
    console.print(shown)
    rows = [row for name in given.engines for row in in_a_process(name, given)]
    rates = Table(title=f"Gradients a second, medians; {given.share:.0%} each dropped, repeated, reordered, damaged")
    repairs = Table(title="What became of the messages of all hostile runs", box=SIMPLE)
    repaired = [name for name in _COUNTS if name != "updates"]  # which are as many in every run
    for table, headings in ((rates, ("clean", "hostile", "share")), (repairs, (*repaired, "replays"))):
        for heading in ("engine", "n", "ms", *headings):
            table.add_column(heading.replace("_", " "), justify="left" if heading == "engine" else "right")
    for row in rows:
        which = (row["engine"], f"{row['parameters']:,}", f"{row['milliseconds']:g}")
        medians = [f"{statistics.median(row[name]):,.0f}" for name in ("clean", "hostile")]
        rates.add_row(*which, *medians, f"{row['share']:.1%}")
        repairs.add_row(*which, *(f"{row[name]:,}" for name in repaired), "yes" if row["replayed"] else "NO")
    console.print(rates, repairs)
    harness.write_json({"share": given.share, "checksums": sums, "results": rows}, given.json)


if __name__ == "__main__":
    main()
