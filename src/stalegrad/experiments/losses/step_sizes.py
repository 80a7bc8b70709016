"""Where many workers become worse than few: the final test loss against the step size, for several W.

The bias of a stale chain grows with τh, and beyond a limit of about h λ_max τ the chain is not stable at all. So a step
that is good for four workers may be too large for six and nine; a smaller one makes them the better again. That is what
the paper says about CIFAR-10.
"""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from stalegrad._internal.numbers_file import write_numbers
from stalegrad._internal.progress_bar import Report
from stalegrad._internal.version import VERSION
from stalegrad.engines import available_cores
from stalegrad.experiments.losses.chain_folder import ChainFolder
from stalegrad.experiments.losses.curves import Extent, summary
from stalegrad.experiments.losses.evaluation import refuse_unless_a_place
from stalegrad.experiments.losses.figure import Wanted
from stalegrad.experiments.losses.layouts import Layout
from stalegrad.experiments.losses.statements import differences
from stalegrad.experiments.losses.tasks import TASKS
from stalegrad.experiments.verdicts import CANNOT_TELL, DOES_NOT, HOLDS, Verdict, all_of, below


def reproduce(
    out: Path,
    name: str = "cifar10",
    *,
    lr: Sequence[float],
    workers: Sequence[int] = (4, 6, 9),
    iterations: int = 200,
    seeds: int = 3,
    wanted: Wanted | None = None,
    deadline: float = float("inf"),
    processes: int | None = None,
    report: Report = lambda what, share: None,
) -> dict[str, Any]:
    """Execute what is missing in ``out``, and write step_sizes.json and step_sizes.png there.

    Args:
        out: the folder; chains of figures 3 and 4 that are there are used.
        name: data set.
        lr: learning rates from which the steps h = √(lr/N) are made.
        workers: the numbers of workers to compare: the fewest with each of the others.
        iterations: L̄.
        seeds: repetitions.
        wanted: temperature, momentum and layers, where they are not the paper's.
        deadline: by :func:`time.time`, after which learning rates that are not done are left out.
        processes: chains at a time; as many as there are cores.
        report: called with what is being done and the share that is done.
    """
    task, wanted = TASKS[name], wanted or Wanted()
    refuse_unless_a_place(iterations, task.density)
    layouts = [Layout(1, count) for count in sorted(workers)]
    folder = ChainFolder(out, processes or available_cores(), deadline)
    rows = []
    for rate in sorted(lr):
        chains = replace(wanted, lr=rate).chains(task)
        names = [chain for layout in layouts for r in range(seeds) for chain in chains(layout, r)]
        folder.lengthen(names, iterations, report)
        records = folder.find(names)
        if all(chain in records and records[chain].has(task, iterations) for chain in names):
            rows.append(_row(rate, layouts, Extent(task, layouts, records, iterations, seeds, chains)))
    numbers = {
        "dataset": name, "title": task.title, "stalegrad": VERSION, "iterations": iterations, "seeds": seeds,
        "workers": [layout.workers for layout in layouts], "temperature": wanted.temperature,
        "momentum_at": wanted.momentum, "layers": wanted.layers,
        "left_out": sorted({*lr} - {row["lr"] for row in rows}),
        "rows": rows, "verdicts": [each.plain() for each in verdicts(rows, [layout.workers for layout in layouts])],
    }  # fmt: skip
    write_numbers(out / "step_sizes.json", numbers)
    if rows:
        draw(numbers, out / "step_sizes.png")
    return numbers


def _row(rate: float, layouts: list[Layout], extent: Extent) -> dict[str, Any]:
    row: dict[str, Any] = {"lr": rate, "axis": extent.axis.tolist(), "loss": [], "half_width": [], "current": []}
    for layout in layouts:
        mean, half = summary(extent.averages(layout))
        row["loss"].append(mean.tolist())
        row["half_width"].append(half.tolist())
        row["current"].append(float(extent.current(layout)[:, -1].mean()))
    level = 1 - 0.05 / max(1, len(layouts) - 1)
    row["above_fewest"] = [
        differences(layouts[0], layout, extent, "averages", extent.iterations, level) for layout in layouts[1:]
    ]
    row["diverged"] = [sum(chain.lost(extent.iterations) for chain in extent.every(layout)) for layout in layouts]
    return row


