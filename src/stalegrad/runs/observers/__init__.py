"""Who looks on while a run goes on, and cannot disturb it: ``sg.sample(..., observers=[...])``.

An :class:`Observer` is handed snapshots at its own pace and rare events (start, checkpoint, fault, end), in a thread of
its own. What it cannot take is dropped and counted, what it raises is reported once. ``sampler.py`` makes the
snapshots, out of what ``live.py`` sees of a run in this process or ``stored.py`` of one on disk; ``audience.py`` hands
them out. Each tool that people have is a file in ``adapters/``.
"""

from stalegrad.runs.observers.adapters.json_lines import JSONLines
from stalegrad.runs.observers.adapters.logger import Logger
from stalegrad.runs.observers.adapters.mlflow import MLflow
from stalegrad.runs.observers.adapters.prometheus import Prometheus
from stalegrad.runs.observers.adapters.tensorboard import TensorBoard
from stalegrad.runs.observers.observer import Observer
from stalegrad.runs.observers.snapshot import ChainFigures, FunctionFigures, Happening, Snapshot

__all__ = [
    "ChainFigures",
    "FunctionFigures",
    "Happening",
    "JSONLines",
    "Logger",
    "MLflow",
    "Observer",
    "Prometheus",
    "Snapshot",
    "TensorBoard",
]
