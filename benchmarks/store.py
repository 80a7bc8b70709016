"""What a store costs: memory while a long run of a large model goes on, and updates a second with and without one.

    python benchmarks/store.py --json -

Memory is the resident set of the sampling process, looked at from outside it, over a run with so many steps; the key
``growth_mb`` is its mean over the last quarter minus that over the second quarter, to be held against the size of a
draw. Speed is the ratio of updates a second with the store to those without, at equal thinning, in turns.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
from rich.console import Console

import harness
import stalegrad as sg
from burning import Burning
from harness import Case

_MB = 1 << 20


def sample(size: int, steps: int, thin: int, store: Path | None) -> None:
    """A run with free gradients: all that is left is the update and the keeping of draws."""
    sg.sample(
        Burning(size, 0.0), sg.SGHMC(step_size=1e-6, friction=10.0), steps=steps, thin=thin, engine="inline",
        store=store, checkpoint_every=5.0, progress=False,
    )  # fmt: skip


def resident(pid: int) -> float:
    """Megabytes of a process in memory."""
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") / _MB


def watched(size: int, steps: int, thin: int) -> list[float]:
    """The resident megabytes of a run in a process of its own, ten times a second from when its store is there."""
    with tempfile.TemporaryDirectory(dir=".") as folder:
        store = Path(folder) / "run"
        command = [sys.executable, __file__, "--child", json.dumps([size, steps, thin, str(store)])]
        child = subprocess.Popen(command)
        megabytes = []
        while child.poll() is None:
            if (store / "run.json").exists():
                megabytes.append(resident(child.pid))
            time.sleep(0.1)
        if child.returncode:
            raise RuntimeError(f"the run ended with status {child.returncode}")
    return megabytes


def main() -> None:
    """Measure and report."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--parameters", type=int, default=431_080)
    parser.add_argument("--steps", type=int, default=100_000, help="of the long run (default %(default)s)")
    parser.add_argument("--thin", type=int, default=100)
    parser.add_argument("--child", help=argparse.SUPPRESS)
    harness.add_arguments(parser, rounds=3)
    arguments = parser.parse_args()
    if arguments.child:
        size, steps, thin, store = json.loads(arguments.child)
        return sample(size, steps, thin, Path(store))
    size, thin = arguments.parameters, arguments.thin
    ratios = {}
    for n, steps in ((124, 100_000), (size, 1000)):
        with tempfile.TemporaryDirectory(dir=".") as folder:
            stores = (Path(folder) / str(k) for k in range(100))
            cases = [
                Case("without", lambda n=n, steps=steps: sample(n, steps, thin, None), steps),
                Case("with", lambda n=n, steps=steps, stores=stores: sample(n, steps, thin, next(stores)), steps),
            ]
            without, stored = harness.measure(cases, rounds=arguments.rounds)
            ratios[n] = {"without_us": without.best, "with_us": stored.best, "speed": without.best / stored.best}
    megabytes = np.array(watched(size, arguments.steps, thin))
    second, last = (float(part.mean()) for part in np.array_split(megabytes, 4)[1::2])
    document = {
        "parameters": size,
        "steps": arguments.steps,
        "thin": thin,
        "draw_mb": size * 4 / _MB,
        "draws_mb": size * 4 / _MB * (arguments.steps // thin),
        "peak_mb": float(megabytes.max()),
        "growth_mb": last - second,
        "seconds": len(megabytes) / 10,
        "speed_with_store": ratios,
    }
    Console(stderr=True).print(document)
    harness.write_json(document, arguments.json)
    return None


if __name__ == "__main__":
    main()
