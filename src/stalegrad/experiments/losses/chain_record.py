"""What is kept of a chain: its losses, and averaged predictions at round numbers. Small enough to be committed."""

import io
import json
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any
from zipfile import BadZipFile

import numpy as np

from stalegrad._internal.errors import StoreError
from stalegrad._internal.files import write_output
from stalegrad._internal.types import Array, IntArray
from stalegrad.experiments.losses.chain import ChainName
from stalegrad.experiments.losses.evaluation import grid_error, running_average
from stalegrad.experiments.losses.tasks import Task


@dataclass(frozen=True, eq=False)
class ChainRecord:
    """A chain as far as it has got.

    Args:
        name: which.
        first: φ(θ_0).
        places: L̄ at which φ was looked at.
        loss: φ there, of the current draw.
        kept: L̄ at which the averaged prediction was kept.
        log_predictive: log p̄_i there, (kept, n), with p̄_i the mean probability of test label i over the draws so far.
        facts: seconds of processor time, staleness, the loss over the whole test set, and "diverged" if it has.
    """

    name: ChainName
    first: float
    places: IntArray
    loss: Array
    kept: IntArray
    log_predictive: Array
    facts: dict[str, Any] = field(default_factory=dict)

    @property
    def iterations(self) -> int:
        """L̄, as far as it has got."""
        return int(self.places[-1]) if len(self.places) else 0

    @property
    def diverged(self) -> bool:
        """Whether it has come to its end by diverging."""
        return "diverged" in self.facts

    def lost(self, iterations: int) -> bool:
        """Whether it has diverged on the way to L̄ = ``iterations``."""
        return self.diverged and self.iterations <= iterations

    @property
    def sound(self) -> int:
        """L̄ after which φ was never again below that of the start, as at the end of a chain that diverges."""
        below = np.flatnonzero(self.loss <= self.first)
        return int(self.places[below[-1]]) if below.size else 0

    def has(self, task: Task, iterations: int) -> bool:
        """Whether nothing more is to be computed up to there."""
        return (self.diverged or self.iterations >= iterations) and self.is_fine(task)

    def is_fine(self, task: Task) -> bool:
        """Whether φ was looked at as often as now: older chains may be coarser, and are made again."""
        return bool(np.isin(task.looked_at(self.name.workers, self.iterations), self.places).all())

    def average(self, task: Task, iterations: int) -> Array:
        """φ̂ at the places up to ``iterations``, or up to where it has diverged."""
        return running_average(*self._evaluated(task, iterations)) if len(self.places) else np.empty(0)

    def grid_error(self, task: Task, iterations: int) -> float:
        """By how much φ̂ at the end depends on how often φ was looked at."""
        return float("nan") if self.lost(iterations) else grid_error(*self._evaluated(task, iterations))

    def predictive_loss(self, iterations: int) -> Array:
        """−(1/n) Σ_i log p̄_i at the round numbers up to ``iterations``."""
        return np.asarray(-self.log_predictive[self.kept <= iterations].astype(np.float64).mean(1))

    def _evaluated(self, task: Task, iterations: int) -> tuple[float, Array, IntArray, Array]:
        kept = self.places <= iterations
        at = self.name.workers * self.places[kept].astype(np.int64)
        return self.first, self.loss[kept].astype(np.float64), at, self.name.weights(task, int(at[-1]))

    def save(self, path: Path) -> None:
        """Write it, all of it or nothing."""
        file = io.BytesIO()
        np.savez_compressed(
            file, about=np.array(json.dumps({"name": asdict(self.name), "first": self.first, "facts": self.facts})),
            places=self.places.astype(np.int32), loss=self.loss.astype(np.float32), kept=self.kept.astype(np.int32),
            log_predictive=self.log_predictive.astype(np.float16),
        )  # fmt: skip
        path.parent.mkdir(parents=True, exist_ok=True)
        write_output(path, file.getvalue())

    @classmethod
    def load(cls, path: Path) -> "ChainRecord":
        """Read what :meth:`save` has written."""
        try:
            with np.load(path, allow_pickle=False) as file:
                about = json.loads(str(file["about"]))
                arrays = {key: file[key] for key in ("places", "loss", "kept", "log_predictive")}
            return cls(ChainName(**about["name"]), about["first"], facts=about["facts"], **arrays)
        except (BadZipFile, KeyError, ValueError, TypeError, EOFError) as error:
            raise StoreError(
                f"{path} is not the file of a chain ({error}). Delete it to have it made again."
            ) from error
