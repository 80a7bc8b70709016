"""What averaging over the posterior is worth: a network's predictions, averaged, of single draws, and of plain SGD.

Everything costs the same number of gradients. The sampler is stale: its gradients come from W workers on the simulated
cluster. *SGD* is the same network with momentum, the same minibatches and the prior as weight decay, at temperature 0
and with fresh gradients, at several learning rates, of which the best on the test set is shown too: an advantage that
the sampler does not get.
"""

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from stalegrad._internal.errors import GradientError
from stalegrad._internal.numbers_file import write_numbers
from stalegrad._internal.progress_bar import Report
from stalegrad._internal.version import VERSION
from stalegrad.analysis.estimates import PredictiveAverage, Scores, score
from stalegrad.engines import available_cores
from stalegrad.experiments.losses.tasks import TASKS, model_of
from stalegrad.experiments.losses.unit_folder import UnitFolder
from stalegrad.experiments.losses.units import Unit, chain_of

BURN_IN = 0.5
"""Share of the draws that are left out of averages."""


def execute(unit: Unit) -> dict[str, Any]:
    """Scores on the test set: of the averaged prediction, of single draws on average, and of the last one."""
    task = TASKS[unit.task]
    model = model_of(task.name, task.recipe.batch_size)
    try:
        draws, steps, _ = chain_of(unit, task, model)
    except GradientError as error:
        return {**asdict(unit), "diverged": str(error)}
    kept = slice(int(BURN_IN * len(draws)), None)
    average, singles = PredictiveAverage(), []
    for theta, weight in zip(draws[kept], steps[kept], strict=True):
        probabilities = model.predict(theta)
        average.add(probabilities, weight=float(weight))
        singles.append(score(probabilities, model.labels))
    return {
        **asdict(unit),
        "average": asdict(average.scores(model.labels)),
        "single": {name: float(np.mean([asdict(s)[name] for s in singles])) for name in _names()},
        "last": asdict(singles[-1]),
    }


def reproduce(
    out: Path,
    name: str = "mnist",
    *,
    gradients: int = 20_000,
    draws: int = 60,
    workers: int = 2,
    seeds: int = 3,
    lr: float | None = None,
    temperatures: Sequence[float] = (1.0, 0.1),
    sgd_lr: Sequence[float] = (0.003, 0.01),
    processes: int | None = None,
    report: Report = lambda what, share: None,
) -> dict[str, Any]:
    """Execute what is missing in ``out``, and write averaging.json there.

    Args:
        out: the folder.
        name: data set.
        gradients: that each of them costs.
        draws: predictions that are made on the way; the first half of them is left out of averages.
        workers: W of the sampler.
        seeds: repetitions.
        lr: learning rate from which the sampler's step is made; None for the task's own.
        temperatures: T of the sampler, one after the other.
        sgd_lr: learning rates of SGD.
        processes: runs at a time; as many as there are cores.
        report: called with what is being done and the share that is done.
    """
    lr = lr or TASKS[name].recipe.lr
    common: dict[str, Any] = {"task": name, "chain": 0, "points": draws}
    sampled = {
        temperature: [
            Unit(workers=workers, seed=r, iterations=gradients // workers, lr=lr, temperature=temperature, **common)
            for r in range(seeds)
        ]
        for temperature in temperatures
    }
    trained = {
        rate: [Unit(workers=1, seed=r, iterations=gradients, lr=rate, temperature=0.0, **common) for r in range(seeds)]
        for rate in sgd_lr
    }
    place = UnitFolder(out, execute, processes or available_cores(), kind="averaging-")
    results = place.results([unit for units in (*sampled.values(), *trained.values()) for unit in units], report)
    rows = []
    for temperature, units in sampled.items():
        for what, name_of_it in (("average", "posterior average"), ("single", "a single draw"), ("last", "last draw")):
            finished = [results[unit][what] for unit in units if what in results[unit]]
            if finished:
                rows.append(_row(f"{name_of_it}, T = {temperature:g}", finished))
    for rate, units in trained.items():
        finished = [results[unit]["last"] for unit in units if "last" in results[unit]]
        if finished:
            rows.append(_row(f"SGD, lr {rate:g}", finished))
    numbers = {
        "dataset": name, "stalegrad": VERSION, "gradients": gradients, "draws": draws, "burn_in": BURN_IN,
        "workers": workers, "seeds": seeds, "lr": lr, "temperatures": list(temperatures), "rows": rows,
        "diverged": [result for result in results.values() if "diverged" in result],
    }  # fmt: skip
    write_numbers(out / "averaging.json", numbers)
    return numbers


def _row(name: str, found: list[dict[str, float]]) -> dict[str, Any]:
    """Mean and standard deviation over the repetitions of every score."""
    values = {score: [each[score] for each in found] for score in _names()}
    return {
        "name": name,
        "seeds": len(found),
        **{score: float(np.mean(each)) for score, each in values.items()},
        "sd": {score: float(np.std(each, ddof=1)) if len(each) > 1 else None for score, each in values.items()},
    }


def _names() -> list[str]:
    return list(Scores.__dataclass_fields__)
