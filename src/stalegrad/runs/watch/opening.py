"""How a page comes to be served: the one way to it for those who may lack its extra."""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from stalegrad._internal.errors import MissingExtra
from stalegrad.runs.observers.sampler import Sampler
from stalegrad.runs.watch.options import Watch

if TYPE_CHECKING:
    from stalegrad.runs.watch.server import Page


def open_page(
    options: Watch, sampler: Sampler, *, stop: Callable[[], None] | None = None, secret: Path | None = None
) -> "Page":
    """Serve the page from now on, in a thread of this process.

    Args:
        options: how.
        sampler: what looks at the run.
        stop: ends the run early; None if it cannot be ended from here.
        secret: the folder of the run: its page has the same token each time.
    """
    require()
    from stalegrad.runs.watch.server import Page

    return Page.serve(options, sampler, stop=stop if options.allow_stop else None, secret=secret)


def require() -> None:
    """Refuse where the extra is not installed, before a run begins that was to be watched."""
    try:
        import stalegrad.runs.watch.server  # noqa: F401
    except ImportError as error:
        raise MissingExtra("the live page", "watch") from error
