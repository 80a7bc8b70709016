"""A run and its folder on disk: how one becomes the other, and how both go on."""

import logging
import os
from collections.abc import Mapping
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Any, cast

import numpy as np

from stalegrad.architectures import architecture_from_table, architecture_table
from stalegrad.chain import Chain
from stalegrad.disk_recorder import DiskRecorder
from stalegrad.draws import DrawStats
from stalegrad.engines import Engine, Event, Job, Outcome, Timing, engine_from_table, engine_table
from stalegrad.engines.base import begin
from stalegrad.errors import ArgumentError, StoreError
from stalegrad.jobs import JobFile
from stalegrad.kernels import Kernel, kernel_from_table, kernel_table
from stalegrad.plain import OPAQUE
from stalegrad.plan import Kernels, Plan, chosen_engine, decided, make_plan
from stalegrad.potentials import Potential
from stalegrad.potentials.base import split
from stalegrad.result import Run
from stalegrad.server import ChainStatus
from stalegrad.store import Info, inspect
from stalegrad.store import folder as folders
from stalegrad.store.arrays import StoredArray
from stalegrad.store.checkpoint import read_state
from stalegrad.store.draws import StoredDraws
from stalegrad.store.files import remove_partial
from stalegrad.store.folder import chain_folder
from stalegrad.store.lock import Lock
from stalegrad.store.writer import OnError
from stalegrad.trace import ChainTrace, Trace
from stalegrad.types import Array
from stalegrad.version import VERSION

log = logging.getLogger("stalegrad")


class Storage:
    """A run that is being written: its plan, its folder, which is locked, and what has happened so far.

    Use it in a ``with`` block: the folder is let go at the end, and what ends the block with an exception is noted.
    Where several processes make a run together, the one that leads holds the lock and notes how the run is doing; the
    others, which have no lock, write nothing but the chains that they run.
    """

    def __init__(
        self,
        plan: Plan,
        folder: Path,
        lock: Lock | None,
        past: tuple[ChainTrace, ...],
        every: float,
        on_error: OnError,
    ) -> None:
        self.plan, self.folder, self._lock, self._past = plan, folder, lock, past
        info = inspect(folder)
        self._commits = info.chains
        model = plan.potential
        self._closed = False
        if lock is not None:
            self._begin(info)
        self.recorder = DiskRecorder(folder, info.chains, plan.thinning, model.size, model.dtype, every, on_error)

    def _begin(self, info: Info) -> None:
        """Note that the run is going on."""
        plan = self.plan
        for s, of in enumerate(info.chains):  # before anything is written: a damaged state leaves the store as it is
            read_state(chain_folder(self.folder, s), of)
        self._sessions = [
            *info.sessions,
            {
                "started": folders.now(),
                "engine": type(plan.engine).__name__,
                "workers": plan.workers,
                "steps": plan.steps,
                "from": info.updates,
            },
        ]
        folders.write_status(self.folder, "running", self._sessions, None)

    @classmethod
    def create(
        cls,
        path: str | os.PathLike[str],
        plan: Plan,
        *,
        every: float,
        on_error: OnError,
        job: Mapping[str, Any] | None = None,
    ) -> "Storage":
        """The folder of a new run."""

        def make() -> "Storage":
            states = [plan.chain(s).snapshot() for s in range(plan.servers)]
            folder, lock = folders.create(path, _configuration(plan, job), VERSION, plan.initial, states)
            return cls(plan, folder, lock, (), every, on_error)

        return plan.team.first(make, _place, lambda place: cls(plan, Path(place), None, (), every, on_error))

    @classmethod
    def open(
        cls,
        path: str | os.PathLike[str],
        potential: Potential | None,
        kernel: Kernels | None,
        *,
        engine: str | Engine | None,
        workers: int | None,
        steps: int | None,
        every: float,
        on_error: OnError,
    ) -> "Storage":
        """The folder of a run that goes on."""
        info = inspect(path)
        asked = info.configuration
        chosen = engine_from_table(asked["engine"]) if engine is None else chosen_engine(engine)
        begin(chosen)
        if potential is None:
            potential = _model_of_job(info)
        shards = asked.get("shards")
        if shards is not None and workers is not None and workers != len(shards):
            problem = f"but the run's data are in {len(shards)} shards, one a worker"
            raise ArgumentError("workers", workers, problem, f"Give {len(shards)}, or None for what the run had.")
        architecture = architecture_from_table(asked.get("architecture"))
        if architecture.fixed_workers and workers is not None and workers != asked["workers"]:
            problem = f"but the run's state is that of {asked['workers']} workers"
            raise ArgumentError("workers", workers, problem, f"Give {asked['workers']}, or None for what the run had.")
        initial = folders.read_initial(info.path)
        plan = make_plan(
            potential, _stored_kernels(info) if kernel is None else _as_stored(kernel, info),
            engine=chosen, steps=info.steps if steps is None else steps,
            workers=asked["workers"] if workers is None else workers, initial=initial, shard=shards,
            architecture=architecture,
            **{name: asked[name] for name in _KEPT},
        )  # fmt: skip

        def take() -> "Storage":
            _refuse_another_run(info, plan)
            lock = Lock(info.path)
            try:
                now = inspect(path)  # again: another process may have gone on until a moment ago
                if plan.steps < max(now.updates):
                    problem = f"is less than the {max(now.updates)} updates that the run has made"
                    raise ArgumentError("steps", steps, problem, "Give more, or None for what the run was to have.")
                remove_partial(now.path)
                return cls(plan, now.path, lock, _past(now), every, on_error)
            except BaseException:
                lock.release()
                raise

        return plan.team.first(
            take, _place, lambda place: cls(plan, Path(place), None, _past(inspect(place)), every, on_error)
        )

    def job(self) -> Job:
        """What is left to do."""
        plan = self.plan
        past = self._past
        return Job(
            potential=plan.work,
            chain=self._chain,
            record=self.recorder.of,
            status=tuple(ChainStatus.after(chain) for chain in past)
            or tuple(ChainStatus() for _ in range(plan.servers)),
            steps=plan.steps,
            workers=plan.workers,
            servers=plan.servers,
            max_staleness=plan.max_staleness,
            policy=plan.policy,
            seed=plan.seed,
            past=past,
            checkpoint=self.recorder.checkpoint,
            recording=self.recorder,
            team=plan.team,
        )

    def finish(self, outcome: Outcome) -> Outcome:
        """Wait until everything is on disk, and note how the run ended. A store that failed is the run's failure."""
        self.recorder.close()
        self._closed = True
        failure = self.recorder.failure
        if failure is not None and self.recorder.stops and outcome.failure is None:
            outcome = replace(outcome, failure=failure)
        state = "failed" if outcome.failure else "interrupted" if outcome.interrupted else "finished"
        self._end(state, None if outcome.failure is None else str(outcome.failure), outcome.timing)
        return outcome

    def run(self, outcome: Outcome) -> Run:
        """The run as it is on disk."""
        run = stored_run(self.folder, self.plan.potential)
        return replace(run, timing=outcome.timing, interrupted=outcome.interrupted)

    def __enter__(self) -> "Storage":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        try:
            if not self._closed:
                self.recorder.close()
                self._end("failed", f"{kind.__name__}: {error}" if kind else "it was given up", None)
        finally:
            if self._lock is not None:
                self._lock.release()

    def _chain(self, server: int) -> Chain:
        chain, of = self.plan.chain(server), self._commits[server]
        chain.restore(of.updates, read_state(chain_folder(self.folder, server), of))
        return chain

    def _end(self, state: str, failure: str | None, timing: Timing | None) -> None:
        if self._lock is None:
            return
        session = self._sessions[-1]
        session["ended"] = folders.now()
        if timing is not None:
            session["timing"] = asdict(timing)
        try:
            folders.write_status(self.folder, state, self._sessions, failure)
        except OSError as error:  # a full disk: all that matters is in the checkpoints
            log.warning("how the run ended could not be noted in %s: %s", self.folder, error)


