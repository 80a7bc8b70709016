"""What the commands share."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import Progress, TimeElapsedColumn

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


@contextmanager
def progress_bar() -> Iterator[Callable[[str, float], None]]:
    """A bar that is gone in the end."""
    columns = (*Progress.get_default_columns()[:-1], TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True) as progress:
        task = progress.add_task("starting", total=1.0)
        yield lambda what, share: progress.update(task, description=what, completed=share)
