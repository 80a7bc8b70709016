"""What the commands share."""

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

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
