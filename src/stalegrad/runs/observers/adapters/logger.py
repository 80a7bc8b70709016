"""Anything that takes ``log(numbers, step=…)``: a run of Weights & Biases, of Trackio, of Comet, or your own."""

from dataclasses import dataclass
from typing import Any

from stalegrad._internal.errors import ArgumentError
from stalegrad._internal.validation import real_number
from stalegrad.runs.observers.observer import Observer
from stalegrad.runs.observers.snapshot import Recipe, Snapshot


@dataclass
class Logger(Observer):
    """Calls ``run.log({"updates": …, "staleness/mean": …}, step=updates)``.

    ``wandb.init(project="x")`` and ``trackio.init(project="x")`` give such a run. If it has a ``config`` with
    ``update`` the settings go there. What was begun by somebody else is theirs to end: call its ``finish`` after the
    sampling.

    Args:
        run: what has the method ``log``.
        prefix: of all names.
        every: seconds between two snapshots.

    >>> class Tool:  # anything with a method log, such as a run of Weights & Biases
    ...     def log(self, figures, step=None):
    ...         self.figures = figures
    >>> Logger(Tool(), prefix="posterior/").every
    5.0
    """

    run: Any
    prefix: str = ""
    every: float = 5.0

    def __post_init__(self) -> None:
        self.every = real_number("every", self.every, above=0)
        if not callable(getattr(self.run, "log", None)):
            remedy = 'Give what wandb.init(project="x") gives, or anything with log(numbers, step=...).'
            raise ArgumentError("run", self.run, "has no method log", remedy)

    def start(self, recipe: Recipe) -> None:
        """Hand the settings to the tool, if it takes any."""
        update = getattr(getattr(self.run, "config", None), "update", None)
        if callable(update):
            update(recipe.parameters())

    def snapshot(self, snapshot: Snapshot) -> None:
        """Log all numbers that are known, at the number of updates."""
        numbers = {f"{self.prefix}{name}": value for name, value in snapshot.metrics().items()}
        self.run.log(numbers, step=snapshot.updates)
