"""Figures 3 and 4 and their supplement: the test loss against iterations and time for S servers with W workers each.

φ is the cross-entropy over test data. Three curves of it are drawn, since the paper does not say which it shows:

* **φ̂**, the average over all updates so far, weighted by step sizes: what the paper's theory is about;
* the loss of the **current draw**, which is what the authors' public code evaluates;
* the loss of the **averaged prediction**, −log of the probability of a test label averaged over all draws of all
  servers, which is how that code combines servers.

Chains start where training would, and the average begins with the first iteration: the figures show how fast W workers
leave the start behind and how far their average gets, for equal iterations per worker L̄ = L/W. That the variance around
the end falls as 1/(SW) is what figure 2 measures. More servers leave the expectation of φ̂ as it is, and lower its
variance only; what falls with S is the loss of the averaged prediction.

*Order of arrivals*: of a simulated cluster, see :mod:`stalegrad.experiments.losses.chain_run`. *Time*: of the paper's
cluster, simulated, and for as many workers as this machine has cores, measured if one asks for it.
"""

import json
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from stalegrad._internal.numbers_file import write_numbers
from stalegrad._internal.progress_bar import Report
from stalegrad._internal.version import VERSION
from stalegrad.engines import available_cores
from stalegrad.experiments.losses.chain import ChainName, Momentum
from stalegrad.experiments.losses.chain_folder import ChainFolder
from stalegrad.experiments.losses.chain_record import ChainRecord
from stalegrad.experiments.losses.cluster import cluster_rate
from stalegrad.experiments.losses.curves import Extent, speedups, summary
from stalegrad.experiments.losses.evaluation import refuse_unless_a_place
from stalegrad.experiments.losses.layouts import FIGURES, GOALS, Goal, Layout, with_controls
from stalegrad.experiments.losses.picture import draw
from stalegrad.experiments.losses.reached import ends_of_repetitions, longer_alone, most_repeated
from stalegrad.experiments.losses.statements import statements
from stalegrad.experiments.losses.tasks import LOOKED_AT, TASKS, Task, model_of
from stalegrad.experiments.times import measure_times, time_step
from stalegrad.potentials.networks import Layers

_TIMED_SECONDS, _TIMED_STEPS = 3.0, 5000
_SHOWN = 80  # places of a curve that are written down and drawn


@dataclass(frozen=True)
class Wanted:
    """What is asked for.

    Args:
        iterations: L̄, in place of the goals of the figure.
        seeds: repetitions, in place of those of the goals.
        lr: learning rate, in place of the task's own.
        temperature: 1 samples; 0 is SGD with momentum.
        momentum: who keeps it.
        layers: of the networks: Caffe's, or the paper's.
        controls: made beside it.
    """

    iterations: int | None = None
    seeds: int | None = None
    lr: float | None = None
    temperature: float = 1.0
    momentum: Momentum = "server"
    layers: Layers = "caffe"
    controls: tuple[str, ...] = ()

    def goals(self, figure: str, task: Task) -> list[Goal]:
        """How far the chains of a figure are to get, one goal after the other."""
        planned = GOALS[figure, task.name]
        if self.iterations is None:
            return [Goal(goal.iterations, self.seeds or goal.seeds) for goal in planned]
        refuse_unless_a_place(self.iterations, task.density)
        return [Goal(self.iterations, self.seeds or planned[-1].seeds)]

    def chains(self, task: Task) -> Callable[[Layout, int], list[ChainName]]:
        """Gives the chains of a layout in a repetition."""
        common = {
            "task": task.name, "lr": self.lr or task.recipe.lr, "layers": self.layers, "momentum": self.momentum,
            "temperature": 0.0 if self.momentum == "workers" else self.temperature,
        }  # fmt: skip
        return lambda layout, seed: layout.chains(seed, **common)


def reproduce(
    figure: str,
    out: Path,
    names: Sequence[str] = tuple(TASKS),
    wanted: Wanted | None = None,
    *,
    deadline: float = float("inf"),
    processes: int | None = None,
    measure: bool = False,
    report: Report = lambda what, share: None,
) -> dict[str, Any]:
    """Execute what is missing in ``out``, and write the figure's JSON and pictures there.

    Under ``"datasets"`` is what two repetitions and more have; under ``"longest"``, with a picture of its own, what the
    first has beyond that.

    Args:
        figure: ``"fig3"``, ``"fig4"`` or ``"supplement"``.
        out: the folder. Chains that are there from an earlier call, even one for another figure, are used, and go on.
        names: data sets.
        wanted: what differs from the paper's.
        deadline: by :func:`time.time`, after which chains are left as they are and what is there is drawn.
        processes: chains at a time; as many as there are cores.
        measure: time this machine's own worker processes, for which it should have nothing else to do.
        report: called with what is being done and the share that is done.
    """
    wanted = wanted or Wanted()
    found, longest = dict[str, Any](), dict[str, Any]()
    begun = time.time()
    for position, name in enumerate(names):
        left = (deadline - time.time()) / (len(names) - position)  # what one data set leaves, the others have
        task = TASKS[name]
        layouts = with_controls(FIGURES[figure], wanted.controls)
        chains = wanted.chains(task)
        folder = ChainFolder(out, processes or available_cores(), time.time() + left)
        goals = wanted.goals(figure, task)
        for goal in goals:
            folder.lengthen(
                [chain for layout in layouts for r in range(goal.seeds) for chain in chains(layout, r)],
                goal.iterations, report,
            )  # fmt: skip
        records = folder.find(
            chain for layout in layouts for r in range(max(goal.seeds for goal in goals)) for chain in chains(layout, r)
        )
        measured = _measured(out / f"times-{name}.json", task, measure)
        ends = ends_of_repetitions(layouts, records, goals, chains)
        for into, reached in ((found, most_repeated(ends)), (longest, longer_alone(ends))):
            if reached is not None:
                extent = Extent(task, layouts, records, *reached, chains)
                into[name] = {
                    **_numbers(task, layouts, extent, wanted, measured),
                    "goals": [list(goal) for goal in goals],
                    "core_seconds": sum(
                        record.facts["seconds"] for chain, record in records.items() if chain.seed < reached.seeds
                    ),
                }
    numbers = {
        "figure": figure, "stalegrad": VERSION, "datasets": found, "longest": longest,
        "seconds": round(time.time() - begun, 1),
    }  # fmt: skip
    write_numbers(out / f"{figure}.json", numbers)
    for datasets, path in zip((found, longest), pictures(figure, out), strict=True):
        if datasets:
            draw({"datasets": datasets}, path)
    return numbers


