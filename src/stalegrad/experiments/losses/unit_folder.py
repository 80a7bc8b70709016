"""The folder of an experiment: finished units are files of their own, so that an interrupted experiment goes on."""

import json
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np

from stalegrad._internal.numbers_file import write_numbers
from stalegrad._internal.progress_bar import Report
from stalegrad._internal.types import Array
from stalegrad.experiments.losses.side_by_side import side_by_side
from stalegrad.experiments.losses.units import Unit

Execute = Callable[[Unit], dict[str, Any]]


class UnitFolder:
    """The results of units, kept as files by their names.

    Args:
        out: the experiment's folder; units are in its folder ``units``.
        execute: turns a unit into plain numbers, in any process.
        processes: units at a time; 1 executes them in this process.
        kind: part of the file names, for units that are executed in another way.
    """

    def __init__(self, out: Path, execute: Execute, processes: int, kind: str = "") -> None:
        self._folder, self._execute, self._processes, self._kind = out / "units", execute, processes, kind

    def arrays(self, unit: Unit, name: str) -> Array:
        """An array that the unit has given beside its numbers."""
        return np.asarray(np.load(self._path(unit, f".{name}.npy")))

    def made(self, unit: Unit) -> bool:
        """Whether its numbers are there."""
        return self._path(unit).exists()

    def results(self, units: Iterable[Unit], report: Report) -> dict[Unit, dict[str, Any]]:
        """The numbers of all units: read where they are there, else executed, the long ones first."""
        wanted = sorted(set(units), key=lambda unit: (-unit.updates, unit))
        found = {unit: json.loads(self._path(unit).read_text()) for unit in wanted if self._path(unit).exists()}
        missing = [unit for unit in wanted if unit not in found]
        total = sum(unit.updates for unit in wanted)
        done = total - sum(unit.updates for unit in missing)
        for unit, result in side_by_side(self._execute, missing, min(self._processes, len(missing) or 1)):
            found[unit] = self._keep(unit, result)
            done += unit.updates
            report(f"{unit.task}: {len(found)} of {len(wanted)} chains", done / total)
        return found

    def _keep(self, unit: Unit, result: dict[str, Any]) -> dict[str, Any]:
        """Arrays first: where the numbers are there, everything is."""
        self._folder.mkdir(parents=True, exist_ok=True)
        for name, value in result.items():
            if isinstance(value, np.ndarray):
                np.save(self._path(unit, f".{name}.npy"), value)
        numbers = {name: value for name, value in result.items() if not isinstance(value, np.ndarray)}
        write_numbers(self._path(unit), numbers)
        return numbers

    def _path(self, unit: Unit, suffix: str = ".json") -> Path:
        return self._folder / f"{self._kind}{unit.name}{suffix}"
