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

from stalegrad._internal.errors import ArgumentError, StoreError
from stalegrad._internal.files import RESTORE, remove_partial
from stalegrad._internal.types import Array
from stalegrad._internal.version import VERSION
from stalegrad.engines import Engine, Job, Outcome, Timing, engine_from_table, engine_table
from stalegrad.kernels import Kernel, kernel_from_table
from stalegrad.potentials import Potential
from stalegrad.potentials.base import split
from stalegrad.protocol.architectures.tables import known_architecture
from stalegrad.protocol.chain import Chain
from stalegrad.protocol.chain_trace import ChainTrace
from stalegrad.protocol.draws import DrawStats
from stalegrad.protocol.past import Past
from stalegrad.protocol.trace import Trace
from stalegrad.runs.averages import Averages, stored_averages
from stalegrad.runs.divergence import with_remedy
from stalegrad.runs.going_on import go_back, lost_chains, raise_diverged_again, where_it_goes_on, with_other_step
from stalegrad.runs.jobs import JobFile
from stalegrad.runs.prepare import Kernels, Prepared, chosen_engine, prepare, with_numbers
from stalegrad.runs.recorders.disk import DiskRecorder
from stalegrad.runs.result import Run
from stalegrad.runs.store import Info, inspect
from stalegrad.runs.store import folder as folders
from stalegrad.runs.store.chain_arrays import chain_arrays
from stalegrad.runs.store.checkpoint import LAST, chain_state, read_state
from stalegrad.runs.store.described import timing
from stalegrad.runs.store.draws import StoredDraws
from stalegrad.runs.store.folder import chain_folder
from stalegrad.runs.store.lock import Lock
from stalegrad.runs.store.stored_trace import StoredTrace

log = logging.getLogger("stalegrad")


