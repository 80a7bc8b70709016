"""The picture of the experiment: panels of the sections that were made."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

_SHOWN = 1  # the direction of the Gaussian
_FORMS = {False: ("plain", "C3"), True: ("compensated", "C0")}


def draw(numbers: dict[str, Any], path: Path) -> None:
    """One panel a section; the cost of a gradient and an update has none."""
    from matplotlib.figure import Figure

    panels: list[tuple[str, Callable[[dict[str, Any], Any], None]]] = [
        ("gaussian", _gaussian), ("a9a", _bias), ("a9a", _speedup), ("dropping", _dropping),
        ("softmax", _mse), ("lenet", _network), ("lenet", _rates), ("cifar10", _network),
        ("cifar10", _failure),
    ]  # fmt: skip
    made = [
        (numbers[name], panel) for name, panel in panels
        if name in numbers and (panel is not _failure or _compared(numbers[name]))
    ]  # fmt: skip
    columns = min(3, max(1, len(made)))
    rows = -(-len(made) // columns) or 1
    figure = Figure(figsize=(4.6 * columns, 3.9 * rows), layout="constrained")
    axes = np.atleast_1d(figure.subplots(rows, columns)).ravel()
    for axis, (found, panel) in zip(axes, made, strict=False):
        panel(found, axis)
        axis.spines[["top", "right"]].set_visible(False)
    for axis in axes[len(made) :]:
        axis.set_visible(False)
    figure.savefig(path, dpi=150)


def _gaussian(found: dict[str, Any], axis: Any) -> None:
    """A soft direction, in which plain chains do not blow up at once; the dotted line is what is right."""
    names = list(dict.fromkeys(row["kernel"] for row in found["rows"]))
    for place, name in enumerate(names):
        rows = [row for row in found["rows"] if row["kernel"] == name]
        tau = np.array([row["staleness"] for row in rows]) + 1.0
        values, errors = (np.array([row[what][_SHOWN] for row in rows], float) for what in ("variance", "error"))
        axis.errorbar(tau * 1.04**place, values, yerr=2 * errors, fmt="o", capsize=3, color=f"C{place}", label=name)
        axis.axhline(rows[0]["closed_form"][_SHOWN], color=f"C{place}", linewidth=0.8)
        plain = [
            (t, row["plain"][_SHOWN]) for t, row in zip(tau, rows, strict=True) if row["plain"][_SHOWN] is not None
        ]
        axis.plot(*zip(*plain, strict=True), "x--", color=f"C{place}", linewidth=0.8)
    axis.axhline(1.0, color="0.5", linestyle=":")
    curvatures = found["curvatures"]
    axis.set(xscale="log", xlabel="τ + 1", ylabel="variance / target", ylim=(0.9, 2.7))
    axis.set_title(f"Gaussian, λ = {curvatures[_SHOWN]:g} of {curvatures[0]:g} … {curvatures[-1]:g}\n"
                   "o compensated, — fresh in closed form, × plain", fontsize=9)  # fmt: skip
    axis.legend(frameon=False, fontsize=8)


def _bias(found: dict[str, Any], axis: Any) -> None:
    place, h = found["phi"].index("variance"), found["common_step"]
    for compensated, (label, colour) in _FORMS.items():
        rows = [
            row for row in found["bias"]
            if row["step_size"] == h and (row["compensated"] == compensated or row["workers"] == 1)
        ]  # fmt: skip
        workers = [row["workers"] for row in rows]
        bias, errors = (np.array([row[what][place] for row in rows]) for what in ("bias", "error"))
        axis.errorbar(workers, bias, yerr=2 * errors, fmt="o-", capsize=3, color=colour, label=label)
    axis.axhline(0, color="0.5", linestyle=":")
    axis.set(xscale="log", xlabel="workers", ylabel="bias of the variances (about 1)")
    axis.set_title(f"a9a, whitened, SGLD at h = {h:g}", fontsize=9)
    axis.set_xticks(found["workers"], [f"{w}" for w in found["workers"]])
    axis.legend(frameon=False, fontsize=8)


def _speedup(found: dict[str, Any], axis: Any) -> None:
    for compensated, (label, colour) in _FORMS.items():
        for name, marker in zip(found["phi"], "os", strict=True):
            rows = [row for row in found["speedup"] if row["compensated"] == compensated and row["phi"] == name]
            workers = np.array([row["workers"] for row in rows]) * (1.0 if marker == "o" else 1.08)
            values, low, high = (np.array([row[what] for row in rows], float) for what in ("speedup", "low", "high"))
            spread = np.maximum([values - low, high - values], 0)
            axis.errorbar(workers, values, yerr=spread, fmt=f"{marker}-", capsize=3, color=colour,
                          label=f"{label}, {name}", markerfacecolor="none" if marker == "s" else colour)  # fmt: skip
    ideal = np.array(found["workers"], float)
    axis.plot(ideal, ideal, ":", color="0.5", label="ideal")
    axis.set(xscale="log", yscale="log", xlabel="workers", ylabel="speedup at equal MSE, best h of each")
    axis.set_title("a9a: 95 % intervals", fontsize=9)
    axis.set_xticks(found["workers"], [f"{w}" for w in found["workers"]])
    axis.legend(frameon=False, fontsize=8)


def _dropping(found: dict[str, Any], axis: Any) -> None:
    for place, policy in enumerate(("drop", "wait")):
        for h, style in zip(found["step_sizes"], ("o-", "s--"), strict=False):
            rows = [row for row in found["rows"] if row["policy"] == policy and row["step_size"] == h]
            shift, errors = (np.array([row[what] for row in rows]) for what in ("shift", "error"))
            axis.errorbar([row["correlation"] for row in rows], shift, yerr=2 * errors, fmt=style, capsize=3,
                          color=f"C{place + 1}", label=f"{policy}, hλ = {h:g}")  # fmt: skip
    axis.axhline(0, color="0.5", linestyle=":")
    dropped = max(row["dropped"] for row in found["rows"])
    axis.set(xlabel="correlation of a datum with the time it takes", ylabel="shift of the mean, posterior s.d.")
    axis.set_title(f"Does dropping bias? ({dropped:.0%} dropped)", fontsize=9)
    axis.legend(frameon=False, fontsize=8)


def _mse(found: dict[str, Any], axis: Any) -> None:
    """The MSE of the variances at the best step size against updates of each worker."""
    styles = {(1, False): ("one worker", "k"), (16, False): ("16, plain", "C3"), (16, True): ("16, compensated", "C0")}
    for row in found["curves"]:
        key = (row["workers"], row["compensated"])
        if row["phi"] == "variance" and key in styles:
            label, colour = styles[key]
            mse = np.array([np.nan if value is None else value for value in row["mse"]], float)
            axis.plot(np.array(found["updates"]) / row["workers"], mse, color=colour, label=label)
    axis.set(xscale="log", yscale="log", xlabel="updates of each worker", ylabel="MSE of the variances, best h")
    axis.set_title(f"softmax regression, MNIST, {found['size']:,} weights", fontsize=9)
    axis.legend(frameon=False, fontsize=8)


_STYLES = {"fresh": "k", "plain": "C3", "ahead": "C0", "tamed": "C2"}


def _network(found: dict[str, Any], axis: Any) -> None:
    """Test loss against gradients at the authors' learning rate: means of the seeds that did not diverge."""
    rate = f"{found['main_lr']:g}"
    if len(found["gradients"]) == 1:
        _ends(found, rate, axis)
        return
    for row in found["rows"]:
        chains = [losses for losses in row["loss"][rate] if losses is not None]
        name = row["form"] if row["workers"] == 1 else f"{row['form']}, {row['workers']} workers"
        if chains:
            lost = len(row["loss"][rate]) - len(chains)
            name += f" ({lost} diverged)" if lost else ""
            line = "-" if row["workers"] < 10 else "--"
            values = np.array(chains)
            place = np.array(found["gradients"]) * (1.0 + 0.02 * list(_STYLES).index(row["form"]))
            spread = np.abs(np.stack([values.min(0), values.max(0)]) - values.mean(0))
            axis.errorbar(place, values.mean(0), yerr=spread, fmt=f"o{line}", color=_STYLES[row["form"]], markersize=3,
                          capsize=2, linewidth=1, label=name)  # fmt: skip
    axis.set(xlabel="gradients", ylabel="test loss of the draw, all seeds", yscale="log")
    axis.set_title(f"{found['title']}, lr {rate}", fontsize=9)
    axis.legend(frameon=False, fontsize=7, handlelength=4)


