"""What the commands share."""

from contextlib import AbstractContextManager
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from stalegrad import bar
from stalegrad.bar import Report

console = Console()

Out = Annotated[
    Path,
    typer.Option("--out", file_okay=False, writable=True, help="Folder for what is written; made if it is not there."),
]
Seed = Annotated[int, typer.Option(help="Seed of everything random.", min=0)]


def written(*paths: Path) -> None:
    """Say what was written."""
    for path in paths:
        typer.echo(f"wrote {path}")


def progress_bar() -> AbstractContextManager[Report]:
    """A bar that is gone in the end."""
    return bar.progress_bar(console)
