"""The picture of figure 2."""

from pathlib import Path
from typing import Any

import numpy as np

from stalegrad.experiments.shades import shades

_GREY = "0.55"
_FIRST = 4  # curves begin at the fifth draw: before, an average over thinned draws is not yet one over iterations


def draw(numbers: dict[str, Any], path: Path) -> None:
    """Variance against iterations and against time, and the speedups that follow; last, this machine as it is.

    What has not been made or measured is left out, and its panel says so.
    """
    from matplotlib.figure import Figure

    figure = Figure(figsize=(17, 9), layout="constrained")
    (iterations, cluster, plain), (speedups, machine, plain_speedups) = figure.subplots(2, 3)
    colours = shades(len(numbers["workers"]))
    _iterations(iterations, numbers, colours)
    _cluster(cluster, numbers, colours)
    _speedups(speedups, numbers)
    if numbers["timed"]:
        _machine(machine, numbers)
    else:
        _empty(machine, "(d) this machine: not measured")
    if numbers["plain"] is None:
        _empty(plain, "(e) the paper's setting: not computed")
        _empty(plain_speedups, "(f) the same setting: not computed")
    else:
        _plain(plain, plain_speedups, numbers["plain"])
    figure.savefig(path, dpi=110)


def _iterations(panel: Any, numbers: dict[str, Any], colours: list[Any]) -> None:
    updates = np.array(numbers["updates"])[_FIRST:]
    for workers, curve, colour in zip(numbers["workers"], numbers["curves"], colours, strict=True):
        panel.loglog(updates / workers, curve["variance"][_FIRST:], color=colour, linewidth=1.4, label=f"{workers}")
    exact = numbers["closed_form"]
    for workers, variance in zip(exact["workers"], exact["variance"], strict=True):
        panel.loglog(updates / workers, variance[_FIRST:], ":", color="k", linewidth=1)
    panel.plot([], [], ":", color="k", linewidth=1, label="closed form")
    late = updates[len(updates) // 3 :]
    panel.loglog(
        late, 1.3 * exact["variance"][0][-1] * late[-1] / late, "--", color=_GREY, linewidth=1, label=r"∝ 1/$\bar{L}$"
    )
    panel.set(xlabel=r"iterations per worker, $\bar{L}$", ylabel=r"variance of $\hat\phi$, $\phi$ = test loss")
    panel.set_title(f"(a) a9a, one server, {numbers['runs']} runs: variance against iterations", fontsize=10)
    panel.legend(title="workers", frameon=False, fontsize=8, ncols=2, loc="lower left")


def _cluster(panel: Any, numbers: dict[str, Any], colours: list[Any]) -> None:
    cluster, updates = numbers["cluster"], np.array(numbers["updates"])
    marks = np.unique(np.geomspace(_FIRST + 1, len(updates), 9).astype(int)) - 1
    ends = {1, numbers["workers"][-1]} if numbers["timed"] else set()
    for k, (workers, curve, colour) in enumerate(zip(numbers["workers"], numbers["curves"], colours, strict=True)):
        panel.loglog(curve["seconds"][_FIRST:], curve["variance"][_FIRST:], color=colour, linewidth=1.4)
        if workers in ends:
            measured = updates[marks] / cluster["updates_per_second_slowed"][k]
            panel.plot(measured, np.array(curve["variance"])[marks], "o", color=colour, markersize=4.5, mfc="none")
    panel.plot([], [], "-", color=_GREY, label="cluster, simulated")
    if ends:
        panel.plot([], [], "o", color=_GREY, mfc="none", label=f"slowed workers, measured (W = {_listed(ends)})")
    panel.set(xlabel="seconds", ylabel=r"variance of $\hat\phi$")
    panel.set_title(f"(b) the same against time, gradients of {1e3 * cluster['gradient']:g} ms", fontsize=10)
    panel.legend(frameon=False, fontsize=8, loc="lower left")


def _speedups(panel: Any, numbers: dict[str, Any]) -> None:
    workers, cluster = numbers["workers"], numbers["cluster"]
    low, high = np.array(numbers["iteration_speedup_interval"]).T
    top = 1.35 * max(workers[-1], *numbers["iteration_speedup"])
    panel.plot([1, workers[-1]], [1, workers[-1]], "--", color=_GREY, linewidth=1, label="linear")
    panel.fill_between(workers, low, np.minimum(high, top), color="C0", alpha=0.15, linewidth=0, label="95 % interval")
    panel.plot(workers, numbers["iteration_speedup"], "o-", color="C0", markersize=5, label="iteration speedup")
    panel.plot(
        workers, cluster["time_speedup"], "s-", color="C1", markersize=4, linewidth=1,
        label="time speedup, cluster, simulated",
    )  # fmt: skip
    if numbers["timed"]:
        _measured_speedups(panel, numbers)
    panel.set(xlabel="workers", ylabel="speedup at equal variance", xticks=workers)
    panel.set_ylim(0, top)
    panel.set_title(
        f"(c) iteration speedup at {workers[-1]} workers: {numbers['iteration_speedup'][-1]:.1f} "
        f"({low[-1]:.1f} to {high[-1]:.1f})",
        fontsize=10,
    )
    panel.legend(frameon=False, fontsize=8, loc="upper left")


def _measured_speedups(panel: Any, numbers: dict[str, Any]) -> None:
    workers, measured = numbers["workers"], numbers["time_speedup_measured"]
    panel.plot(
        workers, numbers["cluster"]["time_speedup_slowed"], "o", color="C3", markersize=8, mfc="none",
        label="time speedup, slowed workers, measured",
    )  # fmt: skip
    panel.plot(
        workers, numbers["time_speedup_simulated"], "^:", color="C2", markersize=4, linewidth=1,
        label="time speedup, this machine, simulated",
    )  # fmt: skip
    panel.plot(
        measured["workers"], measured["speedup"], "D", color="C2", markersize=7, mfc="none",
        label=f"time speedup, this machine, measured ({measured['engine']})",
    )  # fmt: skip


def _empty(panel: Any, title: str) -> None:
    panel.set_axis_off()
    panel.set_title(title, fontsize=10)


def _machine(panel: Any, numbers: dict[str, Any]) -> None:
    machine, updates, times = numbers["machine"], np.array(numbers["updates"])[_FIRST:], numbers["calibration"]
    measured = machine["updates_per_second_measured"]
    for place, workers in enumerate(sorted({*range(1, len(measured) + 1), numbers["workers"][-1]})):
        variance, colour = numbers["curves"][workers - 1]["variance"][_FIRST:], f"C{place}"
        simulated = updates / machine["updates_per_second"][workers - 1]
        panel.loglog(simulated, variance, "--", color=colour, linewidth=1.2, label=f"W = {workers}, simulated")
        if workers <= len(measured):
            panel.loglog(updates / measured[workers - 1], variance, "-", color=colour, label=f"W = {workers}, measured")
    panel.set(xlabel="seconds", ylabel=r"variance of $\hat\phi$")
    micro = {name: 1e6 * times[name] for name in ("gradient", "served", "exchange")}
    panel.set_title(
        f"(d) this machine, {numbers['cores']} cores: gradient {micro['gradient']:.0f} µs, server "
        f"{micro['served']:.0f} µs, exchange {micro['exchange']:.0f} µs",
        fontsize=10,
    )
    panel.legend(frameon=False, fontsize=8, loc="lower left")


def _plain(panel: Any, speedups: Any, plain: dict[str, Any]) -> None:
    updates = np.array(plain["updates"])
    for workers, variance, colour in zip(
        plain["workers"], plain["variance"], shades(len(plain["workers"])), strict=True
    ):
        panel.loglog(updates / workers, variance, color=colour, linewidth=1.4, label=f"{workers}")
    panel.set(xlabel=r"iterations per worker, $\bar{L}$", ylabel=r"variance of $\hat\phi$")
    panel.set_title(
        f"(e) the paper's setting: from θ = 0, h = {plain['step_size']:g}, {plain['runs']} runs",
        fontsize=10,
    )
    panel.legend(title="workers", frameon=False, fontsize=8, loc="lower left")
    rows = [
        (w, s, *i)
        for w, s, i in zip(
            plain["workers"], plain["iteration_speedup"], plain["iteration_speedup_interval"], strict=True
        )
        if s is not None
    ]
    workers, middle, low, high = (np.array(column, float) for column in zip(*rows, strict=True))
    most = float(plain["workers"][-1])
    speedups.plot([1, most], [1, most], "--", color=_GREY, linewidth=1, label="linear")
    high = np.minimum(high, 2 * most)
    speedups.errorbar(workers, middle, yerr=[middle - low, high - middle], fmt="o-", capsize=3, label="95 % interval")
    speedups.set(xlabel="workers", ylabel="iteration speedup at equal variance", xticks=plain["workers"])
    speedups.set_title("(f) the same setting: iteration speedup", fontsize=10)
    speedups.legend(frameon=False, fontsize=8)


def _listed(numbers: set[int]) -> str:
    return " and ".join(map(str, sorted(numbers)))
