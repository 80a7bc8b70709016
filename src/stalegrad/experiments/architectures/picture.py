"""The picture of the architectures: a row for each target, a column for each thing that is spent."""

from pathlib import Path
from typing import Any

import numpy as np

_STYLES = {
    "stale gradients": ("black", "-"),
    "Downpour, n = 5": ("C0", "-"),
    "Downpour, n = 20": ("C0", "--"),
    "elastic, n = 1": ("C1", "-"),
    "elastic, n = 5": ("C1", "--"),
    "visiting shards": ("C2", "-"),
    "consensus": ("C3", "-"),
    "independent chains": ("0.6", "-"),
}
_COLUMNS = (
    ("gradients", "error", "gradients in all"),
    ("messages", "error", "messages"),
    ("seconds", "error_over_time", "simulated seconds, with a straggler"),
)


def draw(numbers: dict[str, Any], path: Path) -> None:
    """Draw it, for the largest number of workers."""
    from matplotlib.figure import Figure

    workers = max(numbers["workers"])
    figure = Figure(figsize=(17, 8.4), layout="constrained")
    rows = figure.subplots(2, 4)
    for row, found in zip(rows, numbers["targets"].values(), strict=True):
        for panel, (spent, error, label) in zip(row, _COLUMNS, strict=False):
            _curves(panel, found, workers, spent, error)
            panel.axhline(numbers["level"], color="0.8", linewidth=0.8, zorder=0)
            panel.set(xlabel=label, xscale="log", yscale="log")
        row[0].set(ylabel="error of φ̂ / posterior s.d. of φ")
        row[0].set_title(f"{found['title']}, W = {workers}", fontsize=10, loc="left")
    figure.legend(*rows[0][0].get_legend_handles_labels(), loc="outside lower center", ncols=9, frameon=False)
    _by_workers(rows[0][3], numbers["targets"]["a9a"])
    _densities(rows[1][3], numbers["densities"])
    figure.savefig(path, dpi=130)


def _curves(panel: Any, found: dict[str, Any], workers: int, spent: str, error: str) -> None:
    for curves in found["contenders"]:
        if curves["workers"] == 1:
            panel.plot(curves[spent], curves[error], ":", color="black", linewidth=1.2, label="one worker")
        elif curves["workers"] == workers:
            colour, style = _STYLES[curves["name"]]
            panel.plot(curves[spent], curves[error], style, color=colour, linewidth=1.4, label=curves["name"])


def _by_workers(panel: Any, found: dict[str, Any]) -> None:
    """The bias that is left, by the number of workers."""
    for name, (colour, style) in _STYLES.items():
        ends = [(c["workers"], c["end"]) for c in found["contenders"] if c["name"] == name]
        workers, bias = [w for w, _ in ends], np.array([end["bias"] for _, end in ends])
        half = 1.96 * np.array([end["bias_error"] for _, end in ends])
        panel.errorbar(workers, bias, yerr=half, color=colour, linestyle=style, marker="o", markersize=3, capsize=2)
    panel.axhline(0, color="0.8", linewidth=0.8, zorder=0)
    panel.set(xlabel="workers", xticks=sorted({c["workers"] for c in found["contenders"]}))
    panel.set_title("bias at the end / posterior s.d., 95 %", fontsize=10)


def _densities(panel: Any, densities: dict[str, Any]) -> None:
    """What is sampled of the skewed target."""
    exact = densities["exact"]
    panel.fill_between(exact["theta"], exact["density"], color="0.85", label="posterior")
    for name in ("stale gradients", "Downpour, n = 20", "elastic, n = 1", "visiting shards", "consensus"):
        colour, style = _STYLES[name]
        panel.stairs(densities[name], exact["edges"], color=colour, linestyle=style, label=name)
    panel.set(xlabel="θ, logarithm of the rate")
    panel.set_title(f"what is sampled, W = {densities['workers']}", fontsize=10)
    panel.legend(frameon=False, fontsize=8)
