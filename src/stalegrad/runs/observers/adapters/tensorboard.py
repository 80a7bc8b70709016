"""TensorBoard's event files, written by tensorboardX. Extra: ``tensorboard``."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from stalegrad._internal.errors import MissingExtra
from stalegrad._internal.validation import real_number
from stalegrad.runs.observers.observer import Observer
from stalegrad.runs.observers.snapshot import Happening, Recipe, Snapshot


@dataclass
class TensorBoard(Observer):
    """Writes scalars, faults as text and the recipe; look at them with ``tensorboard --logdir FOLDER``.

    Args:
        folder: where the event files go, one folder a run.
        every: seconds between two snapshots.

    >>> import pathlib, tempfile, stalegrad as sg
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     look_on = TensorBoard(f"{folder}/events")
    ...     settings = {"steps": 50, "engine": "inline", "observers": look_on, "progress": False}
    ...     _ = sg.sample(sg.testing.small_model(), sg.SGLD(step_size=1e-3), **settings)
    ...     pathlib.Path(f"{folder}/events").exists()
    True
    """

    folder: str | Path
    every: float = 5.0

    def __post_init__(self) -> None:
        self.every = real_number("every", self.every, above=0)
        try:
            import tensorboardX
        except ImportError as error:
            raise MissingExtra("the observer TensorBoard", "tensorboard") from error
        self._make: Any = tensorboardX.SummaryWriter
        self._writer: Any = None
        self._updates = 0

    def start(self, recipe: Recipe) -> None:
        """Write the settings, as a table that TensorBoard shows as text."""
        self._writer = self._make(str(self.folder), flush_secs=5)
        rows = [f"|{name}|{value.replace('|', ' ')}|" for name, value in recipe.parameters().items()]
        self._writer.add_text("recipe", "\n".join(["|setting|value|", "|---|---|", *rows]), 0)

    def snapshot(self, snapshot: Snapshot) -> None:
        """Write all numbers that are known, at the number of updates."""
        self._updates = snapshot.updates
        for name, value in snapshot.metrics().items():
            self._writer.add_scalar(name, value, snapshot.updates)

    def event(self, happening: Happening) -> None:
        """Write faults of workers, with their tracebacks."""
        if happening.kind == "fault":
            indented = "\n".join(f"    {line}" for line in happening.details.splitlines())
            self._writer.add_text("faults", f"{happening.text}\n\n{indented}", self._updates)

    def end(self, snapshot: Snapshot) -> None:
        """Close the file: everything is on disk then."""
        self._writer.close()
