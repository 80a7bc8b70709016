"""A progress bar, removed at the end of the work."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

Report = Callable[[str, float], None]
"""Called with what is being done and the share of all work that is done."""


@contextmanager
def progress_bar(console: Any = None, *, shown: bool = True) -> Iterator[Report]:
    """Show a bar while the ``with`` block is under way, on a terminal; elsewhere nothing.

    Args:
        console: where to, one of rich's; None for standard error.
        shown: whether to show anything.
    """
    if shown:
        from rich.console import Console  # it takes a while to import
        from rich.progress import Progress, TimeElapsedColumn

        console = console or Console(stderr=True)
    if not shown or not console.is_terminal:  # rich ends even a bar that it does not show with a new line, up to 14.0
        yield lambda what, share: None
        return
    columns = (*Progress.get_default_columns()[:-1], TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True) as progress:
        task = progress.add_task("starting", total=1.0)
        yield lambda what, share: progress.update(task, description=what, completed=share)
