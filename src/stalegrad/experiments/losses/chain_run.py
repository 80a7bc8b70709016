"""Make a chain longer, from where it was left, and look at φ on the way.

A chain is executed inline, with the order of arrivals and the staleness of a simulated cluster, and with more workers
than the machine has cores: the same numbers as often as one likes. On another kind of processor products of matrices
have other last bits, and chains of networks part after some hundred updates.

Beside the record of a chain there is its *state*: some megabytes that are not worth keeping for ever. Where the state
is missing, a chain that is to become longer begins anew, and has the same numbers again on the same kind of processor.
"""

import io
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from zipfile import BadZipFile

import numpy as np

from stalegrad._internal.errors import GradientError, StoreError
from stalegrad._internal.files import write_output
from stalegrad._internal.types import Array
from stalegrad.experiments.losses.chain import ChainName
from stalegrad.experiments.losses.chain_record import ChainRecord
from stalegrad.experiments.losses.evaluation import rounded
from stalegrad.experiments.losses.tasks import TASKS, Model, Task, model_of
from stalegrad.experiments.losses.worker_momentum import WorkerMomentum
from stalegrad.kernels import SGLD, Kernel
from stalegrad.kernels.schedules import Inverse
from stalegrad.protocol.architectures import Architecture, StaleGradients
from stalegrad.protocol.architectures.base import Place
from stalegrad.protocol.chain import Chain, Record
from stalegrad.protocol.chain_trace import ChainTrace
from stalegrad.protocol.draws import Window
from stalegrad.protocol.executor import Executor

SAVE_EVERY = 60.0
"""Seconds after which a chain under way is saved."""


@dataclass(frozen=True)
class Files:
    """Where a chain is kept.

    Args:
        folder: of the experiment.
        name: of the chain.
    """

    folder: Path
    name: ChainName

    @property
    def record(self) -> Path:
        """The file with the losses of the chain, which is kept."""
        return self.folder / "chains" / f"{self.name.word}.npz"

    @property
    def state(self) -> Path:
        """The file with all that the chain needs to go on."""
        return self.folder / "states" / f"{self.name.word}.npz"


def lengthen(files: Files, iterations: int, deadline: float = float("inf")) -> ChainRecord:
    """Advance a chain to L̄ = ``iterations``, or until ``deadline`` by :func:`time.time`; what it then is."""
    if files.record.exists():
        record = ChainRecord.load(files.record)
        if record.has(TASKS[files.name.task], iterations):
            return record
    way = _Way(files)
    way.go(iterations, deadline)
    return way.record


def begin(name: ChainName, task: Task, model: Model) -> tuple[ChainTrace, Chain]:
    """The whole order of arrivals, of the longest chain that there may be, and the chain at its start."""
    updates, size = name.workers * task.iterations, model.potential.size
    trace = task.machine.trace(1 if name.fresh else name.workers, updates, size, name.run_seed).chains[0]
    kernel, architecture = _sampler(name, task, model)
    place = Place(model.start(name.run_seed)[None], name.run_seed, 0)
    return trace, architecture.chain(kernel, place, name.workers)


class KeepNothing(Record):
    """Keeps no draws, and lets compiled loops run."""

    def __init__(self, position: Array) -> None:
        room = np.empty((1, 1, position.shape[1]), position.dtype), np.empty((1, 1)), np.empty((1, 1))
        self._window = Window(1 << 62, 1, 0, 0, *room, 0)

    def __call__(self, update: int, chain: Chain, gradient: Array) -> None:
        """Keep nothing."""

    def window(self, version: int, updates: int) -> tuple[Window, int]:
        """Room for as many updates as wanted: none of them leaves a draw."""
        return self._window, updates

    def filled(self, version: int) -> None:
        """No draws were left in the window, and none are read."""


