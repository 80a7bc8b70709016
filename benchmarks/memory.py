"""The memory of a run with worker processes on a large model, in vectors of parameters.

A run in a process of its own is looked at from outside: the proportional set sizes of the process and of all its
children, which count a page that several of them share once. The same run of a tiny model is taken off, so that the
interpreter and its libraries do not count. A worker needs the point that it was given and the gradient that it sends; a
server its kernel's state.

    python benchmarks/memory.py [--parameters 10000000] [--workers 4] [--json FILE]
"""

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np

import harness
import stalegrad as sg
from burning import Burning
from results import Bar, Result

STATE = 2
"""Vectors that SGHMC carries: θ and q."""
TEXT = """
`sg.sample` with SGHMC, {workers} worker processes and {parameters:,} parameters: the proportional set sizes of all
processes, which count shared pages once, while the run goes on and less those of the same run with 100 parameters, in
vectors of parameters ({megabytes:.0f} MB each). Allowed are two vectors a worker, a point and a gradient, and the
kernel's state, θ and q, and two per cent for what else the processes may allocate. No draw is kept until the end of
the run.
"""


def arguments(given: Sequence[str] | None = None) -> argparse.Namespace:
    """What the command line says."""
    parser = argparse.ArgumentParser(description="Memory of a run with worker processes.")
    parser.add_argument("--parameters", type=int, default=10_000_000)
    parser.add_argument("--workers", type=int, default=4)
    parser.add_argument("--seconds", type=float, default=6.0, help="to look at each run (default %(default)s)")
    parser.add_argument("--child", help=argparse.SUPPRESS)
    harness.add_arguments(parser, rounds=None)
    return harness.parse(parser, given, parameters=1_000_000, seconds=2.0)


def sample(parameters: int, workers: int, started: str) -> None:
    """Sample until killed, with gradients that take 20 ms; touch the file once updates are being made."""
    steps = 1 << 30

    class SignalsStart(Burning):
        def gradients(self, theta, indices, out):  # type: ignore[no-untyped-def]
            super().gradients(theta, indices, out)
            if not os.path.exists(started):
                Path(started).touch()

    model = SignalsStart(parameters, 0.02)
    model.fork_safe = True
    sg.sample(
        model, sg.SGHMC(step_size=1e-6, friction=10.0), steps=steps, workers=workers, thin=steps, engine="processes",
        progress=False,
    )  # fmt: skip


def proportional(pid: int) -> int:
    """Bytes in memory of a process and all its children; pages that they share count once."""
    total = 0
    for each in (pid, *_descendants(pid)):
        try:
            lines = Path(f"/proc/{each}/smaps_rollup").read_text().splitlines()
        except OSError:  # it has just ended
            continue
        total += sum(1024 * int(line.split()[1]) for line in lines if line.startswith("Pss:"))
    return total


def _descendants(pid: int) -> list[int]:
    found = []
    for task in Path(f"/proc/{pid}/task").glob("*/children"):
        try:
            children = [int(word) for word in task.read_text().split()]
        except OSError:
            continue
        for child in children:
            found += [child, *_descendants(child)]
    return found


def peak(parameters: int, workers: int, seconds: float, patience: float = 120.0) -> int:
    """The largest of some looks at a run, from when its workers compute."""
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        started = Path(folder) / "started"
        command = [sys.executable, __file__, "--child", json.dumps([parameters, workers, str(started)])]
        child = subprocess.Popen(command)
        try:
            until = time.monotonic() + patience
            while not started.exists():
                if child.poll() is not None or time.monotonic() > until:
                    raise RuntimeError("the run has not started")
                time.sleep(0.05)
            looks, until = [0], time.monotonic() + seconds
            while time.monotonic() < until:
                looks.append(proportional(child.pid))
                time.sleep(0.1)
            return max(looks)
        finally:
            child.kill()
            child.wait()


def main() -> None:
    """Measure and report."""
    given = arguments()
    if given.child:
        sample(*json.loads(given.child))
        return
    large, small = (peak(n, given.workers, given.seconds) for n in (given.parameters, 100))
    vectors = (large - small) / (np.float32().nbytes * given.parameters)
    allowed = 2 * given.workers + STATE
    text = TEXT.format(**vars(given), megabytes=4e-6 * given.parameters)
    result = Result("Memory", text, vars(given))
    result.table(
        f"{given.parameters:,} parameters, {given.workers} worker processes, SGHMC",
        ["", "MB", "vectors"],
        [
            ["all processes", large / 1e6, "–"],
            ["the same with 100 parameters", small / 1e6, "–"],
            ["the difference", (large - small) / 1e6, vectors],
            ["allowed", 4e-6 * given.parameters * allowed, float(allowed)],
        ],
    )
    name = f"memory, {given.parameters:.0e} parameters, {given.workers} processes: ".replace("e+0", "e")
    result.bars = [Bar(f"{name}over the allowed", vectors, float(allowed), 1.02, at_least=False, unit="vectors")]
    result.figures = {"large": large, "small": small}
    result.finish(given.json)


if __name__ == "__main__":
    main()
