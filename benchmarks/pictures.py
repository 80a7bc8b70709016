"""Pictures of results, drawn from their JSON alone."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from matplotlib.figure import Figure

OURS, OTHERS = "#1f6f8b", "#b0b7bf"
COLOURS = ("#1f6f8b", "#e07a3f", "#5a8f5b", "#8a5a9e", "#c2a83e", "#7d7d7d", "#b3475f", "#3f5fa0", "#2f2f2f", "#9fbf6f")


def draw_all(document: Mapping[str, Any], folder: Path) -> dict[str, list[str]]:
    """Draw the pictures of all sections into the folder; their file names, by section."""
    drawn: dict[str, list[str]] = {}
    for section in document["sections"]:
        for picture in section.get("pictures", ()):
            folder.mkdir(parents=True, exist_ok=True)
            file = folder / f"{picture['name']}.png"
            (columns if picture["kind"] == "columns" else curves)(picture).savefig(file, dpi=130)
            drawn.setdefault(section["name"], []).append(file.name)
    return drawn


def columns(picture: Mapping[str, Any]) -> Figure:
    """A bar for each candidate, ours in another colour."""
    names, values = list(picture["values"]), list(picture["values"].values())
    figure = Figure(figsize=(8, 0.8 + 0.38 * len(names)), layout="constrained")
    axes = figure.subplots()
    axes.barh(names, values, color=[OURS if name.startswith("stalegrad") else OTHERS for name in names])
    axes.bar_label(
        axes.containers[0], [f"{value:,.3g}" if value < 100 else f"{value:,.0f}" for value in values], padding=3
    )
    axes.invert_yaxis()
    axes.set(title=picture["title"], xlabel=picture["unit"])
    axes.margins(x=0.15)
    axes.spines[["top", "right"]].set_visible(False)
    return figure


def curves(picture: Mapping[str, Any]) -> Figure:
    """Lines on logarithmic axes."""
    figure = Figure(figsize=(8, 4.5), layout="constrained")
    axes = figure.subplots()
    for number, (label, (x, y)) in enumerate(picture["series"].items()):
        again, colour = divmod(number, len(COLOURS))
        axes.plot(x, y, marker=".", label=label, color=COLOURS[colour], linestyle="--" if again else "-")
    axes.set(title=picture["title"], xlabel=picture["x"], ylabel=picture["y"], xscale="log", yscale="log")
    axes.grid(alpha=0.25)
    figure.legend(fontsize="small", frameon=False, loc="outside right center")
    axes.spines[["top", "right"]].set_visible(False)
    return figure
