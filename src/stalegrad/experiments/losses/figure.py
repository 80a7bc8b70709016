"""Figures 3 and 4 and their supplement: the test loss against iterations and time for S servers with W workers each.

φ is the cross-entropy over the test set, φ̂ its average over a chain so far, weighted by step sizes, and then over the
chains of all servers. Chains start where training would, and the average begins with the first iteration: as in the
paper, the figures show how fast W workers leave the start behind and how far their average gets, for equal iterations
per worker L̄ = L/W. That the variance around the end falls as 1/(SW) is what figure 2 measures.

More servers leave the expectation of φ̂ as it is, and lower its variance only. What falls with S is the loss of the
averaged prediction, −log of the probability of a test label averaged over all draws of all chains: shown beside φ̂.

*Order of arrivals*: of a simulated cluster, see :mod:`stalegrad.experiments.losses.units`. *Time*: of the paper's
cluster, simulated, and for as many workers as this machine has cores, measured here with worker processes.
"""

import json
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from stalegrad._internal.errors import ArgumentError
from stalegrad._internal.numbers_file import write_numbers
from stalegrad._internal.progress_bar import Report
from stalegrad._internal.types import Array
from stalegrad._internal.version import VERSION
from stalegrad.engines import available_cores
from stalegrad.experiments.losses import curves
from stalegrad.experiments.losses.budget import affordable, measure_costs
from stalegrad.experiments.losses.cluster import cluster_rate
from stalegrad.experiments.losses.layouts import FIGURES, Layout, chain_count, updates_per_iteration
from stalegrad.experiments.losses.picture import draw
from stalegrad.experiments.losses.tasks import TASKS, Model, Task, model_of
from stalegrad.experiments.losses.unit_folder import UnitFolder
from stalegrad.experiments.losses.units import execute
from stalegrad.experiments.times import measure_times

_TIMED_SECONDS = 3.0
_TIMED_STEPS = 5000


@dataclass(frozen=True)
class Extent:
    """How much of a whole experiment is done. Kept in the folder, so that a later call goes on with the same.

    Args:
        iterations: L̄.
        points: evaluations of the test loss on the way.
        seeds: repetitions.
        lr: learning rate.
        budget: the minutes that L̄ was chosen for; None if it was given or is the whole.
    """

    iterations: int
    points: int
    seeds: int
    lr: float
    budget: float | None = None

    @property
    def common(self) -> dict[str, Any]:
        """What all units have in common."""
        return {"iterations": self.iterations, "points": self.points, "lr": self.lr}


def reproduce(
    figure: str,
    out: Path,
    names: Sequence[str] = tuple(TASKS),
    *,
    budget: float | None = None,
    iterations: int | None = None,
    seeds: int | None = None,
    lr: float | None = None,
    processes: int | None = None,
    report: Report = lambda what, share: None,
) -> dict[str, Any]:
    """Execute what is missing in ``out``, and write the figure's JSON and picture there.

    Args:
        figure: ``"fig3"``, ``"fig4"`` or ``"supplement"``.
        out: the folder. Units that are there from an earlier call, even one for another figure, are used.
        names: data sets.
        budget: minutes for all data sets together; L̄ is cut to what fits.
        iterations: L̄ in place of that.
        seeds: repetitions in place of the tasks' own.
        lr: learning rate in place of the tasks' own.
        processes: units at a time; as many as there are cores.
        report: called with what is being done and the share that is done.
    """
    processes = processes or available_cores()
    requested = {"iterations": iterations, "seeds": seeds, "lr": lr}
    found: dict[str, Any] = {}
    begun = time.monotonic()
    for position, name in enumerate(names):
        task = TASKS[name]
        report(f"{name}: loading", 0.0)
        model = model_of(name, task.recipe.batch_size)
        left = None
        if budget is not None:
            left = (60 * budget - (time.monotonic() - begun)) / (len(names) - position)
        extent = _extent(out / f"{figure}-{name}-extent.json", figure, task, model, requested, left, processes)
        report(f"{name}: timing", 0.0)
        measured = _measured(out / f"times-{name}.json", task, model)
        layouts = FIGURES[figure]
        common = {"task": name, **extent.common}
        units = {unit for layout in layouts for r in range(extent.seeds) for unit in layout.units(r, **common)}
        place = UnitFolder(out, execute, processes)
        results = place.results(units, report)
        found[name] = _numbers(task, model, layouts, extent, results, place, measured)
    numbers = {"figure": figure, "stalegrad": VERSION, "datasets": found}
    write_numbers(out / f"{figure}.json", numbers)
    draw(numbers, out / f"{figure}.png")
    return numbers


