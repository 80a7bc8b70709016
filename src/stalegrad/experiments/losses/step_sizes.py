"""Where many workers become worse than few: the final test loss against the step size, for several W.

The bias of a stale chain grows with τh, and beyond a limit of about h λ_max τ the chain is not stable at all. So a step
that is good for four workers may be too large for nine; a smaller one makes nine the better again.
"""

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from stalegrad._internal.numbers_file import write_numbers
from stalegrad._internal.progress_bar import Report
from stalegrad._internal.version import VERSION
from stalegrad.engines import available_cores
from stalegrad.experiments.losses import curves
from stalegrad.experiments.losses.layouts import Layout
from stalegrad.experiments.losses.tasks import TASKS
from stalegrad.experiments.losses.unit_folder import UnitFolder
from stalegrad.experiments.losses.units import execute


def reproduce(
    out: Path,
    name: str = "cifar10",
    *,
    lr: Sequence[float],
    workers: Sequence[int] = (4, 9),
    iterations: int = 200,
    points: int = 10,
    seeds: int = 2,
    processes: int | None = None,
    report: Report = lambda what, share: None,
) -> dict[str, Any]:
    """Execute what is missing in ``out``, and write step_sizes.json and step_sizes.png there.

    Args:
        out: the folder.
        name: data set.
        lr: learning rates from which the steps h = √(lr/N) are made.
        workers: the numbers of workers to compare, the fewest first.
        iterations: L̄.
        points: evaluations of the test loss on the way.
        seeds: repetitions.
        processes: chains at a time; as many as there are cores.
        report: called with what is being done and the share that is done.
    """
    layouts = [Layout(1, count) for count in sorted(workers)]
    common = {"task": name, "iterations": iterations, "points": points}
    units = [
        unit for rate in lr for layout in layouts for r in range(seeds) for unit in layout.units(r, lr=rate, **common)
    ]
    results = UnitFolder(out, execute, processes or available_cores()).results(units, report)
    rows = []
    for rate in sorted(lr):
        values = [curves.estimates(layout, seeds, results, {**common, "lr": rate}) for layout in layouts]
        ends = [each[:, -1] for each in values]
        row: dict[str, Any] = {"lr": rate, "loss": [], "half_width": [], "loss_of_each_seed": [], "diverged": []}
        for layout, each in zip(layouts, values, strict=True):
            mean, half = curves.summary(each)
            row["loss"].append(mean.tolist())
            row["half_width"].append(half.tolist())
            row["loss_of_each_seed"].append(each.tolist())
            chains = [results[unit] for r in range(seeds) for unit in layout.units(r, lr=rate, **common)]
            row["diverged"].append(sum("loss" not in chain for chain in chains))
        row["comparisons"] = curves.comparisons(layouts, ends)
        rows.append(row)
    numbers = {
        "dataset": name, "title": TASKS[name].title, "stalegrad": VERSION, "iterations": iterations, "points": points,
        "seeds": seeds, "workers": [layout.workers for layout in layouts], "rows": rows,
        "machine": asdict(TASKS[name].machine), "verdict": verdict(rows),
    }  # fmt: skip
    write_numbers(out / "step_sizes.json", numbers)
    draw(numbers, out / "step_sizes.png")
    return numbers


def verdict(rows: Sequence[dict[str, Any]]) -> dict[str, float | None]:
    """The smallest lr at which most workers end worse than the number before, and the largest below where better.

    A chain that has diverged is worse than any that has not.
    """

    def worse(row: dict[str, Any]) -> bool:
        few, many = (np.array(row["loss"][k][-1], float) for k in (-2, -1))
        return bool(np.isnan(many) or many > few)

    too_large = next((row["lr"] for row in rows if worse(row)), None)
    repairing = [row["lr"] for row in rows if not worse(row) and (too_large is None or row["lr"] < too_large)]
    return {"too_large": too_large, "repaired_at": max(repairing, default=None)}


def draw(numbers: dict[str, Any], path: Path) -> None:
    """Final φ̂ against the learning rate, a line for each W; crosses at the top are chains that diverged."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(11, 4.2), layout="constrained")
    left, right = figure.subplots(1, 2)
    rates = [row["lr"] for row in numbers["rows"]]
    for k, workers in enumerate(numbers["workers"]):
        ends = np.array([row["loss"][k][-1] for row in numbers["rows"]], float)
        halves = np.array([row["half_width"][k][-1] for row in numbers["rows"]], float)
        left.errorbar(rates, ends, yerr=halves, fmt="o-", capsize=3, color=f"C{k}", label=f"{workers} workers")
        lost = [row["lr"] for row, end in zip(numbers["rows"], ends, strict=True) if np.isnan(end)]
        left.plot(lost, np.full(len(lost), 0.97 - 0.04 * k), "x", color=f"C{k}", transform=left.get_xaxis_transform())
    left.set(xscale="log", xlabel="learning rate", ylabel=f"test loss φ̂ after {numbers['iterations']:,} iterations")
    left.set_title(
        f"{numbers['title']}: equal iterations per worker, seeds: {numbers['seeds']} (×: diverged)", fontsize=9
    )
    left.legend(frameon=False)
    axis = numbers["iterations"] / numbers["points"] * np.arange(1, numbers["points"] + 1)
    wanted = [numbers["verdict"]["too_large"], numbers["verdict"]["repaired_at"]]
    for row in numbers["rows"]:
        if row["lr"] in wanted:
            style = "-" if row["lr"] == wanted[0] else "--"
            for k, workers in enumerate(numbers["workers"]):
                losses = np.array(row["loss"][k], float)
                right.plot(axis, losses, style, color=f"C{k}", label=f"{workers} workers, lr {row['lr']:g}")
    right.set(xlabel="iterations per worker, L̄", ylabel="test loss φ̂")
    right.set_title("too large a step for the most workers, and one that repairs it", fontsize=9)
    right.legend(frameon=False, fontsize=8)
    figure.savefig(path, dpi=150)
