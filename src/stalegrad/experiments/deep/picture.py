"""The picture: each measure with its interval, a row a method, and how reliable the confidences are."""

from pathlib import Path
from typing import Any

import numpy as np

_PANELS = {
    "nll": "NLL of a test image",
    "calibration_error": "calibration error",
    "auroc_rotated": "AUROC, images turned by 90°",
    "auroc_noise": "AUROC, images of noise",
}


def draw(numbers: dict[str, Any], path: Path) -> None:
    """Draw the numbers of all methods into a file."""
    from matplotlib.figure import Figure

    methods = numbers["methods"]
    names = list(methods)
    figure = Figure(figsize=(15, 3.6), layout="constrained")
    *panels, reliability = figure.subplots(1, len(_PANELS) + 1, width_ratios=[1] * len(_PANELS) + [1.1])
    for panel, (measure, title) in zip(panels, _PANELS.items(), strict=True):
        for row, name in enumerate(names):
            found, colour = methods[name][measure], f"C{row}"
            panel.plot(found["values"], [row] * len(found["values"]), "o", color=colour, alpha=0.35, markersize=4)
            panel.errorbar(found["mean"], row, xerr=found["half"], color=colour, marker="s", markersize=5, capsize=3)
        values = np.concatenate([methods[name][measure]["values"] for name in names])
        room = 0.35 * max(float(np.ptp(values)), 1e-6)
        panel.set_xlim(values.min() - room, values.max() + room)  # intervals of three seeds may reach far beyond
        panel.set_yticks(range(len(names)), names if panel is panels[0] else [""] * len(names))
        panel.invert_yaxis()
        panel.set_title(title, fontsize=10)
        panel.grid(axis="x", linewidth=0.4, alpha=0.5)
    reliability.plot([0, 1], [0, 1], color="0.8", linewidth=0.8)
    for row, name in enumerate(names):
        curve = methods[name]["reliability"]
        full = np.array(curve["count"]) >= 10
        confidence, accuracy = np.array(curve["confidence"])[full], np.array(curve["accuracy"])[full]
        reliability.plot(confidence, accuracy, ".-", color=f"C{row}", linewidth=1.2)
    reliability.set(xlabel="confidence", ylabel="accuracy")
    reliability.set_title("reliability, first seed, bins of ≥ 10", fontsize=10)
    figure.savefig(path, dpi=130)
