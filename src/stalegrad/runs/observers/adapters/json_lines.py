"""A file with a line of JSON for every snapshot and event: for anything that reads text."""

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from stalegrad._internal.numbers_file import without_nan
from stalegrad._internal.validation import real_number
from stalegrad.runs.observers.observer import Observer
from stalegrad.runs.observers.snapshot import Happening, Recipe, Snapshot


@dataclass
class JSONLines(Observer):
    """Appends to a file. Each line is an object with ``"what"``: ``start``, ``snapshot``, ``event`` or ``end``.

    Args:
        path: of the file; its folder is made.
        every: seconds between two snapshots.

    >>> import pathlib, tempfile, stalegrad as sg
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     look_on = JSONLines(f"{folder}/run.jsonl")
    ...     settings = {"steps": 50, "engine": "inline", "observers": look_on, "progress": False}
    ...     _ = sg.sample(sg.testing.small_model(), sg.SGLD(step_size=1e-3), **settings)
    ...     pathlib.Path(f"{folder}/run.jsonl").exists()
    True
    """

    path: str | Path
    every: float = 1.0

    def __post_init__(self) -> None:
        self.every = real_number("every", self.every, above=0)

    def start(self, recipe: Recipe) -> None:
        """Write down what the run is, in the first line."""
        Path(self.path).parent.mkdir(parents=True, exist_ok=True)
        self._write("start", asdict(recipe))

    def snapshot(self, snapshot: Snapshot) -> None:
        """Write all numbers that the snapshot has."""
        self._write("snapshot", snapshot.table())

    def event(self, happening: Happening) -> None:
        """Write down what has just happened."""
        self._write("event", asdict(happening))

    def end(self, snapshot: Snapshot) -> None:
        """Write down how the run has ended."""
        self._write("end", {"state": snapshot.state, "seconds": snapshot.seconds})

    def _write(self, what: str, content: dict[str, Any]) -> None:
        line = json.dumps({"what": what, **without_nan(content)}, default=str, allow_nan=False)
        with open(self.path, "a", encoding="utf-8") as file:  # a line is whole or not there, also for other processes
            file.write(line + "\n")
