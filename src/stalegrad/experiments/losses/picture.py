"""The picture of figures 3 and 4: a row for each data set, against iterations and against time."""

from pathlib import Path
from typing import Any

import numpy as np

from stalegrad.experiments.shades import shades

_STYLES = {1: "-", 3: "--", 5: "-.", 7: ":"}  # by servers, where workers differ as well


def draw(numbers: dict[str, Any], path: Path) -> None:
    """Write a picture with a row of panels for each data set."""
    from matplotlib.figure import Figure

    datasets = numbers["datasets"]
    figure = Figure(figsize=(15, 4 * len(datasets)), layout="constrained")
    for row, found in zip(figure.subplots(len(datasets), 3, squeeze=False), datasets.values(), strict=True):
        _row(row, found)
    figure.savefig(path, dpi=150)


def _row(panels: Any, found: dict[str, Any]) -> None:
    layouts = found["layouts"]
    many_servers = len({layout["servers"] for layout in layouts}) > 1
    many_workers = len({layout["workers"] for layout in layouts}) > 1
    counts = sorted({layout["workers" if many_workers else "servers"] for layout in layouts})
    colours = dict(zip(counts, shades(len(counts)), strict=True))
    for layout in layouts:
        colour = colours[layout["workers" if many_workers else "servers"]]
        style = _STYLES[layout["servers"]] if many_servers and many_workers else "-"
        _curve(panels, found, layout, colour, style, _name(layout, many_servers, many_workers))
    share = f"{found['iterations']:,} of {found['whole_iterations']:,} iterations a worker, seeds: {found['seeds']}"
    panels[0].set(xlabel="iterations per worker, L̄", ylabel="test loss, φ̂", title=f"{found['title']}: {share}")
    panels[1].set(xlabel="seconds", title="against time: 5 × 8 cores, simulated; circles: measured here")
    panels[2].set(xlabel="iterations per worker, L̄", title="loss of the averaged prediction")
    for panel in panels:
        panel.set_yscale("log")
        panel.title.set_fontsize(9)
        panel.yaxis.set_minor_formatter("{x:.4g}")
        panel.tick_params(axis="y", which="minor", labelsize=7)
    panels[1].set_xscale("log")
    panels[0].legend(frameon=False, fontsize=8, ncols=3 if len(layouts) > 9 else 1)


def _curve(panels: Any, found: dict[str, Any], layout: dict[str, Any], colour: Any, style: str, label: str) -> None:
    iterations = found["iterations_axis"]
    for panel, x, kind in (
        (panels[0], iterations, ""), (panels[1], layout["seconds"], ""), (panels[2], iterations, "predictive_"),
    ):  # fmt: skip
        loss, half = (np.array(layout[f"{kind}{what}"], float) for what in ("loss", "half_width"))
        panel.plot(x, loss, style, color=colour, linewidth=1.3, label=label)
        panel.fill_between(x, loss - half, loss + half, color=colour, alpha=0.15, linewidth=0)
    loss = np.array(layout["loss"], float)
    if "seconds_measured" in layout:
        every = max(1, len(loss) // 10)
        panels[1].plot(
            layout["seconds_measured"][::every], loss[::every], "o", color=colour, markersize=4, mfc="none"
        )  # fmt: skip


def _name(layout: dict[str, Any], many_servers: bool, many_workers: bool) -> str:
    servers, workers = layout["servers"], layout["workers"]
    if many_servers and many_workers:
        return f"{servers} × {workers}"
    if many_servers:
        return f"{servers} server{'s' if servers > 1 else ''} × {workers} workers"
    return f"{workers} worker{'s' if workers > 1 else ''}"
