"""A job: the arguments of :func:`stalegrad.sample` as a TOML file that serves every engine.

.. code-block:: toml

    steps = 20_000                  # L, updates of each chain: the only number that must be given
    servers = 2                     # S, chains
    workers = 4                     # W, workers of each chain
    max_staleness = 16
    burn_in = 2_000
    thin = 10
    seed = 0
    engine = "threads"              # or "processes", "mpi", "ray", "inline"; --engine takes another for once
    store = "runs/logistic"         # relative to this file; without it, runs/NAME where the command is given

    [model]
    function = "logistic:model"     # logistic.py is looked for beside this file, then where Python looks
    [model.arguments]
    batch_size = 50

    [kernel]                        # without it, or without its numbers, they are found; [[kernel]] gives each its own
    name = "SGHMC"
    friction = 100.0
    step_size = {name = "Inverse", base = 1e-3}     # or a number, or "auto" to have one found

    [warmup]                        # how to find what is not given, see stalegrad.Warmup; warmup = false for none
    bias = 0.02

    [architecture]                  # who samples and who sends what, such as Shards; without it, workers send gradients
    name = "Downpour"
    n_push = 5

    [engines.processes]             # settings of an engine, for when it is the one
    threads = 1

    [[observers]]                   # who looks on: "json", "tensorboard", "mlflow", "prometheus", or module:Class
    name = "tensorboard"
    folder = "runs/tensorboard"     # where the command is given

Keys of the job itself come before the first ``[table]``, as TOML has it.
"""

import tomllib
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field, fields, replace
from os import PathLike
from pathlib import Path
from typing import Any, Literal

from stalegrad._internal.errors import ArgumentError, JobError
from stalegrad._internal.tables import Table, check_keys, check_table
from stalegrad.engines import Engine
from stalegrad.engines.tables import ENGINES, named_engine
from stalegrad.kernels import Kernel, kernel_from_table
from stalegrad.potentials import Potential
from stalegrad.protocol.architectures import StaleGradients
from stalegrad.protocol.settings import CHOSEN, Settings
from stalegrad.runs.jobs.model import ModelFunction, look_in
from stalegrad.runs.warmup.options import Warmup

_REQUIRED = ("model", "steps")
_ELSEWHERE = {
    "schedule": 'A schedule is the kernel\'s step size: kernel.step_size = {name = "Polynomial", a = 0.1}.',
    "step_size": "It belongs to the kernel: kernel.step_size.",
    "function": "It belongs to the model: model.function.",
    "arguments": "They belong to the model: model.arguments.",
    "shard": 'Shards are an architecture: architecture = {name = "Shards"}, with sizes = [...] if they differ.',
}
_ABOVE = "Keys of the job itself come before the first [table] of the file."


