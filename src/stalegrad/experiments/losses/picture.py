"""The picture of figures 3 and 4: a row for each data set; against iterations as the paper has it, and against time.

The supplement has a row for each number of workers, too, so that no panel has more than nine curves.
"""

from pathlib import Path
from typing import Any

import numpy as np

from stalegrad.experiments.shades import shades

_PANELS = ("average", "time", "current", "predictive")
_WITH_THE_OTHERS = ("", "fresh")  # the controls that are drawn among what they are compared with, and have bands
_MARGIN = 0.1  # above and below the curves, of their height
_XLABEL = r"iterations per worker, $\bar{L}$"


def draw(numbers: dict[str, Any], path: Path) -> None:
    """Write a picture with a row of four panels for each data set, and in the supplement for each comparison of it."""
    from matplotlib.figure import Figure

    rows = [(found, title, layouts) for found in numbers["datasets"].values() for title, layouts in _rows(found)]
    figure = Figure(figsize=(17, 3.9 * len(rows)), layout="constrained")
    for panels, (found, title, layouts) in zip(figure.subplots(len(rows), 4, squeeze=False), rows, strict=True):
        _row(panels, found, title, layouts)
    figure.savefig(path, dpi=110)


def _rows(found: dict[str, Any]) -> list[tuple[str, list[dict[str, Any]]]]:
    """The comparisons: workers at one server, and these with controls; for each number of workers, servers."""
    layouts = found["layouts"]
    alone = [layout for layout in layouts if layout["servers"] == 1 and layout["control"] in _WITH_THE_OTHERS]
    rows = [("one server", alone)] if len(alone) > 1 else []
    controls = [layout for layout in layouts if layout["control"] not in _WITH_THE_OTHERS]
    if controls:
        compared = {layout["workers"] for layout in controls}
        plain = [layout for layout in alone if layout["workers"] in compared and not layout["control"]]
        rows.append(("one server, controls", plain + controls))
    for workers in sorted({layout["workers"] for layout in layouts if layout["servers"] > 1}):
        several = [layout for layout in layouts if layout["workers"] == workers and not layout["control"]]
        plural = "s" if workers > 1 else ""
        rows.append((f"{workers} worker{plural} a server", sorted(several, key=lambda layout: layout["servers"])))
    return rows


def _row(panels: Any, found: dict[str, Any], title: str, layouts: list[dict[str, Any]]) -> None:
    servers = len({layout["servers"] for layout in layouts}) > 1
    plain = [layout for layout in layouts if not layout["control"]]
    key = "servers" if servers else "workers"
    colours = dict(zip([layout[key] for layout in plain], shades(len(plain)), strict=True))
    for layout in layouts:
        colour = "C3" if layout["control"] == "fresh" else colours[layout[key]]
        style = {"": "-", "fresh": "--", "cold": ":", "worker-momentum": "-."}[layout["control"]]
        width = 1.3 + 0.7 * (max(each["servers"] for each in plain) - layout["servers"]) if servers else 1.3
        _curves(panels, found, layout, (colour, style, width), _name(layout, servers))
    extent = f"{found['iterations']:,} of {found['whole_iterations']:,} iterations, seeds: {found['seeds']}"
    data = "all test data" if found["test_data"] == "all" else f"{found['test_data']} test data"
    panels[0].set(xlabel=_XLABEL, ylabel=f"test loss ({data})")
    panels[0].set_title(f"{found['title']}, {title}\n{extent}\n" + r"$\hat\phi$, average over all updates", fontsize=9)
    panels[1].set(xlabel="seconds")
    panels[1].set_title(r"$\hat\phi$ against time on the paper's 5 × 8 cores, simulated", fontsize=9)
    panels[2].set(xlabel=_XLABEL)
    panels[2].set_title("current draw", fontsize=9)
    panels[3].set(xlabel=_XLABEL)
    panels[3].set_title("averaged prediction, over draws and servers", fontsize=9)
    if servers:
        _of_servers(panels[2:], found, plain, colours)
    measured = any("seconds_per_iteration_measured" in layout for layout in layouts)
    if measured:
        circles = panels[1].plot([], [], "o", color="0.3", mfc="none", markersize=4, label="measured on this machine")
        panels[1].legend(handles=circles, frameon=False, fontsize=8)
    panels[0].legend(frameon=False, fontsize=7.5, ncols=2 if len(layouts) > 5 else 1)
    for panel in panels:
        if panel.get_xlabel() != "servers":
            _axes(panel)