def _ends(found: dict[str, Any], rate: str, axis: Any) -> None:
    """The test loss of each seed by form, with a cross at the top for each chain that diverged."""
    rows = found["rows"]
    losses = [losses[-1] for row in rows for losses in row["loss"][rate] if losses is not None]
    top = 1.03 * max(losses, default=1.0)
    for place, row in enumerate(rows):
        for chain in row["loss"][rate]:
            value, mark = (top, "x") if chain is None else (chain[-1], "o")
            axis.plot(place, value, mark, color=_STYLES[row["form"]], markersize=6)
    names = [row["form"] if row["workers"] == 1 else f"{row['form']}\n{row['workers']}" for row in rows]
    axis.set_xticks(range(len(rows)), names, fontsize=7)
    axis.axhline(np.log(10), color="0.5", linestyle=":")
    axis.set(ylabel=f"test loss after {found['gradients'][0]} gradients")
    axis.set_title(f"{found['title']}, lr {rate}\n× diverged, dotted: guessing", fontsize=9)


def _rates(found: dict[str, Any], axis: Any) -> None:
    """Test loss at the end against the learning rate, of the first seed; chains that diverged are left out."""
    for row in found["rows"]:
        ends = [
            (float(rate), chains[0][-1]) for rate, chains in row["loss"].items() if chains and chains[0] is not None
        ]
        name = row["form"] if row["workers"] == 1 else f"{row['form']}, {row['workers']} workers"
        line = "o-" if row["workers"] < 10 else "s--"
        if ends:
            axis.plot(*zip(*ends, strict=True), line, color=_STYLES[row["form"]], markersize=4, linewidth=1, label=name)
    axis.set(xscale="log", yscale="log", xlabel="learning rate", ylabel="test loss of the last draw")
    axis.set_title(f"{found['title']}: chains that were made and did not diverge", fontsize=9)
    axis.legend(frameon=False, fontsize=7, handlelength=4)


