"""Console, options and messages that the commands share."""

import shutil
import sys
import textwrap
from collections.abc import Iterable, Mapping
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from stalegrad._internal import progress_bar as bar
from stalegrad._internal.progress_bar import Report
from stalegrad._internal.text import printable

console = Console()

Out = Annotated[
    Path,
    typer.Option("--out", file_okay=False, writable=True, help="Folder for what is written; made if it is not there."),
]
Seed = Annotated[int, typer.Option(help="Seed of everything random.", min=0)]


def say(text: str, *, err: bool = False) -> None:
    """Print a line; names and messages in it come from files and workers, so control characters are written out."""
    typer.echo(printable(text), err=err)


def wrapped(text: str, first: int = 0) -> str:
    """A message for the terminal that reads errors, broken between words; as it is where nobody's screen is.

    Lines that are indented are commands, to be copied whole.

    Args:
        text: the message.
        first: columns of its first line that are taken.
    """
    if not sys.stderr.isatty():
        return text
    width = max(40, shutil.get_terminal_size().columns)
    lines = text.split("\n")
    filled = [
        line if line.startswith(" ") else textwrap.fill(
            line, width, initial_indent=" " * (first * (number == 0)), break_long_words=False, break_on_hyphens=False
        )
        for number, line in enumerate(lines)
    ]  # fmt: skip
    return "\n".join(filled)[first:]


def page_options(host: str | None, port: int | None, names: tuple[str, ...] = ()) -> Any:
    """How the live page is served."""
    from stalegrad.runs.watch.options import Watch

    return Watch(port=port, names=names) if host is None else Watch(host=host, port=port, names=names)


def written(*paths: Path) -> None:
    """Print the paths of files that were written."""
    for path in paths:
        say(f"wrote {path}")


def print_verdicts(verdicts: Iterable[Mapping[str, str]]) -> None:
    """A table of statements, what became of them, and the numbers that say so."""
    table = Table("statement", "verdict", "because", show_lines=True)
    for each in verdicts:
        table.add_row(each["statement"], each["outcome"], each["evidence"])
    console.print(table)


def progress_bar() -> AbstractContextManager[Report]:
    """A progress bar on the console, removed at the end."""
    return bar.progress_bar(console)