def _extent(
    path: Path, figure: str, task: Task, model: Model, requested: dict[str, Any], seconds: float | None, processes: int
) -> Extent:
    """What an earlier call has chosen, or a choice that is then kept."""
    if path.exists():
        extent = Extent(**json.loads(path.read_text()))
        for name, value in requested.items():
            if value is not None and value != getattr(extent, name):
                problem = f"is not that of the experiment in {path.parent}, which has {getattr(extent, name)}"
                raise ArgumentError(name, value, problem, "Leave it out to go on with that one, or give another --out.")
        return extent
    seeds = requested["seeds"] or task.seeds
    lr, chosen = requested["lr"] or task.recipe.lr, requested["iterations"]
    if chosen is not None:
        if chosen % task.points:
            remedy = f"Give a multiple of {task.points}, the number of places where {task.name} is evaluated."
            raise ArgumentError("iterations", chosen, f"does not divide into {task.points} equal parts", remedy)
        extent = Extent(chosen, task.points, seeds, lr)
    elif seconds is None:
        extent = Extent(task.iterations, task.points, seeds, lr)
    else:
        layouts = FIGURES[figure]
        fits = affordable(
            task, measure_costs(task, model), updates=seeds * updates_per_iteration(layouts),
            chains=seeds * chain_count(layouts), seconds=seconds * processes,
        )  # fmt: skip
        extent = Extent(fits, task.points, seeds, lr, budget=round(seconds / 60, 2))
    write_numbers(path, asdict(extent))
    return extent


def _measured(path: Path, task: Task, model: Model) -> dict[str, Any]:
    """Updates a second of 1, 2, … worker processes, as many as there are cores; measured once for a folder."""
    if path.exists():
        found: dict[str, Any] = json.loads(path.read_text())
        return found
    kernel, costs = model.kernel(task, task.recipe.lr, 1.0), measure_costs(task, model)
    rates = [
        measure_times(
            model.potential,
            kernel,
            workers,
            "processes",
            steps=workers * min(_TIMED_STEPS, max(20, round(_TIMED_SECONDS / costs.step))),
        ).updates_per_second
        for workers in range(1, available_cores() + 1)
    ]
    found = {"engine": "processes", **asdict(costs), "updates_per_second": rates}
    write_numbers(path, found)
    return found


def _numbers(
    task: Task,
    model: Model,
    layouts: list[Layout],
    extent: Extent,
    results: curves.Results,
    place: UnitFolder,
    measured: dict[str, Any],
) -> dict[str, Any]:
    common = {"task": task.name, **extent.common}
    iterations = extent.iterations / extent.points * np.arange(1, extent.points + 1)
    values = [curves.estimates(layout, extent.seeds, results, common) for layout in layouts]
    predictive = [
        curves.predictive_losses(
            layout, extent.seeds, results, common, lambda unit: place.arrays(unit, "log_likelihood")
        )
        for layout in layouts
    ]
    rows = []
    for layout, each, averaged in zip(layouts, values, predictive, strict=True):
        mean, half = curves.summary(each)
        predictive_mean, predictive_half = curves.summary(averaged)
        chains = [results[unit] for r in range(extent.seeds) for unit in layout.units(r, **common)]
        rate = cluster_rate(task.machine, layout, model.potential.size)
        row = {
            **asdict(layout),
            "loss": mean.tolist(),
            "half_width": half.tolist(),
            "loss_of_each_seed": each.tolist(),
            "predictive_loss": predictive_mean.tolist(),
            "predictive_half_width": predictive_half.tolist(),
            "predictive_loss_of_each_seed": averaged.tolist(),
            "last_draw": float(np.mean([chain["loss"][-1] if "loss" in chain else np.nan for chain in chains])),
            "diverged": sum("loss" not in chain for chain in chains),
            "staleness_mean": float(np.mean([chain.get("staleness_mean", np.nan) for chain in chains])),
            "updates_per_second": rate,
            "seconds": (layout.workers * iterations / rate).tolist(),
            "iteration_speedup": None
            if layout.servers > 1
            else curves.speedup(iterations, values[0].mean(0), each.mean(0)),
        }
        here = measured["updates_per_second"]
        if layout.servers == 1 and layout.workers <= len(here):
            row["seconds_measured"] = (layout.workers * iterations / here[layout.workers - 1]).tolist()
        rows.append(row)
    return {
        "title": task.title,
        **asdict(extent),
        "whole_iterations": task.iterations,
        "cluster": asdict(task.machine),
        "measured": measured,
        "iterations_axis": iterations.tolist(),
        "layouts": rows,
        "comparisons": _compared(layouts, values, iterations),
        "predictive_comparisons": _compared(layouts, predictive, iterations),
        "core_seconds": sum(result["seconds"] + result.get("seconds_of_losses", 0.0) for result in results.values()),
    }


def _compared(layouts: list[Layout], values: list[Array], iterations: Array) -> list[dict[str, Any]]:
    """Each layout with the one before it, early on the way, after a quarter of it and at its end."""
    places = sorted({0, max(0, len(iterations) // 4 - 1), len(iterations) - 1})
    return [
        {
            "iterations": float(iterations[k]),
            "comparisons": curves.comparisons(layouts, [each[:, k] for each in values]),
        }
        for k in places
    ]