def _compared(found: dict[str, Any]) -> bool:
    """Whether a seed of the comparison at equal iterations is whole."""
    return any(row["loss"] for row in (found["failure"] or {"rows": []})["rows"])


def _failure(found: dict[str, Any], axis: Any) -> None:
    """Test loss against the number of workers at equal iterations of each, of every seed and their mean."""
    failure = found["failure"]
    for place, form in enumerate(("plain", "ahead", "tamed")):
        rows = [row for row in failure["rows"] if row["form"] == form and row["loss"]]
        colour, shift = _STYLES[form], 0.12 * (place - 1)
        for row in rows:
            axis.plot(
                [row["workers"] + shift] * len(row["loss"]), row["loss"], "o", color=colour, markersize=3, alpha=0.5
            )
        means = [float(np.mean(row["loss"])) for row in rows]
        axis.plot([row["workers"] + shift for row in rows], means, "-", color=colour, linewidth=1, label=form)
    axis.axhline(np.log(10), color="0.5", linestyle=":", label="guessing, or diverged")
    axis.set_xticks(failure["workers"], [f"{w}" for w in failure["workers"]])
    axis.set(xlabel="workers", ylabel=f"test loss after {failure['iterations']} iterations of each worker")
    axis.set_title(f"{found['title']}, lr {failure['lr']:g}: seeds and their means", fontsize=9)
    axis.legend(frameon=False, fontsize=8)
