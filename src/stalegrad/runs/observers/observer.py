"""What an observer is: the base class of all, ours and yours."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from stalegrad.runs.observers.snapshot import Happening, Recipe, Snapshot


class Observer:
    """Looks on while a run goes on. Override what interests you.

    All methods are called one after the other in a thread that is this observer's alone. While one is at work the run
    and all other observers go on; snapshots that come meanwhile are dropped, but for the last, and so are events beyond
    1,000. An exception is reported once and the observer goes on. When the run has ended an observer has a few seconds
    to come to an end, then it is left behind.

    An observer of your own is a class with one method:

    >>> class Printer(Observer):
    ...     every = 10.0
    ...     def snapshot(self, snapshot):
    ...         print(f"{snapshot.progress:.0%}", snapshot.metrics()["staleness/mean"])
    """

    every: float = 1.0
    """Seconds between two snapshots."""

    def start(self, recipe: "Recipe") -> None:
        """The run begins, or goes on: what it is. Comes first."""

    def snapshot(self, snapshot: "Snapshot") -> None:
        """The run as it is now. The last one, when the run has ended, always comes."""

    def event(self, happening: "Happening") -> None:
        """Something rare has happened: a start, checkpoint, fault or end."""

    def end(self, snapshot: "Snapshot") -> None:
        """The run has ended, as the snapshot says. Comes last."""
