"""Observers by name, for job files and the command line."""

from collections.abc import Mapping, Sequence
from typing import Any

from stalegrad._internal.errors import ArgumentError
from stalegrad._internal.tables import Registry
from stalegrad.runs.observers.adapters.json_lines import JSONLines
from stalegrad.runs.observers.adapters.mlflow import MLflow
from stalegrad.runs.observers.adapters.prometheus import Prometheus
from stalegrad.runs.observers.adapters.tensorboard import TensorBoard
from stalegrad.runs.observers.observer import Observer

OBSERVERS: Registry[Observer] = Registry(
    "observer",
    {"json": JSONLines, "tensorboard": TensorBoard, "mlflow": MLflow, "prometheus": Prometheus},
    base=Observer,
)
_TARGETS = {"json": "path", "tensorboard": "folder", "mlflow": "experiment", "prometheus": "path"}


def observers_from_tables(tables: Sequence[Mapping[str, Any]], path: str = "observers") -> list[Observer]:
    """The observers that tables describe.

    >>> observers_from_tables([{"name": "json", "path": "run.jsonl", "every": 10}])
    [JSONLines(path='run.jsonl', every=10.0)]
    """
    if not isinstance(tables, list | tuple):
        remedy = 'Give tables: [[observers]] with name = "json" and path = "run.jsonl".'
        raise ArgumentError(path, tables, "is not a list of tables", remedy)
    return [OBSERVERS.read(table, f"{path}[{number}]") for number, table in enumerate(tables)]


def named_observer(text: str) -> Observer:
    """The observer that a word on the command line describes: ``name:where``.

    >>> named_observer("prometheus:/tmp/run.prom")
    Prometheus(path='/tmp/run.prom', every=5.0)
    """
    name, _, target = text.partition(":")
    if name not in _TARGETS or not target:
        known = ", ".join(f"{each}:{what.upper()}" for each, what in _TARGETS.items())
        raise ArgumentError("observe", text, "is not an observer and where it writes to", f"Give one of: {known}.")
    return OBSERVERS.build(OBSERVERS.members[name], {_TARGETS[name]: target}, "observe")


def check_observers(observers: Any) -> list[Observer]:
    """What a user gave as observers, as a list."""
    if observers is None:
        return []
    given = list(observers) if isinstance(observers, list | tuple) else [observers]
    for number, each in enumerate(given):
        if not isinstance(each, Observer):
            remedy = 'Give sg.observers.JSONLines("run.jsonl"), or one of a class derived from sg.observers.Observer.'
            raise ArgumentError(f"observers[{number}]", each, f"is a {type(each).__name__}, not an observer", remedy)
    return given