def worse(row: dict[str, Any]) -> str:
    """Whether all of the larger numbers of workers end worse than the fewest: one that diverges does."""
    lost = [count > 0 for count in row["diverged"][1:]]
    parts = [
        HOLDS if gone else below(-mean, half) for gone, (mean, half) in zip(lost, row["above_fewest"], strict=True)
    ]
    return all_of(parts)


def verdicts(rows: Sequence[dict[str, Any]], workers: Sequence[int]) -> list[Verdict]:
    """Whether some step is too large for the more workers alone, and whether a smaller one repairs it."""
    many = " and ".join(map(str, workers[1:]))
    outcomes = {row["lr"]: worse(row) for row in rows}
    too_large = [lr for lr, outcome in outcomes.items() if outcome == HOLDS]
    better = [
        row["lr"]
        for row in rows
        if not any(row["diverged"]) and all_of([below(mean, half) for mean, half in row["above_fewest"]]) == HOLDS
    ]
    repaired = [lr for lr in better if too_large and lr < min(too_large)]

    def evidence(lr: float) -> str:
        row = next(row for row in rows if row["lr"] == lr)
        parts = zip(workers[1:], row["above_fewest"], row["diverged"][1:], strict=True)
        return f"lr {lr:g}: " + ", ".join(
            f"{w} above {workers[0]} by " + ("divergence" if gone else f"{mean:+.2g} ± {half:.1g}")
            for w, (mean, half), gone in parts
        )

    none = DOES_NOT if rows and all(outcome == DOES_NOT for outcome in outcomes.values()) else CANNOT_TELL
    everything = "; ".join(map(evidence, outcomes)) or "no learning rate has all its chains"
    return [
        Verdict(
            f"At a large step {many} workers end worse than {workers[0]}", HOLDS if too_large else none,
            evidence(min(too_large)) if too_large else everything,
        ),
        Verdict(
            f"A smaller step makes {many} workers the better again", HOLDS if repaired else CANNOT_TELL,
            evidence(max(repaired)) if repaired else everything,
        ),
    ]  # fmt: skip


def draw(numbers: dict[str, Any], path: Path) -> None:
    """Final φ̂ against the learning rate, a line for each W; crosses at the top are chains that diverged."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(11, 4.2), layout="constrained")
    left, right = figure.subplots(1, 2)
    rates = [row["lr"] for row in numbers["rows"]]
    for k, workers in enumerate(numbers["workers"]):
        ends = np.array([row["loss"][k][-1] for row in numbers["rows"]], float)
        halves = np.array([row["half_width"][k][-1] for row in numbers["rows"]], float)
        left.plot(rates, ends, "o-", color=f"C{k}", markersize=4, label=f"{workers} workers")
        if numbers["seeds"] > 1:
            left.errorbar(rates, ends, yerr=halves, fmt="none", capsize=3, color=f"C{k}")
        lost = [row["lr"] for row in numbers["rows"] if row["diverged"][k]]
        left.plot(lost, np.full(len(lost), 0.97 - 0.04 * k), "x", color=f"C{k}", transform=left.get_xaxis_transform())
    left.set(xscale="log", xlabel="learning rate", ylabel=rf"$\hat\phi$ after {numbers['iterations']:,} iterations")
    crosses = " (×: diverged)" if any(any(row["diverged"]) for row in numbers["rows"]) else ""
    left.set_title(f"{numbers['title']}: equal iterations per worker, seeds: {numbers['seeds']}{crosses}", fontsize=9)
    left.legend(frameon=False)
    shown = {numbers["rows"][0]["lr"]: "--", numbers["rows"][-1]["lr"]: "-"}
    for row in numbers["rows"]:
        for k, workers in enumerate(numbers["workers"]):
            if row["lr"] in shown:
                right.plot(
                    row["axis"], np.array(row["loss"][k], float), shown[row["lr"]], color=f"C{k}",
                    label=f"{workers} workers, lr {row['lr']:g}",
                )  # fmt: skip
    right.set(xlabel=r"iterations per worker, $\bar{L}$", ylabel=r"$\hat\phi$", xscale="log")
    right.set_title("the smallest and the largest of these steps", fontsize=9)
    right.legend(frameon=False, fontsize=8)
    figure.savefig(path, dpi=110)
