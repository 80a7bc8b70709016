"""Runs without end: what a store takes of memory and disk as the number of gradients grows, and of the speed.

    python benchmarks/endless.py [--gradients 10000000] [--speed 4000000] [--json FILE]

A run of SGLD on a Gaussian with 124 parameters, of which every 100th draw is kept, is made in a process of its own on
the inline engine, and another on threads. The process notes its resident set twenty times a second. It goes up and down
with what waits to be committed, once a second, so *growth* compares peaks: from the middle of the last nine tenths of
the run to its end, minus from its first tenth to there, over the gradients between the two middles. Then a store of a
tenth of the length and the whole one are each loaded, summed up (``stalegrad show``) and resumed in fresh processes:
growth is the difference of their largest resident sets over that of their gradients. Each process has first done all of
it on a small run, so that nothing is imported or compiled while it is looked at. Speed is that with a store over that
without, both in one process and in turns: the best round of each, and the median of the pairs, by the clock, and by
processor time of all threads, which says what a store takes where no core is idle. Either part is left out by the
number 0.
"""

import argparse
import json
import resource
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

import harness
import stalegrad as sg

SIZE, THIN = 124, 100
KERNEL = sg.SGLD(step_size=1e-4)
_PAGE = resource.getpagesize()


def model() -> sg.potentials.GaussianMean:
    """124 parameters, minibatches of 4 of 1,000 data."""
    return sg.potentials.GaussianMean(np.random.default_rng(0).normal(size=(1000, SIZE)), batch_size=4)


def sample(engine: str, gradients: int, store: Path | None) -> sg.Run:
    """Make a run."""
    return sg.sample(
        model(), KERNEL, steps=gradients, workers=4, thin=THIN, engine=engine, store=store, checkpoint_every=1.0,
        progress=False,
    )  # fmt: skip