def _place(storage: Storage) -> str:
    return str(storage.folder.absolute())


def _past(info: Info) -> tuple[ChainTrace, ...]:
    """What has happened to the chains of a stored run."""
    return tuple(folders.read_trace(info.path, s, of.rows) for s, of in enumerate(info.chains))


def stored_run(path: str | os.PathLike[str], potential: Potential | None = None) -> Run:
    """A run as the last checkpoints of its chains have it; draws stay on disk until they are asked for."""
    info = inspect(path)
    asked, folder = info.configuration, info.path
    homes = [(chain_folder(folder, s), of) for s, of in enumerate(info.chains)]
    draws = tuple(StoredArray(home / "draws", of.draws) for home, of in homes)
    common = min(info.draws)
    stats = np.stack([StoredArray(home / "stats", of.draws)[:common] for home, of in homes])
    traces = _past(info)
    last = info.sessions[-1] if info.sessions else {}
    model = asked["model"]
    about = {
        "model": model["type"],
        "n_data": model["n_data"],
        "batch_size": model["batch_size"],
        "kernels": [_described(table) for table in asked["kernels"]],
        "engine": last.get("engine"),
        "workers": last.get("workers", asked["workers"]),
        "max_staleness": asked["max_staleness"],
        "policy": asked["policy"],
        **{name: asked[name] for name in ("shards", "architecture") if asked.get(name) is not None},
    }
    layout = {name: tuple(shape) for name, shape in asked["model"]["layout"].items()}
    events = [Event(**event) for s in range(len(homes)) for event in folders.read_events(folder, s)]
    timing = last.get("timing")
    return Run(
        draws=cast(Array, StoredDraws(draws)),  # an array to whoever slices it
        trace=Trace(
            traces, seed=asked["seed"], burn_in=asked["burn_in"], thin=asked["thin"],
            initial=folders.read_initial(folder), about=about,
        ),
        stats=DrawStats(*np.moveaxis(stats, -1, 0)),
        chain_draws=cast(tuple[Array, ...], draws),
        events=tuple(sorted(events, key=lambda event: event.time)),
        timing=None if timing is None else Timing(**timing),
        interrupted=info.state == "interrupted",
        variables=partial(split, layout=layout) if potential is None else potential.variables,
        store=folder,
    )  # fmt: skip


