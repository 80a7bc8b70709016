"""The memory of a run that keeps no draw: ten million parameters, predictions averaged on ten thousand inputs.

A logistic regression on hashed features with the prior N(0, 1): every input has 16 of n weights, which ones by Zipf's
law, as words of a text, so that a gradient is the prior's, dense, and that of a few rows, and a prediction reads 16
numbers an input. Labels are those of weights that were drawn from the prior. Updates with their noise are the dear
part. A thread reads the resident memory of the process four times a second. Growth is judged from a tenth of the
draws on: the largest value of the last tenth beside that of the second tenth.

    python benchmarks/averages_memory.py [--parameters 10000000] [--draws 10000] [--engine inline] [--json FILE]

After --minutes it stops with the draws that it has, and says how many.
"""

import argparse
import os
import signal
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

import harness
import stalegrad as sg
from stalegrad.potentials import Potential
from stalegrad.potentials.minibatches.scheme import Minibatches

ACTIVE, BATCH = 16, 200


def arguments(given: Sequence[str] | None = None) -> argparse.Namespace:
    """What the command line says."""
    parser = argparse.ArgumentParser(description="Memory of a run whose predictions are averaged as draws come.")
    parser.add_argument("--parameters", type=int, default=10_000_000)
    parser.add_argument("--draws", type=int, default=10_000)
    parser.add_argument("--inputs", type=int, default=10_000)
    parser.add_argument("--engine", default="inline", choices=("inline", "threads"))
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--minutes", type=float, default=60.0)
    harness.add_arguments(parser, rounds=None)
    return harness.parse(parser, given, parameters=100_000, draws=200, inputs=1_000)


class Hashed(Potential):
    """U(θ) = θᵀθ/2 − Σ log p(y_i | s_i), s_i = Σ θ_j over the 16 features j of datum i."""

    def __init__(self, features: np.ndarray, y: np.ndarray, parameters: int) -> None:
        super().__init__(parameters, Minibatches.of(len(y), BATCH, "subset"), np.dtype(np.float32))
        self._features, self._y = features, y

    def gradient(self, theta: np.ndarray, indices: np.ndarray) -> np.ndarray:
        """g̃ in a vector of its own."""
        out = np.empty((1, self.size), np.float32)
        self.gradients(theta[None], indices[None], out)
        return out[0]

    def gradients(self, theta: np.ndarray, indices: np.ndarray, out: np.ndarray) -> None:
        """The same, in the vector that is there."""
        for row in range(len(theta)):
            np.copyto(out[row], theta[row])
            features = self._features[indices[row]]
            error = probability(theta[row], features) - self._y[indices[row]]
            pull = (self.n_data / len(features)) * error
            np.add.at(out[row], features.ravel(), np.repeat(pull, ACTIVE).astype(np.float32))


def probability(theta: np.ndarray, features: np.ndarray) -> np.ndarray:
    """That an input with these features is of class 1."""
    return 1 / (1 + np.exp(-theta[features].sum(axis=1, dtype=np.float64)))


def texts(count: int, parameters: int, rng: np.random.Generator) -> np.ndarray:
    """Features of so many inputs: ranks by Zipf's law (exponent 1.3), hashed by a multiplication."""
    return (rng.zipf(1.3, size=(count, ACTIVE)).astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15)) % parameters


class Watcher(threading.Thread):
    """Notes the resident megabytes of this process until it is told to stop, and how many draws there were."""

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self.draws, self.seen, self._done = 0, list[tuple[float, int, float]](), threading.Event()
        self._begun = time.monotonic()

    def run(self) -> None:
        """Look four times a second."""
        while not self._done.wait(0.25):
            self.seen.append((time.monotonic() - self._begun, self.draws, resident()))

    def stop(self) -> None:
        """Look no more."""
        self._done.set()
        self.join()


def resident() -> float:
    """Megabytes of this process that are in memory."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 1e6


def measure(given: argparse.Namespace) -> dict[str, Any]:
    """Sample, and look at the process."""
    n, rng = given.parameters, np.random.Generator(np.random.Philox(key=0))
    truth = rng.standard_normal(n, np.float32)
    features, inputs = texts(20_000, n, rng), texts(given.inputs, n, rng)
    y, labels = (rng.random(len(each)) < probability(truth, each) for each in (features, inputs))
    oracle = nll(probability(truth, inputs), labels)
    del truth

    def predict(theta: np.ndarray) -> np.ndarray:
        p = probability(theta, inputs)
        return np.stack([1 - p, p], axis=1)

    def count(theta: np.ndarray) -> float:
        nonlocal stopped
        watcher.draws += 1
        if not stopped and time.monotonic() - begun > 60 * given.minutes:
            stopped = True
            os.kill(os.getpid(), signal.SIGINT)  # as Ctrl-C: it ends with what it has
        return float(theta[features[0, 0]])

    model, kernel = Hashed(features, y.astype(np.float32), n), sg.SGHMC(step_size=0.01, friction=5.0)
    stopped, watcher, before, begun, busy = False, Watcher(), resident(), time.monotonic(), time.process_time()
    watcher.start()
    run = sg.sample(
        model, kernel, steps=given.draws, workers=given.workers, engine=given.engine, seed=1, keep="none", warmup=None,
        averages={"inputs": predict, "a weight": count}, progress=False,
    )  # fmt: skip
    watcher.stop()
    predicted = run.averages["inputs"]
    made, p = predicted.count, predicted.probabilities[:, 1]
    return {
        "parameters": n, "draws": made, "inputs": given.inputs, "engine": given.engine, "workers": given.workers,
        "seconds": time.monotonic() - begun, "processor_seconds": time.process_time() - busy,
        "megabytes_before": before, "tenths": tenths(watcher.seen, made), "kept_draws_megabytes": 4e-6 * n * made,
        "nll": nll(p, labels), "nll_of_the_prior": float(np.log(2)), "nll_of_the_truth": oracle,
    }  # fmt: skip


def nll(p: np.ndarray, labels: np.ndarray) -> float:
    """Mean −log p of the labels."""
    return float(-np.log(np.where(labels, p, 1 - p)).mean())


def tenths(seen: Sequence[tuple[float, int, float]], draws: int) -> list[dict[str, float]]:
    """The least and the most resident megabytes in each tenth of the draws."""
    found = []
    for tenth in range(10):
        low, high = tenth * draws / 10, (tenth + 1) * draws / 10
        inside = [memory for _, at, memory in seen if at > 0 and low <= at <= high]
        if inside:
            found.append({"draws": high, "least": min(inside), "most": max(inside), "looks": len(inside)})
    return found


def main() -> None:
    """Measure and report."""
    given = arguments()
    result = measure(given)
    rows = result["tenths"]
    if len(rows) > 2:
        result["growth"] = rows[-1]["most"] / rows[1]["most"] - 1
    console = Console(stderr=given.json == "-")
    table = Table(title=f"{result['parameters']:,} parameters, {result['draws']:,} draws, {result['inputs']:,} inputs")
    for heading in ("draws", "least MB", "most MB", "looks"):
        table.add_column(heading, justify="right")
    for row in rows:
        table.add_row(f"{row['draws']:,.0f}", f"{row['least']:.1f}", f"{row['most']:.1f}", f"{row['looks']}")
    console.print(table)
    console.print({key: value for key, value in result.items() if key != "tenths"})
    harness.write_json(result, given.json)


if __name__ == "__main__":
    main()