def resident() -> int:
    """Bytes of this process in memory, now."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * _PAGE


def trace_bytes(store: Path) -> int:
    """What the trace takes on disk."""
    return sum(path.stat().st_size for path in (store / "chain-0" / "trace").rglob("*") if path.is_file())


def run_child(engine: str, gradients: int, store: str) -> dict[str, Any]:
    """Make a run, looking at memory at every tenth of it."""
    from stalegrad.runs.store import inspect

    with tempfile.TemporaryDirectory(dir=".") as folder:  # what is imported and compiled is not looked at
        sample(engine, max(gradients // 100, 1000), Path(folder) / "small")
    looks: list[tuple[int, int]] = []
    done = threading.Event()

    def look() -> None:
        while not done.wait(0.05):
            if (Path(store) / "run.json").exists():
                looks.append((inspect(store).updates[0], resident()))

    watcher = threading.Thread(target=look, daemon=True)
    watcher.start()
    begun = time.perf_counter()
    sample(engine, gradients, Path(store))
    seconds = time.perf_counter() - begun
    done.set()
    watcher.join()
    looks.append((gradients, resident()))
    earlier, later = (
        max((size for updates, size in looks if low * gradients <= updates <= high * gradients), default=looks[0][1])
        for low, high in ((0.1, 0.55), (0.55, 1.0))
    )
    return {
        "engine": engine, "gradients": gradients, "seconds": seconds, "resident": looks,
        "peak_mb": [earlier / 1e6, later / 1e6], "growth_bytes": (later - earlier) / (0.45 * gradients),
        "trace_bytes": trace_bytes(Path(store)) / gradients,
    }  # fmt: skip


def use_child(what: str, store: str) -> dict[str, Any]:
    """The largest resident set of a process that does one thing with a store, after it has done so with a small one."""
    with tempfile.TemporaryDirectory(dir=".") as folder:
        small = Path(folder) / "small"
        sample("inline", 100_000, small)
        use(what, str(small))
    begun = time.perf_counter()
    use(what, store)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    return {"what": what, "seconds": time.perf_counter() - begun, "peak_mb": peak / 1e6}


def use(what: str, store: str) -> None:
    """Do one thing with a store."""
    if what == "load":
        repr(sg.load(store))
    elif what == "show":
        from stalegrad.runs.summary import summarise

        run = sg.load(store)
        summarise(run)
        run.diagnose()
    else:
        steps = sg.load(store).trace.chains[0].steps
        sg.resume(store, model(), KERNEL, steps=steps + 1000, engine="inline", progress=False)


def child(*arguments: Any) -> dict[str, Any]:
    """What a process of its own says."""
    command = [sys.executable, __file__, "--child", json.dumps(arguments)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    result: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return result


def speed(engine: str, gradients: int, rounds: int) -> dict[str, Any]:
    """The speed with a store over that without, on an engine: by the clock, and by processor time."""
    taken: dict[bool, list[tuple[float, float]]] = {False: [], True: []}
    sample(engine, gradients // 10, None)
    for number in range(rounds):
        for stored in (False, True) if number % 2 else (True, False):
            with tempfile.TemporaryDirectory(dir=".") as folder:
                begun = time.perf_counter(), time.process_time()
                sample(engine, gradients, Path(folder) / str(number) if stored else None)
                taken[stored].append((time.perf_counter() - begun[0], time.process_time() - begun[1]))
    result: dict[str, Any] = {"engine": engine, "gradients": gradients, "seconds": taken[True], "without": taken[False]}
    for column, name in enumerate(("clock", "processor")):
        without, stored = ([times[column] for times in taken[which]] for which in (False, True))
        pairs = [a / b for a, b in zip(without, stored, strict=True)]
        result[name] = {"best": min(without) / min(stored), "median": statistics.median(pairs)}
    return result


def lengths(gradients: int) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """What runs, and what is done with their stores, take of memory and disk."""
    with tempfile.TemporaryDirectory(dir=".") as folder:
        whole, tenth = f"{folder}/whole", f"{folder}/tenth"
        runs = [child("run", "inline", gradients, whole), child("run", "threads", gradients, f"{folder}/threads")]
        child("run", "inline", gradients // 10, tenth)
        uses = {}
        for what in ("load", "show", "resume"):
            small, large = child("use", what, tenth), child("use", what, whole)
            growth = (large["peak_mb"] - small["peak_mb"]) * 1e6 / (0.9 * gradients)
            uses[what] = {"tenth": small, "whole": large, "growth_bytes": growth}
    return runs, uses


def main() -> None:
    """Measure and report."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--gradients", type=int, default=10_000_000, help="of the long runs (default %(default)s)")
    parser.add_argument("--speed", type=int, default=4_000_000, help="of a round for speed (default %(default)s)")
    parser.add_argument("--engines", nargs="+", default=["inline", "threads"], help="whose speed is measured")
    parser.add_argument("--child", help=argparse.SUPPRESS)
    harness.add_arguments(parser, rounds=3)
    arguments = parser.parse_args()
    if arguments.child:
        task, *rest = json.loads(arguments.child)
        print(json.dumps({"run": run_child, "use": use_child}[task](*rest)))
        return
    console = Console(stderr=True)
    runs, uses = lengths(arguments.gradients) if arguments.gradients else ([], {})
    table = Table(
        "what", "gradients", "peak, MB", "growth, bytes a gradient", "trace on disk, bytes a gradient", "seconds"
    )
    for run in runs:
        grown, taken = f"{run['growth_bytes']:.3f}", f"{run['trace_bytes']:.3f}"
        peak = f"{run['peak_mb'][1]:.1f}"
        table.add_row(f"run, {run['engine']}", f"{run['gradients']:,}", peak, grown, taken, f"{run['seconds']:.0f}")
    for what, use in uses.items():
        seconds = f"{use['whole']['seconds']:.1f}"
        peak, grown = f"{use['whole']['peak_mb']:.1f}", f"{use['growth_bytes']:.3f}"
        table.add_row(what, f"{arguments.gradients:,}", peak, grown, "", seconds)
    console.print(table)
    ratios = [speed(engine, arguments.speed, arguments.rounds) for engine in arguments.engines if arguments.speed]
    table = Table("speed with a store over without", "gradients", "best", "median of the pairs", "by processor time")
    for row in ratios:
        clock = [f"{row['clock'][which]:.3f}" for which in ("best", "median")]
        table.add_row(row["engine"], f"{row['gradients']:,}", *clock, f"{row['processor']['median']:.3f}")
    console.print(table)
    harness.write_json({"runs": runs, "uses": uses, "speed": ratios}, arguments.json)


if __name__ == "__main__":
    main()