class Storage:
    """A run that is being written: what was prepared, its folder, which is locked, and what has happened so far.

    Use it in a ``with`` block: the folder is let go at the end, and what ends the block with an exception is noted.
    Where several processes make a run together, the one that leads holds the lock and notes how the run is doing; the
    others, which have no lock, write nothing but the chains that they run.
    """

    def __init__(
        self,
        prepared: Prepared,
        folder: Path,
        lock: Lock | None,
        past: tuple[Past, ...] = (),
        averages: Averages | None = None,
    ) -> None:
        self.prepared, self.folder, self._lock, self._past = prepared, folder, lock, past
        info = inspect(folder)
        self._commits = info.chains
        model, settings = prepared.potential, prepared.settings
        self._closed = False
        if lock is not None:
            self._begin(info)
        self.recorder = DiskRecorder(
            folder, info.chains, settings.thinning, model.size, model.dtype, settings.checkpoint_every,
            settings.on_store_error, prepared.coordinates, settings.keep, averages,
        )  # fmt: skip
        self.averages = averages

    def _begin(self, info: Info) -> None:
        """Note that the run is going on."""
        for s, of in enumerate(info.chains):  # before anything is written: a damaged state leaves the store as it is
            read_state(chain_folder(self.folder, s), of)
        self._sessions = [
            *info.sessions,
            {
                "started": folders.now(),
                "engine": engine_table(self.prepared.engine),
                "workers": self.prepared.settings.workers,
                "steps": self.prepared.settings.steps,
                "from": info.updates,
            },
        ]
        folders.write_status(self.folder, "running", self._sessions, None)

    @classmethod
    def create(
        cls,
        path: str | os.PathLike[str],
        prepared: Prepared,
        *,
        job: Mapping[str, Any] | None = None,
        overwrite: bool = False,
        averages: Averages | None = None,
    ) -> "Storage":
        """The folder of a new run, perhaps in place of an old one."""

        def make() -> "Storage":
            states = [prepared.chain(s).snapshot() for s in range(prepared.settings.servers)]
            record = prepared.record(with_gradient=True)
            where = prepared.coordinates
            folder, lock = folders.create(
                path, record, VERSION, prepared.initial, states, job, where, overwrite=overwrite
            )
            return cls(prepared, folder, lock, averages=averages)

        return prepared.team.broadcast(make, _place, lambda place: cls(prepared, Path(place), None, averages=averages))

    @classmethod
    def open(
        cls,
        path: str | os.PathLike[str],
        potential: Potential | None,
        kernel: Kernels | None,
        *,
        engine: str | Engine | None,
        step_size: Any = None,
        changes: Mapping[str, Any],
        averages: Mapping[str, Any] | None = None,
    ) -> "Storage":
        """The folder of a run that goes on, with other settings where ``changes`` has one that is not None."""
        info = inspect(path)
        if info.state == "diverged" and step_size is None:
            raise_diverged_again(info)
        asked = info.record.settings
        chosen = engine_from_table(info.record.engine) if engine is None else chosen_engine(engine)
        chosen.begin()
        if potential is None:
            potential = _model_of_job(info)
        workers = changes.get("workers")
        asked = replace(asked, architecture=known_architecture(asked.architecture))
        if asked.architecture.fixed_workers and workers is not None and workers != asked.workers:
            problem = f"but the run's state is that of {asked.workers} workers"
            raise ArgumentError("workers", workers, problem, f"Give {asked.workers}, or None for what the run had.")
        settings = replace(asked, steps=info.steps).changed(**changes)
        kernels = _stored_kernels(info) if kernel is None else _as_stored(kernel, info)
        again = lost_chains(info) if info.state == "diverged" else ()
        if step_size is not None:
            goes_on = [0 if s in again else updates for s, updates in enumerate(info.updates)]
            given = [kernels] * asked.servers if isinstance(kernels, Kernel) else kernels
            later = [with_other_step(*both, step_size) for both in zip(given, goes_on, strict=True)]
            kernels = later
        prepared = prepare(
            potential, kernels, settings, engine=chosen, initial=folders.read_initial(info.path),
            coordinates=folders.read_coordinates(info.path, info.record), warmup=info.record.warmup,
        )  # fmt: skip

        evaluated = _going_on(info, averages, prepared)

        def take() -> "Storage":
            _refuse_another_run(info, prepared, but=("step_size",) if step_size is not None else ())
            lock = Lock(info.path)
            try:
                now = inspect(path)  # again: another process may have gone on until a moment ago
                if settings.steps < max(now.updates):
                    problem = f"is less than the {max(now.updates)} updates that the run has made"
                    remedy = "Give more, or None for what the run was to have."
                    raise ArgumentError("steps", changes.get("steps"), problem, remedy)
                for s, of in enumerate(now.chains):
                    chain_arrays(now.path, s, of, now.record)  # before anything is written to them
                remove_partial(now.path)
                if step_size is not None:
                    go_back(now, prepared, again)
                    now = inspect(path)
                return cls(prepared, now.path, lock, _past(now), evaluated)
            except BaseException:
                lock.release()
                raise

        return prepared.team.broadcast(
            take, _place, lambda place: cls(prepared, Path(place), None, _past(inspect(place)), evaluated)
        )

    @property
    def beginning(self) -> str:
        """A line on where the run goes on."""
        made = [of.updates for of in self._commits]
        return f"{self.folder} goes on {where_it_goes_on(made, [of.draws for of in self._commits])}"

    def job(self) -> Job:
        """What is left to do."""
        return self.prepared.job(
            self.recorder.of, self.recorder, chain=self._chain, past=self._past, checkpoint=self.recorder.checkpoint
        )

    def finish(self, outcome: Outcome, smaller: float | None) -> Outcome:
        """Wait until everything is on disk, and note how the run ended. A store that failed is the run's failure.

        Args:
            outcome: how it ended.
            smaller: a step size to go on with, if a chain has diverged.
        """
        self.recorder.close()
        self._closed = True
        failure = self.recorder.failure
        if failure is not None and (outcome.failure is None or isinstance(outcome.failure, StoreError)):
            outcome = replace(outcome, failure=failure)  # the recorder's own words say what the store lacks
        state = "failed" if outcome.failure else "interrupted" if outcome.interrupted else "finished"
        failed = None if outcome.failure is None else str(outcome.failure)
        if failed is not None and smaller is not None:
            state, failed = "diverged", with_remedy(failed, smaller)
        self._end(state, failed, outcome.timing)
        return outcome

    def run(self, outcome: Outcome) -> Run:
        """The run as it is on disk."""
        run = stored_run(self.folder, self.prepared.potential)
        return replace(run, timing=outcome.timing, interrupted=outcome.interrupted)

    def __enter__(self) -> "Storage":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        try:
            if not self._closed:
                self.recorder.hurry()
                self.recorder.close()
                self._end("failed", f"{kind.__name__}: {error}" if kind else "it was given up", None)
        finally:
            if self._lock is not None:
                self._lock.release()

    def _chain(self, server: int) -> Chain:
        chain, of = self.prepared.chain(server), self._commits[server]
        chain.restore(of.updates, chain_state(read_state(chain_folder(self.folder, server), of)))
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


def _traces(info: Info) -> tuple[ChainTrace, ...]:
    """The traces of the chains of a stored run, which stay on disk."""
    homes = [(chain_folder(info.path, s) / "trace", of) for s, of in enumerate(info.chains)]
    return tuple(StoredTrace(home, of.rows, of.updates) for home, of in homes)


def _past(info: Info) -> tuple[Past, ...]:
    """What those that go on with the chains need to know."""
    return tuple(map(Past.of, _traces(info)))


