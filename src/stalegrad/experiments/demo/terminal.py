"""What the terminal shows at the end."""

from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from stalegrad.analysis.report.text_table import TextTable
from stalegrad.experiments.demo.summary import tables

_ABOUT = {
    "report.html": "everything on one page, for a browser",
    "run.html": "the run behind it: draws, errors, staleness, speed",
    "digits.png": "the digits that the model is least sure about",
    "estimate.png": "the averaged prediction as the run went on",
    "reliability.png": "how often it was right against how sure it was",
    "staleness.png": "how late the gradients came",
    "summary.json": "all numbers",
    "trace.npz": "the run itself: replay it bit for bit",
}


def show(console: Console, numbers: dict[str, Any], folder: Path) -> None:
    """The tables, then what was written and what to look at first."""
    for table in tables(numbers):
        console.print()
        console.print(_rich(table))
        console.print(Text(table.note, style="dim"))
    console.print(f"\nWritten to {folder}:", highlight=False, markup=False, soft_wrap=True)
    names = Table(box=None, show_header=False, pad_edge=False)
    for name, about in _ABOUT.items():
        names.add_row(f"  {name}", about)
    console.print(names)
    first = folder / next(iter(_ABOUT))
    console.print(Text.assemble("\nLook first at ", (str(first), "bold green"), "."), soft_wrap=True)


def _rich(table: TextTable) -> Table:
    result = Table(title=table.title, title_justify="left", title_style="bold")
    for index, heading in enumerate(table.columns):
        result.add_column(heading, justify="left" if index == 0 else "right", no_wrap=index > 0)
    for index, row in enumerate(table.rows):
        result.add_row(*(Text(cell) for cell in row), style="bold" if index == table.emphasised else "")
    return result
