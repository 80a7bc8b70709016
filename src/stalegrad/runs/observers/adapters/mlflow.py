"""Runs of MLflow's experiments, on disk or on a server of its own. Extra: ``mlflow``."""

import time
from dataclasses import dataclass, field
from typing import Any

from stalegrad._internal.errors import MissingExtra
from stalegrad._internal.validation import real_number
from stalegrad.runs.observers.observer import Observer
from stalegrad.runs.observers.snapshot import Happening, Recipe, Snapshot

_MOST_PARAMETERS, _LONGEST = 100, 500  # of a request, and of a value
_STATES = {"finished": "FINISHED", "interrupted": "KILLED", "failed": "FAILED"}


@dataclass
class MLflow(Observer):
    """Makes a run of an experiment: parameters at the start, metrics while it goes on, faults as a text.

    Args:
        experiment: its name; it is made if it is not there.
        tracking_uri: where to, as MLflow has it; None for what MLflow's settings say. The extra is MLflow's client,
            which is enough for a server's address, and for a folder with ``MLFLOW_ALLOW_FILE_STORE=true`` in the
            environment; databases need the package ``mlflow``.
        run_name: of the run; None for its folder's or model's.
        every: seconds between two snapshots.

    >>> import importlib.util
    >>> if importlib.util.find_spec("mlflow"):  # it comes with the extra of its name
    ...     observer = MLflow("posteriors", tracking_uri="http://127.0.0.1:5000", every=10.0)
    """

    experiment: str = "stalegrad"
    tracking_uri: str | None = None
    run_name: str | None = None
    every: float = 5.0
    _faults: list[str] = field(default_factory=list, init=False, repr=False)

    def __post_init__(self) -> None:
        self.every = real_number("every", self.every, above=0)
        try:
            import mlflow
        except ImportError as error:
            raise MissingExtra("the observer MLflow", "mlflow") from error
        self._mlflow: Any = mlflow
        self._client: Any = None
        self._run: str = ""

    def start(self, recipe: Recipe) -> None:
        """Make the run in its experiment, with the settings as parameters."""
        self._client = self._mlflow.MlflowClient(tracking_uri=self.tracking_uri)
        found = self._client.get_experiment_by_name(self.experiment)
        experiment = self._client.create_experiment(self.experiment) if found is None else found.experiment_id
        self._run = self._client.create_run(experiment, run_name=self.run_name or recipe.name).info.run_id
        given = [self._mlflow.entities.Param(k, v[:_LONGEST]) for k, v in recipe.parameters().items()]
        for first in range(0, len(given), _MOST_PARAMETERS):
            self._client.log_batch(self._run, params=given[first : first + _MOST_PARAMETERS])

    def snapshot(self, snapshot: Snapshot) -> None:
        """Log all numbers that are known, at the number of updates."""
        now, metric = int(time.time() * 1000), self._mlflow.entities.Metric
        numbers = snapshot.metrics().items()
        self._client.log_batch(self._run, [metric(name, value, now, snapshot.updates) for name, value in numbers])

    def event(self, happening: Happening) -> None:
        """Count faults of workers, in a tag, with the last one in another."""
        if happening.kind == "fault":
            self._faults.append(happening.text)
            self._client.set_tag(self._run, "stalegrad.faults", str(len(self._faults)))
            self._client.set_tag(self._run, "stalegrad.last_fault", happening.text[:_LONGEST])

    def end(self, snapshot: Snapshot) -> None:
        """Say to MLflow how the run has ended."""
        self._client.set_terminated(self._run, _STATES.get(snapshot.state, "FAILED"))
