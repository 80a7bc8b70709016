"""How long a user waits before anything happens: the import, and the first draw with a warm compile cache.

python benchmarks/startup.py [--json FILE]
"""

import argparse
import json
import statistics
import subprocess
import sys
import time
from collections.abc import Sequence

import harness
from results import Bar, Result

HEAVY = ("torch", "jax", "ray", "matplotlib", "numpyro", "sklearn", "zarr", "arviz_stats")
TEXT = """
Seconds in a fresh interpreter, with the files in the system's cache and compiled code in numba's: *import* is
`import stalegrad` alone, which leaves each name to be imported when it is first used, and *every name* is
`from stalegrad import *`, most of it numba's own import. The others are from the start of the process to its end. None
of the heavy libraries that stalegrad can work with may be imported by any name.
"""
IMPORT = """
import json, sys, time
begun = time.perf_counter()
import stalegrad
seconds = time.perf_counter() - begun
from stalegrad import *
everything = time.perf_counter() - begun
print(json.dumps([seconds, everything, [name for name in {heavy!r} if name in sys.modules]]))
"""
FIRST_DRAW = """
import numpy as np, stalegrad as sg
rng = np.random.default_rng(0)
X = rng.normal(size=(1000, 10)).astype(np.float32)
model = sg.potentials.Logistic(X, X[:, 0] > 0, batch_size=50)
sg.sample(model, sg.SGLD(step_size=1e-4), steps=1, engine={engine!r}, progress=False)
"""


def arguments(given: Sequence[str] | None = None) -> argparse.Namespace:
    """What the command line says."""
    parser = argparse.ArgumentParser(description="Time of the import and to the first draw.")
    harness.add_arguments(parser, rounds=7)
    return harness.parse(parser, given, rounds=1)


def fresh(program: str) -> tuple[float, str]:
    """Seconds of a program in a fresh interpreter, and what it prints."""
    begun = time.perf_counter()
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    return time.perf_counter() - begun, done.stdout


def main() -> None:
    """Measure and report."""
    given = arguments()
    programs = {
        "an interpreter that does nothing": "pass",
        "to the first draw, inline": FIRST_DRAW.format(engine="inline"),
        "to the first draw, threads": FIRST_DRAW.format(engine="threads"),
        "to the first draw, processes": FIRST_DRAW.format(engine="processes"),
    }
    program = IMPORT.format(heavy=HEAVY)
    for warm in (program, *programs.values()):
        fresh(warm)
    imports: list[float] = []
    every_name: list[float] = []
    seconds: dict[str, list[float]] = {name: [] for name in programs}
    heavy: list[str] = []
    for _ in range(given.rounds):
        inside, everything, heavy = json.loads(fresh(program)[1])
        imports.append(inside)
        every_name.append(everything)
        for name, other in programs.items():
            seconds[name].append(fresh(other)[0])
    result = Result("Start-up", TEXT, vars(given))
    rows = [["import stalegrad", statistics.median(imports), min(imports)]]
    rows += [["import every name", statistics.median(every_name), min(every_name)]]
    rows += [[name, statistics.median(found), min(found)] for name, found in seconds.items()]
    result.table("Seconds", ["", "median", "best"], rows)
    result.table("Heavy libraries that the import brings along", ["", ""], [["imported", ", ".join(heavy) or "none"]])
    result.bars = [
        Bar("import stalegrad", statistics.median(imports), None, 0.5, at_least=False, unit="s"),
        Bar("heavy libraries that it imports", float(len(heavy)), None, 0.0, at_least=False),
    ]
    result.figures = {"import": imports, "every_name": every_name, "seconds": seconds, "heavy": heavy}
    result.finish(given.json)


if __name__ == "__main__":
    main()
