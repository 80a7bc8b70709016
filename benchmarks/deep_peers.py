"""Beside posteriors and laplace-torch: the classifier of posteriors' README on MNIST, seconds and NLL.

:mod:`deep_methods` has the methods. Seconds are those of the processor, of one thread, from the first gradient to the
last prediction. Learning rates were chosen by ``--choose``, which scores each on 5,000 training images that it holds
out, with seeds that are not reported.

    python benchmarks/deep_peers.py [--gradients 2000] [--seeds 5] [--choose] [--json FILE]
"""

import argparse
import json
import time
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from scipy.stats import t as student

import cores
import harness
import images
from deep_methods import DRAWS, FEW, FROM_MAP, METHODS, TRAINED, Rates, Task
from results import Bar, Result

SCORES = ("nll", "calibration_error", "accuracy")
TEXT = """
The classifier of posteriors' README (784–200–200–10, ReLU, prior N(0, 1) on each of its 199,210 weights) on
{source}, {seeds} seeds, {gradients:,} gradients of minibatches of 64 for every method; Laplace approximations read all
data once more, and samplers of the last layer make as many updates again on cached features. Seconds are the
processor's, of one thread, from the first gradient to the last prediction, including training. Mean ± 95 % (Student's t
over seeds). Learning rates were chosen on held-out training images. laplace-torch's linearised predictions with all
weights are made for the first {few} test images only, and its seconds are of those. {best}
"""


def measured(method: str, task: Task) -> dict[str, Any]:
    """One method with one seed; scores on all test images are None where it predicts the first ones alone."""
    starts_there, known = method in FROM_MAP, task in TRAINED
    begun = time.process_time()
    probabilities = METHODS[method](task)
    seconds, labels = time.process_time() - begun, np.asarray(task.y_test)
    seconds += TRAINED[task][1] if starts_there and known else 0.0
    whole = scores(probabilities, labels) if len(probabilities) == len(labels) else dict.fromkeys(SCORES)
    return {"seconds": seconds, **whole, "nll_few": scores(probabilities[:FEW], labels[:FEW])["nll"]}


def scores(probabilities: np.ndarray, labels: np.ndarray) -> dict[str, float]:
    """What is reported."""
    import stalegrad as sg

    average = sg.estimates.PredictiveAverage()
    average.add(probabilities)
    found = average.scores(labels)
    return {name: float(getattr(found, name)) for name in SCORES}


def interval(values: Sequence[float]) -> tuple[float, float]:
    """Mean, and half of the 95 % interval over seeds."""
    if len(values) < 2:
        return float(values[0]), float("nan")
    error = np.std(values, ddof=1) / np.sqrt(len(values))
    return float(np.mean(values)), float(student.ppf(0.975, len(values) - 1) * error)


def best_said(found: dict[str, list[dict[str, Any]]], key: str, on: str) -> str:
    """Which method has the lowest NLL, and from which the seeds cannot tell it."""
    found = {name: rows for name, rows in found.items() if rows[0][key] is not None}
    means = {name: float(np.mean([row[key] for row in rows])) for name, rows in found.items()}
    best = min(means, key=lambda name: means[name])
    if len(found[best]) < 2:
        return f"On {on} the lowest NLL is that of {best}, of one seed."
    alike = []
    for name, rows in found.items():
        paired = [row[key] - own[key] for row, own in zip(rows, found[best], strict=True)]
        middle, half = interval(paired)
        if name != best and middle - half <= 0:
            alike.append(name)
    beside = (
        f"the seeds cannot tell it from {', '.join(alike)}" if alike else "all others are behind it, paired by seed"
    )
    return f"On {on} the lowest mean NLL is that of {best}; {beside}."


def arguments(given: Sequence[str] | None = None) -> argparse.Namespace:
    """What the command line says."""
    parser = argparse.ArgumentParser(description="A classifier by posteriors, laplace-torch and stalegrad.")
    parser.add_argument("--gradients", type=int, default=2_000)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--first-seed", type=int, default=0)
    parser.add_argument("--combine", nargs="+", metavar="FILE", help="report the seeds of several JSON files together")
    parser.add_argument("--test", type=int, default=10_000, help="images that are scored")
    parser.add_argument("--train", type=int, default=60_000, help="images that are learnt")
    parser.add_argument("--methods", nargs="+", choices=list(METHODS), default=list(METHODS))
    parser.add_argument("--choose", action="store_true", help="score learning rates on held-out training images")
    harness.add_arguments(parser, rounds=None)
    return harness.parse(parser, given, gradients=40, seeds=1, test=100, train=500)


def task_of(data: images.Images, given: argparse.Namespace, seed: int, held_out: bool) -> Task:
    """The data as tensors; with ``held_out`` the last twelfth of the training images takes the place of the test's."""
    import torch

    X, X_test = (torch.from_numpy(part.reshape(len(part), 784) / np.float32(255)) for part in (data.X, data.X_test))
    y, y_test = (torch.from_numpy(np.asarray(part, np.int64)) for part in (data.y, data.y_test))
    X, y = X[: given.train], y[: given.train]
    if held_out:
        cut = len(X) - len(X) // 12
        X, y, X_test, y_test = X[:cut], y[:cut], X[cut:], y[cut:]
    return Task(X, y, X_test[: given.test], y_test[: given.test], given.gradients, seed, Rates())