def stored_run(path: str | os.PathLike[str], potential: Potential | None = None) -> Run:
    """A run as the last checkpoints of its chains have it; draws stay on disk until they are asked for."""
    info = inspect(path)
    folder, last = info.path, info.sessions[-1] if info.sessions else {}
    for s, of in enumerate(info.chains):
        if (due := info.record.settings.thinning.draws(of.updates)) != of.draws:
            problem = f"{of.updates} updates make {due} draws, and {of.draws} are kept"
            raise StoreError(f"{chain_folder(folder, s)} does not go with {folder / 'run.json'}: {problem}. {RESTORE}")
    arrays = [chain_arrays(folder, s, of, info.record) for s, of in enumerate(info.chains)]
    states = [read_state(chain_folder(folder, s), of) for s, of in enumerate(info.chains)] if _extra(info) else []
    draws: tuple[Any, ...] = tuple(of_chain for of_chain, _ in arrays)
    kept = info.record.settings.kept(min(info.draws))
    stats = np.stack([figures[kept] for _, figures in arrays])
    together: Any = StoredDraws(draws)
    if info.record.settings.keep != "all":
        none = np.empty((0, info.record.model.size), info.record.model.dtype)
        draws = tuple(state[LAST][None] if LAST in state else none for state in states) or (none,) * len(arrays)
        together = np.stack([of_chain[: min(map(len, draws))] for of_chain in draws])
    settings = info.record.settings.changed(workers=last.get("workers"), steps=last.get("steps"))
    record = replace(info.record, settings=settings, engine=last.get("engine", info.record.engine))
    events = [event for s in range(len(draws)) for event in folders.read_events(folder, s)]
    return Run(
        draws=cast(Array, together),  # an array to code that slices it
        trace=Trace.of_run(
            _traces(info), record, folders.read_initial(folder), folders.read_coordinates(folder, record)
        ),
        stats=DrawStats(*np.moveaxis(stats, -1, 0)),
        chain_draws=cast(tuple[Array, ...], draws),
        events=tuple(sorted(events, key=lambda event: event.time)),
        timing=timing(last),
        interrupted=info.state == "interrupted",
        variables=partial(split, layout=record.model.layout) if potential is None else potential.variables,
        store=folder,
        averages=stored_averages(states) if states else {},
    )  # fmt: skip


def _extra(info: Info) -> bool:
    """Whether checkpoints hold more than the chains: the last draws, or averages."""
    return info.record.settings.keep != "all" or bool(info.record.settings.averages)


def _going_on(info: Info, averages: Mapping[str, Any] | None, prepared: Prepared) -> Averages | None:
    """What goes on being averaged: what the run has averaged so far, and nothing else."""
    stored = info.record.settings.averages
    if tuple(averages or ()) != stored:
        problem = f"are not those of {info.path}, which averages {list(stored) or 'nothing'}"
        remedy = "Give sg.resume the same functions under the same names, which no store can hold; others: run.predict."
        raise ArgumentError("averages", list(averages or ()), problem, remedy)
    if not averages:
        return None
    return Averages(averages, prepared.kernels, prepared.settings.thinning)


def _refuse_another_run(info: Info, prepared: Prepared, but: tuple[str, ...] = ()) -> None:
    """A run goes on with the model and the sampler that it has."""
    stored, given = info.record, prepared.record(with_gradient=True)
    pairs = [("model", stored.model.table(), given.model.table())]
    pairs += [(f"kernels[{s}]", *both) for s, both in enumerate(zip(stored.kernels, given.kernels, strict=True))]
    differences = [
        f"{what}.{name} is {new!r}, was {old!r}"
        for what, before, after in pairs
        for name in {**before, **after}
        if name not in (*but, "is_network") and not _same(old := before.get(name), new := after.get(name))
    ]
    if differences:
        other_step = "; another step size is resume's own argument, step_size=…"
        raise StoreError(
            f"{info.path} is the store of another run: {'; '.join(differences)}. Give the model and the kernel that "
            f"the run was started with{other_step if any('.step_size is' in d for d in differences) else ''}"
        )


def _same(old: Any, new: Any) -> bool:
    if isinstance(old, float) and isinstance(new, float):
        return bool(np.isclose(old, new, rtol=1e-3, atol=0, equal_nan=True))  # other machines round differently
    return bool(old == new)


def _model_of_job(info: Info) -> Potential:
    """The model of a run that a file has described."""
    if info.job is None:
        raise StoreError(
            f"{info.path} does not say how to make its model: the run was started from Python. Give the model to "
            "sg.resume, or name what makes it: stalegrad resume --model module:function"
        )
    return JobFile.from_table(info.job).potential()


def _as_stored(kernel: Kernels, info: Info) -> Kernels:
    """A kernel of which the run has found numbers, with these."""
    given = [kernel] * info.record.settings.servers if isinstance(kernel, Kernel) else list(kernel)
    if not any(isinstance(k, Kernel) and k.undecided for k in given):
        return kernel
    return with_numbers(given, info.record.kernels, "Give the kernel that the run was begun with.")


def _stored_kernels(info: Info) -> list[Kernel]:
    return [kernel_from_table(table, path=f"{info.path}: kernels[{s}]") for s, table in enumerate(info.record.kernels)]
