"""What the terminal shows at the end: the same claims and numbers as the page."""

from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from stalegrad.experiments.demo.page import percent_off


def show(console: Console, numbers: dict[str, Any], folder: Path) -> None:
    """Three claims with their measurements, then what to look at."""
    speed, stale, survived = numbers["speed"], numbers["staleness"], numbers["survival"]
    rate, off = speed["updates_per_second"], stale["variance"]
    rows = [
        (
            "Workers help",
            f"{rate['1']:,.0f} updates a second with one worker, {rate['2']:,.0f} with two: {speed['speedup']:.2f} "
            f"times as many, and φ̂ = {speed['variance']['1']:.3f} and {speed['variance']['2']:.3f}, where 1 is exact",
        ),
        (
            "Old gradients for nothing",
            f"{stale['mean_staleness']['as they are']:.1f} updates old they make variances "
            f"{percent_off(off['as they are'])} off as they are, and {percent_off(off['compensated'])} compensated",
        ),
        (
            "Kill it, repeat it",
            f"a worker and then the run were killed ({', '.join(survived['events']) or 'no event'}), "
            f"{survived['kept']:,} of {survived['steps']:,} updates were kept, the rest resumed; replayed from its "
            "trace: "
            f"{'the same bits' if survived['replayed'] else 'DIFFERENT BITS'}",
        ),
        ("It says so itself", numbers["diagnosis"]),
    ]
    table = Table(box=None, show_header=False, pad_edge=False)
    table.add_column(style="bold", no_wrap=True)
    table.add_column(overflow="fold")
    for name, words in rows:
        table.add_row(name, Text(words))
    console.print()
    console.print(table)
    page = folder / "report.html"
    console.print(Text.assemble("\nAll of it on one page: ", (str(page), "bold green")), soft_wrap=True)