@dataclass(frozen=True, kw_only=True)
class JobFile:
    """A described job. Arguments that are not explained here are those of :func:`stalegrad.sample`.

    Args:
        model: the function that makes the potential.
        kernel: the table of the sampler, or one for each server; see :mod:`stalegrad.kernels.tables`. None to have one
            chosen.
        settings: of the run; in a file they stand among the other keys.
        warmup: the table of a :class:`stalegrad.Warmup`; None for the default, False for none.
        chooses_burn_in: whether the file leaves the burn-in to be chosen.
        engine: the engine's name.
        engines: settings by the name of the engine they are for; see :mod:`stalegrad.engines.tables`.
        observers: tables of those who look on, see :mod:`stalegrad.runs.observers.tables`.
        store: where the run is kept, or None if the file does not say.
        folder: of the file; modules are looked for there, and paths are relative to it.
        name: of the file, without its suffix.
    """

    model: ModelFunction
    kernel: Table | tuple[Table, ...] | None
    settings: Settings
    warmup: Table | Literal[False] | None = None
    chooses_burn_in: bool = True
    engine: str = "threads"
    engines: Mapping[str, Table] = field(default_factory=dict)
    observers: tuple[Table, ...] = ()
    store: Path | None = None
    folder: Path = Path()
    name: str = "job"

    def __post_init__(self) -> None:
        self._check_engines()
        self.warmup_object()
        self.kernels(n_data=1)  # whatever N is, what is wrong with a table is wrong now

    @classmethod
    def read(cls, path: str | PathLike[str]) -> "JobFile":
        """The job in a file.

        Raises:
            JobError: it is not there, is not TOML, or describes no job; the message names the file and the key.
        """
        path = Path(path)
        try:
            table = tomllib.loads(path.read_text(encoding="utf-8"))
        except OSError as error:
            raise JobError(f"{path} cannot be read: {error.strerror}") from error
        except UnicodeDecodeError as error:
            raise JobError(f"{path} is not text in UTF-8, as TOML must be: {error.reason}") from error
        except (ValueError, RecursionError) as error:  # also numbers and brackets without end
            raise JobError(f"{path} is not TOML: {error}") from error
        try:
            return cls._from(table, folder=path.parent.resolve(), name=path.stem)
        except ArgumentError as error:
            raise JobError(f"{path}: {error}") from error

    @classmethod
    def from_table(cls, table: Mapping[str, Any]) -> "JobFile":
        """The job that :meth:`table` gave: a stored run makes its model from it, without the file."""
        check_table(table, "job", "Give what JobFile.table() gave.")
        described = dict(table)
        return cls._from(described, folder=Path(described.pop("folder", ".")), name=described.pop("name", "job"))

    def changed(self, **changes: Any) -> "JobFile":
        """The same job with other settings, or another engine or store; those that are None stay as they are."""
        given = {name: value for name, value in changes.items() if value is not None}
        chooses = self.chooses_burn_in and "burn_in" not in given
        settings = self.settings.changed(**{name: given.pop(name) for name in CHOSEN if name in given})
        return replace(self, settings=settings, chooses_burn_in=chooses, **given)

    def at(self, address: str) -> "JobFile":
        """The same job on a cluster at this address, for engines that have one."""
        settings = {**self.engines.get(self.engine, {}), "address": address}
        return replace(self, engines={**self.engines, self.engine: settings})

    def table(self) -> Table:
        """All of it but the place of the store, in plain types."""
        kernel = list(self.kernel) if isinstance(self.kernel, tuple) else self.kernel
        asked = {"kernel": kernel, "warmup": self.warmup}
        burn_in = {} if self.chooses_burn_in else {"burn_in": self.settings.burn_in}
        return {
            "name": self.name, "folder": str(self.folder), "model": self.model.table(),
            **{key: value for key, value in asked.items() if value is not None}, **self.settings.table(), **burn_in,
            "engine": self.engine, "engines": dict(self.engines),
            **({"observers": [dict(each) for each in self.observers]} if self.observers else {}),
        }  # fmt: skip

    def potential(self) -> Potential:
        """The model: its module is looked for in the file's folder, in the current one, then where Python looks."""
        return self.model.potential(self.folder, Path.cwd())

    def warmup_object(self) -> Warmup | Literal["auto"] | None:
        """How to find what is not given, as :func:`stalegrad.sample` takes it."""
        if self.warmup is None or self.warmup is False:
            return "auto" if self.warmup is None else None
        return Warmup.from_table(self.warmup)

    def kernels(self, n_data: int) -> Kernel | list[Kernel] | None:
        """The sampler for a model of N data, or one for each server; None to have one chosen."""
        if self.kernel is None:
            return None
        if not isinstance(self.kernel, tuple):
            return kernel_from_table(self.kernel, n_data=n_data)
        if len(self.kernel) != self.settings.servers:
            servers = self.settings.servers
            remedy = f"Give one [kernel], or {servers} of [[kernel]]."
            raise ArgumentError("kernel", list(self.kernel), f"is not one per server, of {servers}", remedy)
        return [kernel_from_table(t, n_data=n_data, path=f"kernel[{s}]") for s, t in enumerate(self.kernel)]

    def engine_object(self, name: str | None = None) -> Engine:
        """The engine of this name, or the job's, with the settings that the job has for it."""
        name = name or self.engine
        return named_engine(name, self.engines.get(name, {}))

    def observer_objects(self) -> list[Any]:
        """Those who look on; an adapter whose extra is missing says so here."""
        if not self.observers:
            return []
        from stalegrad.runs.observers.tables import observers_from_tables

        return list(observers_from_tables(self.observers))

    def arguments(self, potential: Potential) -> dict[str, Any]:
        """What to call :func:`stalegrad.sample` with, besides the potential itself."""
        settings = {name: getattr(self.settings, name) for name in CHOSEN}
        if self.chooses_burn_in:
            settings["burn_in"] = None
        if settings["architecture"] == StaleGradients():
            settings["architecture"] = None
        stored = {} if self.store is None else {"store": self.store, "job": self.table()}
        found = {"kernel": self.kernels(potential.n_data), "warmup": self.warmup_object()}
        seen = {"observers": self.observer_objects()} if self.observers else {}
        return {**found, "engine": self.engine_object(), **settings, **stored, **seen}

    @classmethod
    def _from(cls, table: Table, folder: Path, name: str) -> "JobFile":
        own = {f.name: f for f in fields(cls) if f.name not in ("settings", "folder", "name", "chooses_burn_in")}
        known = ("model", "kernel", *CHOSEN, *(name for name in own if name not in ("model", "kernel")))
        for key, value in table.items():
            if key in _ELSEWHERE:
                raise ArgumentError(key, value, "is not known", _ELSEWHERE[key])
        check_keys(table, known, "", f"A job takes: {', '.join(known)}.")
        _check_places(table, known)
        for key in _REQUIRED:
            if key not in table:
                lost = next((where for where, inner in _inner(table) if key in inner), None)
                remedy = f"It stands in [{lost}]. {_ABOVE}" if lost else "model and steps must be given."
                raise ArgumentError(key, None, "is missing", remedy)
        if any(":" in str(inner.get("name", "")) for _, inner in _inner(table)) or ":" in str(table.get("engine", "")):
            look_in(folder)  # for classes of the user's own
        read = {key: value for key, value in table.items() if key in own}
        read["model"] = ModelFunction.read(table["model"], "model")
        if isinstance(kernel := table.get("kernel"), list):
            kernel = tuple(kernel)
        read["kernel"] = kernel
        if "observers" in table:
            read["observers"] = _observers(table["observers"])
        if "store" in table:
            read["store"] = _store(table["store"], folder)
        settings = Settings.from_table({key: value for key, value in table.items() if key in CHOSEN})
        return cls(**read, settings=settings, folder=folder, name=name, chooses_burn_in="burn_in" not in table)

    def _check_engines(self) -> None:
        if isinstance(self.engine, Mapping):
            remedy = 'Name it, engine = "processes"; its settings go into [engines.processes].'
            raise ArgumentError("engine", self.engine, "is a table", remedy)
        if not isinstance(self.engine, str):
            raise ArgumentError("engine", self.engine, "is not a name", f"Give one of: {', '.join(ENGINES.members)}.")
        names = tuple(ENGINES.members)
        check_table(self.engines, "engines", "Give tables with settings: [engines.processes].")
        ours = {name: table for name, table in self.engines.items() if ":" not in name}
        check_keys(ours, names, "engines", f"There are settings for: {', '.join(names)}.")
        for name, settings in self.engines.items():
            check_table(settings, f"engines.{name}", "Give a table with the settings of that engine.")
            self.engine_object(name)
        self.engine_object()