def pictures(figure: str, out: Path) -> tuple[Path, Path]:
    """Where the picture of the repetitions is, and that of the longest chains."""
    return out / f"{figure}.png", out / f"{figure}-longest.png"


def _measured(path: Path, task: Task, measure: bool) -> dict[str, Any] | None:
    """Updates a second of 1, 2, … worker processes, as many as there are cores; measured once for a folder."""
    if path.exists():
        found: dict[str, Any] = json.loads(path.read_text())
        return found
    if not measure:
        return None
    model = model_of(task.name, task.recipe.batch_size)
    kernel = model.kernel(task, task.recipe.lr, 1.0)
    step = time_step(model.potential, kernel, 40)
    steps = min(_TIMED_STEPS, max(20, round(_TIMED_SECONDS / (step.gradient + step.update))))
    rates = [
        measure_times(model.potential, kernel, workers, "processes", steps=workers * steps).updates_per_second
        for workers in range(1, available_cores() + 1)
    ]
    found = {"engine": "processes", **step._asdict(), "updates_per_second": rates}
    write_numbers(path, found)
    return found


def _numbers(
    task: Task, layouts: list[Layout], extent: Extent, wanted: Wanted, measured: dict[str, Any] | None
) -> dict[str, Any]:
    size = model_of(task.name, task.recipe.batch_size, wanted.layers).potential.size
    shown = np.unique(np.geomspace(1, len(extent.axis), _SHOWN).astype(int)) - 1
    axis = extent.axis[shown]
    first = extent.chains(layouts[0], 0)[0].first
    rows = []
    for layout in layouts:
        every = extent.every(layout)
        rate = cluster_rate(task.machine, layout, size)
        row: dict[str, Any] = {**asdict(layout), "name": str(layout)}
        for kind, values, at in (
            ("average", extent.averages(layout), shown), ("current", extent.current(layout), shown),
            ("predictive", extent.predictive(layout), slice(None)),
        ):  # fmt: skip
            mean, half = summary(values)
            row[kind] = {"loss": mean[at].tolist(), "half_width": half[at].tolist()}
            if layout.servers == 1:  # more servers are made of the same chains
                row[kind]["ends"] = values[:, -1].tolist()
        if layout.servers == 1:
            row["by_updates"] = [list(each) for each in extent.by_updates(layout)]
        spread, spread_error = extent.spread(layout)
        row |= {
            "spread": spread, "spread_error": spread_error,
            "diverged": sum(chain.lost(extent.iterations) for chain in every),
            "grid_error": max(
                (chain.grid_error(task, extent.iterations) for chain in every if not chain.lost(extent.iterations)),
                default=float("nan"),
            ),
            "whole_test_loss": float(np.mean([_over_all_test_data(chain, extent.iterations) for chain in every])),
            "staleness_mean": float(np.mean([chain.facts.get("staleness_mean", np.nan) for chain in every])),
            "updates_per_second": rate,
            "seconds_per_iteration": layout.workers / rate,
        }  # fmt: skip
        if layout.servers == 1 and not layout.control:
            found = speedups(extent.axis, first, *extent.pairs("averages", layouts[0], layout))
            mean, half = summary(np.log(found)[:, None])
            row["iteration_speedup"] = [float(np.exp(mean[0] + side * half[0])) for side in (0, -1, 1)]
            if measured and layout.workers <= len(measured["updates_per_second"]):
                row["seconds_per_iteration_measured"] = (
                    layout.workers / measured["updates_per_second"][layout.workers - 1]
                )
        rows.append(row)
    recipe = task.recipe
    return {
        "title": task.title, "iterations": extent.iterations, "seeds": extent.seeds,
        "whole_iterations": task.iterations, "lr": wanted.lr or recipe.lr, "gamma": recipe.gamma,
        "momentum": recipe.momentum, "batch_size": recipe.batch_size, "temperature": wanted.temperature,
        "momentum_at": wanted.momentum, "layers": wanted.layers,
        "test_data": "all" if task.name == "a9a" else LOOKED_AT,
        "cluster": asdict(task.machine), "measured": measured, "axis": axis.tolist(),
        "round_axis": extent.round_axis.tolist(), "layouts": rows,
        "verdicts": [each.plain() for each in statements(layouts, extent)],
    }  # fmt: skip


def _over_all_test_data(chain: ChainRecord, iterations: int) -> float:
    """φ of the last draw with the whole test set; NaN if the chain is longer than the figure or was left on its way."""
    return float(chain.facts.get("whole_test_loss", np.nan)) if chain.iterations == iterations else float("nan")