class _Way:
    """A chain under way."""

    def __init__(self, files: Files) -> None:
        self._files, self._name = files, files.name
        self._task: Task = TASKS[self._name.task]
        self._model: Model = model_of(self._task.name, self._task.recipe.batch_size, self._name.layers)
        self._trace, self._chain = begin(self._name, self._task, self._model)
        self._weights = self._name.weights(self._task, self._trace.steps)
        self.record = ChainRecord(
            self._name, float(-self._model.log_likelihoods(self._chain.position).mean()), np.empty(0, np.int64),
            np.empty(0, np.float32), np.empty(0, np.int64), np.empty((0, 0), np.float16), {"seconds": 0.0},
        )  # fmt: skip
        self._probability: Array | None = None  # Σ h p_i of the draws so far, over those that were looked at
        self._points: Array | None = None
        self._known = 0  # how far an earlier record gets: it is kept until this one is as long
        with suppress(FileNotFoundError):
            self._restore()
        rest = self._trace.part(slice(self._chain.version, None))
        nothing = KeepNothing(self._chain.position)
        self._executor = Executor(
            rest, self._model.potential, self._chain, nothing, keep_rows=False, points=self._points
        )

    def go(self, iterations: int, deadline: float) -> None:
        """As far as that, with a place where to go on after every so many seconds."""
        saved, begun = time.monotonic(), time.process_time() - self.record.facts["seconds"]
        wanted = self._task.looked_at(self._name.workers, iterations)
        waiting: list[tuple[int, Array]] = []
        for place in wanted[wanted > self.record.iterations].tolist():
            try:
                self._executor.advance(self._name.workers * place - self._chain.version)
            except GradientError as error:
                self._look(waiting)
                self.record.facts.update(diverged=str(error), seconds=round(time.process_time() - begun, 2))
                self.record.save(self._files.record)
                return
            waiting.append((place, self._chain.position[0].copy()))
            over = time.time() >= deadline
            if len(waiting) >= self._model.together or over or place == wanted[-1]:
                self._look(waiting)
                waiting = []
                if over or place == wanted[-1] or time.monotonic() - saved > SAVE_EVERY:
                    self.record.facts["seconds"] = round(time.process_time() - begun, 2)
                    self._save(whole=place == wanted[-1])
                    saved = time.monotonic()
            if over:
                return

    def _look(self, draws: list[tuple[int, Array]]) -> None:
        """Add φ of these draws to the record, and their predictions to the average."""
        if not draws:
            return
        likelihoods = self._model.log_likelihoods(np.array([theta for _, theta in draws]))
        record, workers = self.record, self._name.workers
        kept, averages = record.kept.tolist(), list(record.log_predictive)
        before = record.iterations
        for (place, _), likelihood in zip(draws, likelihoods, strict=True):
            weight = self._weights[workers * before : workers * place].sum()
            part = weight * np.exp(likelihood.astype(np.float64))
            self._probability = part if self._probability is None else self._probability + part
            if place in rounded(place):
                kept.append(place)
                average = self._probability / self._weights[: workers * place].sum()
                averages.append(np.log(np.maximum(average, np.finfo(np.float64).tiny)).astype(np.float16))
            before = place
        self.record = ChainRecord(
            record.name, record.first, np.append(record.places, [place for place, _ in draws]),
            np.append(record.loss, -likelihoods.mean(1, dtype=np.float64)).astype(np.float32), np.array(kept, np.int64),
            np.array(averages, np.float16), record.facts,
        )  # fmt: skip

    def _save(self, *, whole: bool) -> None:
        """The record first: a state that is behind its record is no harm."""
        staleness = self._trace.staleness[: self._chain.version]
        facts = {"staleness_mean": round(float(staleness.mean()), 4), "staleness_max": int(staleness.max())}
        if whole:
            facts["whole_test_loss"] = float(-self._model.log_likelihood(self._chain.position[0]).mean())
        self.record.facts.pop("whole_test_loss", None)  # of a shorter chain
        self.record.facts.update(facts)
        if self.record.iterations >= self._known:
            self.record.save(self._files.record)
        assert self._probability is not None, "something has been looked at"
        arrays: dict[str, Any] = {f"chain.{name}": array for name, array in self._chain.snapshot().items()}
        file = io.BytesIO()
        np.savez(
            file, version=self._chain.version, points=self._executor.points, probability=self._probability, **arrays
        )
        self._files.state.parent.mkdir(parents=True, exist_ok=True)
        write_output(self._files.state, file.getvalue())

    def _restore(self) -> None:
        """Where it was left; a record that got further than its state is cut to it."""
        record = ChainRecord.load(self._files.record)
        self._known = record.iterations
        if not record.is_fine(self._task):
            return
        try:
            with np.load(self._files.state, allow_pickle=False) as file:
                arrays = {key.removeprefix("chain."): file[key] for key in file.files if key.startswith("chain.")}
                version, points, probability = int(file["version"]), file["points"], file["probability"]
        except (BadZipFile, KeyError, ValueError, EOFError) as error:
            path = self._files.state
            raise StoreError(f"{path} is not the state of a chain ({error}). Delete it to begin anew.") from error
        self._chain.restore(version, arrays)
        self._points, self._probability = points, probability
        self.record = _cut(record, version // self._name.workers)


def _cut(record: ChainRecord, iterations: int) -> ChainRecord:
    here, kept = record.places <= iterations, record.kept <= iterations
    return ChainRecord(
        record.name, record.first, record.places[here], record.loss[here], record.kept[kept],
        record.log_predictive[kept], record.facts,
    )  # fmt: skip


def _sampler(name: ChainName, task: Task, model: Model) -> tuple[Kernel, Architecture]:
    if name.momentum == "server":
        return model.kernel(task, name.lr, name.temperature, name.workers), StaleGradients()
    recipe, step = task.recipe, name.lr / model.potential.n_data
    steps: float | Inverse = Inverse(step, recipe.gamma / name.workers, recipe.power) if recipe.gamma else step
    return SGLD(step_size=steps, temperature=0.0), WorkerMomentum(recipe.momentum)