_KEPT = ("servers", "max_staleness", "policy", "seed", "burn_in", "thin")


def _configuration(plan: Plan, job: Mapping[str, Any] | None) -> dict[str, Any]:
    """What a store keeps of a plan, as plain data."""
    return {
        "servers": plan.servers,
        "steps": plan.steps,
        "burn_in": plan.thinning.burn_in,
        "thin": plan.thinning.thin,
        "seed": plan.seed,
        "workers": plan.workers,
        "max_staleness": plan.max_staleness,
        "policy": plan.policy,
        "shards": None if plan.shards is None else list(plan.shards),
        "architecture": architecture_table(plan.architecture),
        "kernels": [kernel_table(kernel) for kernel in plan.kernels],
        "engine": engine_table(plan.engine),
        "model": _model(plan.potential, plan.start[0]),
        "job": None if job is None else dict(job),
    }


def _model(potential: Potential, start: Any) -> dict[str, Any]:
    """What tells one model from another. The norm of a gradient tells data apart that have the same size."""
    indices = potential.minibatches.draw(0, 0, 0, 0)
    return {
        "type": type(potential).__name__,
        "size": potential.size,
        "dtype": potential.dtype.name,
        "n_data": potential.n_data,
        "batch_size": potential.batch_size,
        "scheme": potential.minibatches.scheme,
        "layout": {name: list(shape) for name, shape in potential.layout.items()},
        "gradient_norm": float(np.linalg.norm(potential.gradient(start, indices).astype(np.float64))),
    }


def _refuse_another_run(info: Info, plan: Plan) -> None:
    """A run goes on with the model and the sampler that it has."""
    stored = info.configuration
    given = _configuration(plan, None)
    differences = [
        f"{what}.{name} is {new!r}, was {old!r}"
        for what, before, after in (
            ("model", stored["model"], given["model"]),
            *(
                (f"kernels[{s}]", a, b)
                for s, (a, b) in enumerate(zip(stored["kernels"], given["kernels"], strict=True))
            ),
        )
        for name in {**before, **after}
        if not _same(old := before.get(name), new := after.get(name))
    ]
    if differences:
        raise StoreError(
            f"{info.path} is the store of another run: {'; '.join(differences)}. Give the model and the kernel that "
            "the run was started with"
        )


def _same(old: Any, new: Any) -> bool:
    if isinstance(old, float) and isinstance(new, float):
        return bool(np.isclose(old, new, rtol=1e-3, atol=0, equal_nan=True))  # other machines round differently
    return bool(old == new)


def _model_of_job(info: Info) -> Potential:
    """The model of a run that a file has described."""
    if info.configuration["job"] is None:
        raise StoreError(
            f"{info.path} does not say how to make its model: the run was started from Python. Give the model to "
            "sg.resume, or name what makes it: stalegrad resume --model module:function"
        )
    return JobFile.from_table(info.configuration["job"]).potential()


def _described(table: dict[str, Any]) -> dict[str, Any]:
    """A stored kernel in the words of a trace; what is not stalegrad's own as it was written down."""
    if OPAQUE in table:
        return {"kernel": str(table)}
    own = {key: value[OPAQUE] for key, value in table.items() if isinstance(value, dict) and OPAQUE in value}
    if own:  # a schedule or a metric of the user's
        return {"kernel": table["name"], **{key: own.get(key, value) for key, value in table.items() if key != "name"}}
    return kernel_from_table(table).describe()


def _as_stored(kernel: Kernels, info: Info) -> Kernels:
    """A kernel whose step size the run has found, with that step size."""
    given = [kernel] * info.configuration["servers"] if isinstance(kernel, Kernel) else list(kernel)
    if not any(isinstance(k, Kernel) and k.undecided for k in given):
        return kernel
    return decided(given, [k.step_size for k in _stored_kernels(info)], "Give the kernel that the run was begun with.")


def _stored_kernels(info: Info) -> list[Kernel]:
    return [
        kernel_from_table(table, path=f"{info.path}: kernels[{s}]")
        for s, table in enumerate(info.configuration["kernels"])
    ]