def _curves(
    panels: Any, found: dict[str, Any], layout: dict[str, Any], look: tuple[Any, str, float], label: str
) -> None:
    """Curves of servers lie on each other: those of fewer are broader, so that all can be seen."""
    colour, style, width = look
    axis = np.array(found["axis"], float)
    places = {"time": axis * layout["seconds_per_iteration"], "predictive": np.array(found["round_axis"], float)}
    for panel, kind in zip(panels, _PANELS, strict=True):
        if kind == "time" and layout["control"] == "fresh":  # it has not the time of W workers
            continue
        curve, x = layout["average" if kind == "time" else kind], places.get(kind, axis)
        loss, half = (np.array(curve[what], float) for what in ("loss", "half_width"))
        panel.plot(
            x, loss, style, color=colour, linewidth=width, label=label, marker="." if kind == "predictive" else ""
        )
        # With the bands of all controls, or of two repetitions, one would see nothing but bands.
        if layout["control"] in _WITH_THE_OTHERS and found["seeds"] > 2:
            panel.fill_between(x, loss - half, loss + half, color=colour, alpha=0.15, linewidth=0)
        if kind == "time" and "seconds_per_iteration_measured" in layout:
            every = max(1, len(axis) // 12)
            seconds = axis * layout["seconds_per_iteration_measured"]
            panel.plot(seconds[::every], loss[::every], "o", color=colour, markersize=4, mfc="none")


def _of_servers(panels: Any, found: dict[str, Any], layouts: list[dict[str, Any]], colours: dict[str, Any]) -> None:
    """What servers change: the spread of φ̂, and the averaged prediction, which is drawn relative to one server's."""
    spread, gain = panels
    for panel in panels:
        panel.clear()
    counts = np.array([layout["servers"] for layout in layouts], float)
    deviations = np.array([layout["spread"] for layout in layouts], float)
    errors = 1.96 * deviations * np.array([layout["spread_error"] for layout in layouts], float)
    spread.errorbar(counts, deviations, yerr=errors, fmt="o-", capsize=3, color="C0")
    spread.set(xlabel="servers", xticks=counts)
    spread.set_title(r"standard deviation of $\hat\phi$ at the end, from run to run", fontsize=9)
    one = np.array(layouts[0]["predictive"]["loss"], float)
    for layout in layouts:
        change = np.array(layout["predictive"]["loss"], float) - one
        gain.plot(found["round_axis"], change, ".-", color=colours[layout["servers"]], linewidth=1.3)
    gain.set(xlabel=_XLABEL)
    gain.set_title("loss of the averaged prediction,\nminus that of one server", fontsize=9)


def _axes(panel: Any) -> None:
    """Logarithmic, with few labels and none that overlap, as high as the curves: broader bands are cut off."""
    from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullFormatter

    panel.set_xscale("log")
    values = np.concatenate([np.asarray(line.get_ydata(), float) for line in panel.lines])
    values = values[np.isfinite(values)]
    low, high = (values.min(), values.max()) if values.size else (0.0, 0.0)  # all have diverged at once
    if low > 0 and high / low > 5:
        panel.set_yscale("log")
        panel.set_ylim(low / (high / low) ** _MARGIN, high * (high / low) ** _MARGIN)
        panel.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
        panel.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
        panel.yaxis.set_minor_formatter(NullFormatter())
    elif high > low:
        panel.set_ylim(low - _MARGIN * (high - low), high + _MARGIN * (high - low))
        panel.yaxis.set_major_locator(MaxNLocator(6))
    panel.grid(alpha=0.2, linewidth=0.5)


def _name(layout: dict[str, Any], servers: bool) -> str:
    count, what = (layout["servers"], "server") if servers else (layout["workers"], "worker")
    return f"{count} {what}{'s' if count > 1 else ''}" + (f", {layout['control']}" if layout["control"] else "")
