"""Figures 3 and 4 as the paper has them: all data sets in one grid, a row for each, from what their folders hold."""

import json
from pathlib import Path
from typing import Any

from stalegrad._internal.errors import ArgumentError
from stalegrad.experiments.losses.picture import draw
from stalegrad.experiments.losses.tasks import TASKS

TOGETHER = ("fig3", "fig4")
"""The supplement has five rows for every data set, which is enough for one picture."""


def draw_together(out: Path) -> list[Path]:
    """Draw each of these figures from ``out``/DATASET/FIGURE.json of the data sets that have it; what was written.

    Args:
        out: the folder in which every data set has one of its own, as ``stalegrad reproduce all`` makes them.
    """
    written = []
    for figure in TOGETHER:
        found: dict[str, Any] = {}
        for name in TASKS:
            path = out / name / f"{figure}.json"
            if path.exists():
                found |= json.loads(path.read_text())["datasets"]
        if found:
            draw({"datasets": found}, out / f"{figure}.png")
            written.append(out / f"{figure}.png")
    if not written:
        problem = "holds no folder of a data set with figure 3 or 4"
        raise ArgumentError("out", str(out), problem, "Make one: stalegrad reproduce fig3 --dataset a9a --out OUT/a9a")
    return written