def choose(given: argparse.Namespace, data: images.Images, console: Console) -> None:
    """NLL on held-out training images of one seed, for each learning rate."""
    task = task_of(data, given, 1_000, held_out=True)
    grid: list[tuple[str, str, Sequence[float]]] = [
        ("MAP by Adam", "adam", (3e-4, 1e-3, 3e-3)),
        ("posteriors, diagonal VI", "vi", (3e-4, 1e-3, 3e-3)),
        ("posteriors, diagonal VI", "vi_log_sd", (0.0, -3.0, -5.0)),
        ("stalegrad, SGHMC", "sghmc", (0.003, 0.01, 0.03, 0.1)),
        ("stalegrad, SGHMC, last layer", "last", (0.003, 0.01, 0.03)),
    ]
    for method, name, values in grid:
        for value in values if method in given.methods else ():
            row = measured(method, replace(task, rates=replace(task.rates, **{name: value})))
            console.print(f"{method}, {name} = {value:g}: NLL {row['nll']:.4f}, {row['seconds']:.1f} s")


def main() -> None:
    """Measure and report."""
    given = arguments()
    found: dict[str, list[dict[str, Any]]]
    if given.combine:
        found, source = combined(given.combine)
        report(found, source, given, len(next(iter(found.values()))))
        return
    cores.one_core()

    import torch

    torch.set_num_threads(1)
    data, console = images.load("mnist"), Console(stderr=True)
    if given.choose:
        choose(given, data, console)
        return
    warm = replace(task_of(data, given, 0, held_out=False), gradients=2 * DRAWS)
    for method in given.methods:  # compilation and first touches
        if "laplace" not in method:
            METHODS[method](warm)
    found = {method: [] for method in given.methods}
    for done in range(given.seeds):
        seed = given.first_seed + done
        TRAINED.clear()
        task = task_of(data, given, seed, held_out=False)
        for method in given.methods:
            found[method].append(measured(method, task))
            row = found[method][-1]
            console.print(f"seed {seed}, {method}: {row['seconds']:.1f} s, NLL of the first {row['nll_few']:.4f}")
        report(found, data.source, given, done + 1)  # what is interrupted has the seeds that are done


def combined(files: Sequence[str]) -> tuple[dict[str, list[dict[str, Any]]], str]:
    """The figures of all files by seed, of the methods that have all of the first one's, and what their data were."""
    documents = [json.loads(Path(file).read_text(encoding="utf-8")) for file in files]
    found: dict[str, dict[int, dict[str, Any]]] = {name: {} for name in METHODS}
    for document in documents:
        for name, rows in document["figures"]["methods"].items():
            found[name] |= dict(enumerate(rows, document["settings"]["first_seed"]))
    seeds = sorted(next(iter(found.values())))
    whole = {name: [rows[seed] for seed in seeds] for name, rows in found.items() if sorted(rows) == seeds}
    return whole, documents[0]["settings"]["data"]


def report(found: dict[str, list[dict[str, Any]]], source: str, given: argparse.Namespace, seeds: int) -> None:
    """Tables, bar and JSON of so many seeds."""
    best = f"{best_said(found, 'nll', 'all test images')} {best_said(found, 'nll_few', f'the first {FEW}')}"
    settings = {"data": source, **vars(given), "seeds": seeds}
    text = TEXT.format(source=source, best=best, few=FEW, gradients=given.gradients, seeds=seeds)
    result = Result("A classifier beside posteriors and laplace-torch", text, settings)
    keys = ("seconds", *SCORES, "nll_few")
    rows = [[method, *(_shown(key, [row[key] for row in found[method]]) for key in keys)] for method in found]
    result.table(
        f"MNIST classifier, {given.gradients:,} gradients, {seeds} seeds ({source})",
        ["", "processor seconds", "NLL", "calibration error", "accuracy", f"NLL, first {FEW}"], rows,
    )  # fmt: skip
    ours, theirs = "stalegrad, SGHMC", "posteriors, SGHMC"
    if {ours, theirs} <= set(found):
        seconds = [float(np.median([row["seconds"] for row in found[name]])) for name in (ours, theirs)]
        result.bars.append(Bar("Seconds of the same SGHMC, beside posteriors", *seconds, 1.0, at_least=False, unit="s"))
    result.figures["rates"] = asdict(Rates())
    result.figures["methods"] = found
    result.finish(given.json)


def _shown(key: str, values: Sequence[Any]) -> str:
    if values[0] is None:
        return "–"
    middle, half = interval(values)
    digits = 1 if key == "seconds" else 4
    return f"{middle:.{digits}f}" if half != half else f"{middle:.{digits}f} ± {half:.{digits}f}"


if __name__ == "__main__":
    main()