def _inner(table: Mapping[str, Any], path: str = "") -> Iterator[tuple[str, Mapping[str, Any]]]:
    """The tables within a table, however deep, with their paths."""
    for key, value in table.items():
        listed = value if isinstance(value, list) else [value]
        for index, entry in enumerate(listed):
            if isinstance(entry, Mapping):
                where = f"{path}{key}[{index}]" if isinstance(value, list) else f"{path}{key}"
                yield where, entry
                yield from _inner(entry, f"{where}.")


def _check_places(table: Mapping[str, Any], known: Collection[str]) -> None:
    """Refuse keys of the job in a table below it, where a line at the end of a TOML file lands unawares."""
    for path, inner in _inner(table):
        for key in inner:
            if key in known and not path.startswith("model.arguments"):  # what those are called is the user's affair
                raise ArgumentError(f"{path}.{key}", inner[key], f"belongs to the job, not to {path}", _ABOVE)


def _observers(value: Any) -> tuple[Table, ...]:
    remedy = 'Give tables: [[observers]] with name = "json" and path = "run.jsonl".'
    if not isinstance(value, list) or not all(isinstance(each, Mapping) and "name" in each for each in value):
        raise ArgumentError("observers", value, "is not a list of tables with names", remedy)
    return tuple(dict(each) for each in value)


def _store(value: Any, folder: Path) -> Path:
    remedy = 'Give a folder for the run, such as "runs/first".'
    if not isinstance(value, str) or not value.strip() or "\0" in value:
        raise ArgumentError("store", value, "is not a path", remedy)
    try:
        return folder / Path(value).expanduser()
    except RuntimeError as error:
        raise ArgumentError("store", value, f"is not a path ({error})", remedy) from None
