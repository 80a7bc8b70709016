"""The memory of a run that keeps no draw: ten million parameters, predictions averaged on ten thousand inputs.

A logistic regression on hashed features: every input has eight of n weights, so that a gradient is the prior's, dense,
and that of a few rows, and a prediction reads eight numbers an input. Updates with their noise are the dear part. The
resident memory of the process is read at every hundredth of the draws, after those before it have been averaged.

    python benchmarks/averages_memory.py [--parameters 10000000] [--draws 10000] [--minutes 20] [--json FILE]

After so many minutes it stops with the draws that it has, and says how many.
"""

import argparse
import json
import os
import signal
import time
from pathlib import Path

import numpy as np

import stalegrad as sg

INPUTS, ACTIVE = 10_000, 8


def resident() -> float:
    """Megabytes of this process that are in memory."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 1e6


def main() -> None:
    """Sample, and print the figures."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--parameters", type=int, default=10_000_000)
    parser.add_argument("--draws", type=int, default=10_000)
    parser.add_argument("--minutes", type=float, default=20.0)
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()
    n, rng = given.parameters, np.random.default_rng(0)
    features = rng.integers(0, n, size=(20_000, ACTIVE))
    y = rng.integers(0, 2, size=20_000).astype(np.float32)
    inputs = rng.integers(0, n, size=(INPUTS, ACTIVE))

    def gradient(theta: np.ndarray, indices: np.ndarray) -> np.ndarray:
        g = theta.copy()  # of the prior N(0, 1)
        rows = features[indices]
        p = 1 / (1 + np.exp(-theta[rows].sum(axis=1)))
        np.add.at(g, rows.ravel(), np.repeat((len(y) / len(indices)) * (p - y[indices]), ACTIVE))
        return g

    def predict(theta: np.ndarray) -> np.ndarray:
        p = 1 / (1 + np.exp(-theta[inputs].sum(axis=1, dtype=np.float64)))
        return np.stack([1 - p, p], axis=1)

    figures: list[tuple[int, float]] = []
    begun, drawn, stopped = time.monotonic(), 0, False

    def watch(theta: np.ndarray) -> float:
        nonlocal drawn, stopped
        drawn += 1
        if drawn % max(1, given.draws // 100) == 0:
            figures.append((drawn, resident()))
        if not stopped and time.monotonic() - begun > 60 * given.minutes:
            stopped = True
            os.kill(os.getpid(), signal.SIGINT)  # as Ctrl-C: it ends with what it has
        return float(theta[0])

    model = sg.potentials.from_gradient(gradient, size=n, n_data=len(y), batch_size=200)
    before = resident()
    run = sg.sample(
        model, sg.SGHMC(step_size=0.02, friction=5.0), steps=given.draws, engine="inline", progress=False, keep="none",
        averages={"inputs": predict, "first weight": watch},
    )  # fmt: skip
    seconds, made = time.monotonic() - begun, run.averages["inputs"].count
    tenth = [memory for at, memory in figures if at >= made / 10]
    result = {
        "parameters": n, "draws": made, "inputs": INPUTS, "seconds": seconds,
        "megabytes_before": before, "megabytes_after_a_tenth": tenth[0], "megabytes_most_later": max(tenth),
        "megabytes_at_the_end": tenth[-1], "all_draws_would_take_megabytes": 4e-6 * n * made,
        "growth_after_a_tenth": max(tenth) / tenth[0] - 1, "first_weight": str(run.averages["first weight"]),
    }  # fmt: skip
    print(json.dumps(result, indent=1))
    print(f"{'draws':>8} {'resident MB':>12}")
    for at, memory in figures[:: max(1, len(figures) // 10)]:
        print(f"{at:8,} {memory:12.0f}")
    if given.json:
        given.json.write_text(json.dumps({**result, "figures": figures}, indent=1) + "\n")


if __name__ == "__main__":
    main()
