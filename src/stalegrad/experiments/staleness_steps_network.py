"""Step sizes that depend on staleness, on CIFAR-10 at nine workers, at the step size at which nine are worse than four.

The average is over few draws and gives all of them the same weight: which h_l happens to belong to one of them is
chance, and over many draws the weights that they stand for are equal.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from stalegrad._internal.numbers_file import write_numbers
from stalegrad._internal.progress_bar import Report
from stalegrad._internal.version import VERSION
from stalegrad.experiments.losses.tasks import TASKS
from stalegrad.experiments.losses.unit_folder import UnitFolder
from stalegrad.experiments.losses.units import Unit, execute


def reproduce(
    out: Path,
    *,
    lr: float = 0.000125,
    iterations: int = 60,
    points: int = 6,
    rules: Sequence[str] = ("two-thirds", "optimal"),
    report: Report = lambda what, share: None,
) -> Path:
    """Execute what is missing in ``out``, and write staleness_steps_cifar10.json there.

    Args:
        out: the folder.
        lr: learning rate, from which the step is made. Nine workers are worse than four at this one.
        iterations: L̄, updates for each worker.
        points: evaluations of the test loss on the way.
        rules: for nine workers, besides constant steps.
        report: called with what is being done and the share that is done.
    """
    common: dict[str, Any] = {"task": "cifar10", "chain": 0, "seed": 0, "iterations": iterations, "points": points}
    compared = [(4, "constant"), (9, "constant"), *((9, rule) for rule in rules)]
    units = [Unit(workers=workers, lr=lr, rule=rule, **common) for workers, rule in compared]
    results = UnitFolder(out, execute, 1).results(units, report)
    rows = [
        {
            "workers": unit.workers,
            "rule": unit.rule,
            **{name: results[unit].get(name) for name in ("loss", "diverged", "staleness_mean", "staleness_max")},
            "average": float(np.mean(results[unit].get("loss", [np.nan]))),
        }
        for unit in units
    ]
    path = out / "staleness_steps_cifar10.json"
    task = TASKS["cifar10"]
    write_numbers(path, {"title": task.title, "stalegrad": VERSION, "lr": lr, "iterations": iterations, "rows": rows})
    return path
