"""What a benchmark found: tables, curves and bars, in one form that the terminal, the page and the JSON file share."""

import json
import os
import platform
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from importlib import metadata
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

PACKAGES = ("stalegrad", "numpy", "numba", "torch", "posteriors", "jax", "blackjax", "numpyro", "arviz-stats")


@dataclass(frozen=True)
class Bar:
    """A promise with a number: how ours compares with something else, and what we want of it.

    Args:
        name: what is compared.
        ours: our figure.
        peer: the other figure; None if the bar is on our figure itself.
        bar: what the ratio ours / peer, or our figure, is to be ...
        at_least: ... at least; otherwise at most.
        unit: of both figures.
        also: something else that has to be true as well, such as equal bits.
    """

    name: str
    ours: float
    peer: float | None
    bar: float
    at_least: bool = True
    unit: str = ""
    also: bool = True

    @property
    def ratio(self) -> float:
        """Ours over the peer's, or our figure."""
        return self.ours if self.peer is None else self.ours / self.peer

    @property
    def holds(self) -> bool:
        """Whether the bar is cleared. A figure that is no number clears none."""
        return self.also and (self.ratio >= self.bar if self.at_least else self.ratio <= self.bar)

    def line(self) -> dict[str, Any]:
        """As the results file has it."""
        return {**asdict(self), "ratio": self.ratio, "holds": self.holds}


class Result:
    """What one section of the benchmarks found.

    Args:
        title: of the section.
        text: what was measured and how to read it, in Markdown; it must be true whatever the figures are.
        settings: whatever a reader needs to repeat the measurement: data, sizes, threads.
    """

    def __init__(self, title: str, text: str, settings: Mapping[str, Any]) -> None:
        self.title, self.text = title, " ".join(text.split())
        self.settings = {name: value for name, value in settings.items() if name not in ("json", "quick")}
        self.tables: list[dict[str, Any]] = []
        self.pictures: list[dict[str, Any]] = []
        self.bars: list[Bar] = []
        self.figures: dict[str, Any] = {}
        self.headline: dict[str, float] = {}

    def table(self, title: str, headings: Sequence[str], rows: Sequence[Sequence[str | float | None]]) -> None:
        """A table. Numbers are shown with three significant digits, None as a dash."""
        shown = [[cell if isinstance(cell, str) else figure(cell) for cell in row] for row in rows]
        self.tables.append({"title": title, "headings": list(headings), "rows": shown})

    def columns(self, name: str, title: str, unit: str, values: Mapping[str, float]) -> None:
        """A picture of one figure for each of several candidates."""
        self.pictures.append({"kind": "columns", "name": name, "title": title, "unit": unit, "values": dict(values)})

    def curves(
        self, name: str, title: str, x: str, y: str, series: Mapping[str, tuple[Sequence[float], Sequence[float]]]
    ) -> None:
        """A picture of curves, both axes logarithmic."""
        points = {label: [list(map(float, xs)), list(map(float, ys))] for label, (xs, ys) in series.items()}
        self.pictures.append({"kind": "curves", "name": name, "title": title, "x": x, "y": y, "series": points})

    def finish(self, json_to: str | None) -> None:
        """Print the tables and the bars and, where asked, write everything as JSON."""
        console = Console(stderr=json_to == "-")
        for each in self.tables:
            console.print(_printed(each))
        if self.bars:
            console.print(_printed(bar_table([bar.line() for bar in self.bars])))
        document = {
            "title": self.title, "text": self.text, "settings": self.settings, "tables": self.tables,
            "pictures": self.pictures, "bars": [bar.line() for bar in self.bars], "figures": self.figures,
            **self.headline,
        }  # fmt: skip
        write_json(document, json_to)


def bar_table(lines: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """The bars as a table."""
    rows = [
        [
            line["name"],
            figure(line["ours"]) + (f" {line['unit']}" if line["unit"] else ""),
            figure(line["peer"]),
            figure(line["ratio"]),
            f"{'≥' if line['at_least'] else '≤'} {line['bar']:g}",
            "yes" if line["holds"] else "**no**",
        ]
        for line in lines
    ]
    return {"title": "Bars", "headings": ["", "ours", "peer", "ratio", "bar", "holds"], "rows": rows}


def figure(value: float | None) -> str:
    """A number with three significant digits as people write it; a dash for none."""
    if value is None:
        return "–"
    size = abs(value)
    if size != size or size == float("inf"):
        return str(value)
    if size >= 1e7 or 0 < size < 1e-3:
        return f"{value:.2e}"
    if size >= 100:
        return f"{value:,.0f}"
    return f"{value:.3g}"


def write_json(document: Mapping[str, Any], json_to: str | None) -> None:
    """Write results, with the machine they come from, to a file or, for ``"-"``, to the standard output."""
    if json_to is None:
        return
    text = json.dumps({**document, "machine": machine()}, indent=2, ensure_ascii=False) + "\n"
    if json_to == "-":
        sys.stdout.write(text)
    else:
        Path(json_to).write_text(text, encoding="utf-8")


def machine() -> dict[str, Any]:
    """What the figures depend on: processor, cores that this process may use, versions."""
    versions = {}
    for name in PACKAGES:
        try:
            versions[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return {
        "processor": processor(),
        "cores": cores,
        "load": os.getloadavg()[0],
        "system": f"{platform.system()} {platform.machine()}",
        "python": platform.python_version(),
        "versions": versions,
    }


def processor() -> str:
    """Its name."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        lines = []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor()


def _printed(table: Mapping[str, Any]) -> Table:
    printed = Table(title=table["title"])
    for number, heading in enumerate(table["headings"]):
        printed.add_column(heading, justify="right" if number else "left")
    for row in table["rows"]:
        printed.add_row(*(cell.replace("**", "") for cell in row))
    return printed
