"""A run is its trace: for every gradient that reached a server, who sent it, how stale it was and what became of it.

Noise is addressed by (seed, chain, update) and minibatches by (seed, chain, worker, count), so a trace, a model and a
kernel determine every bit of a run. Real engines record traces, :func:`stalegrad.simulate` makes them from a model of a
cluster, and the constructors here make them from a law of staleness; :func:`stalegrad.replay` executes any of them.
"""

import json
import os
import tempfile
from array import array
from collections.abc import Iterable
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from stalegrad.checks import real_number, whole_number
from stalegrad.errors import ArgumentError, TraceError
from stalegrad.noise import MAX_COUNT, MAX_WORKERS
from stalegrad.types import Array, IntArray

MAX_SEED = 2**64 - 1
_FORMAT = "stalegrad-trace-1"
_KINDS = {"worker": "iu", "count": "iu", "staleness": "iu", "accepted": "b", "step_size": "f", "time": "f"}  # NumPy's


@dataclass(frozen=True, eq=False)
class ChainTrace:
    """The trace of one chain, a column per fact and a row per gradient in order of arrival.

    Args:
        worker: who sent it.
        count: which of the worker's minibatches it was computed on.
        staleness: τ_l, the chain's version on arrival minus the version that the worker had read.
        accepted: whether it updated the chain.
        step_size: h of the update, or None to leave it to the kernel's schedule.
        time: seconds from the start to the update, measured or virtual, or None.
    """

    worker: IntArray
    count: IntArray
    staleness: IntArray
    accepted: Array
    step_size: Array | None = None
    time: Array | None = None

    def __post_init__(self) -> None:
        columns = {name: v for name, v in self.columns().items() if v is not None or name not in ("step_size", "time")}
        for name, column in columns.items():
            if not isinstance(column, np.ndarray) or column.ndim != 1 or column.dtype.kind not in _KINDS[name]:
                found = f"{getattr(column, 'dtype', type(column).__name__)} of shape {np.shape(column)}"
                raise TraceError(f"column {name} is {found}")
        if len({len(column) for column in columns.values()}) > 1:
            raise TraceError(f"columns differ in length: { {k: len(v) for k, v in columns.items()} }")
        for name, limit in (("worker", MAX_WORKERS), ("count", MAX_COUNT)):
            if np.any((columns[name] < 0) | (columns[name] >= limit)):
                raise TraceError(f"column {name} reaches outside 0 to {limit - 1}")
        if np.any((self.staleness < 0) | (self.staleness > self.version)):
            raise TraceError("a gradient was read from a version that did not exist")
        steps = self.updates().step_size
        if steps is not None and not np.all((steps > 0) & (steps < np.inf)):
            raise TraceError("an update was made with a step size that is not a finite number > 0")

    def __len__(self) -> int:
        return len(self.worker)

    @cached_property
    def version(self) -> IntArray:
        """The chain's version when each gradient arrived."""
        return np.concatenate(([0], np.cumsum(self.accepted, dtype=np.int64)[:-1])) if len(self) else np.empty(0, int)

    @property
    def steps(self) -> int:
        """L, the number of accepted updates."""
        return int(np.count_nonzero(self.accepted))

    def updates(self) -> "ChainTrace":
        """The accepted gradients alone."""
        kept: dict[str, Any] = {k: None if v is None else v[self.accepted] for k, v in self.columns().items()}
        return _Unchecked(**kept)

    def head(self, updates: int) -> "ChainTrace":
        """The rows up to and with the accepted gradient number ``updates``, counted from 1."""
        rows = int(np.searchsorted(np.cumsum(self.accepted), updates)) + 1 if updates else 0
        kept: dict[str, Any] = {k: None if v is None else v[:rows] for k, v in self.columns().items()}
        return ChainTrace(**kept)

    def rows(self, first: int) -> "ChainTrace":
        """The rows from number ``first`` on."""
        kept: dict[str, Any] = {k: None if v is None else v[first:] for k, v in self.columns().items()}
        return _Unchecked(**kept)

    def then(self, more: "ChainTrace") -> "ChainTrace":
        """This trace, continued by another. Times of the other count from the end of this one."""
        if not len(self):
            return more
        if more.time is not None and self.time is not None:
            more = replace(more, time=more.time + self.time[-1])
        pairs = [(k, v, getattr(more, k)) for k, v in self.columns().items()]
        joined: dict[str, Any] = {k: None if a is None or b is None else np.concatenate([a, b]) for k, a, b in pairs}
        return ChainTrace(**joined)

    def next_counts(self, epoch: int = 1) -> dict[int, int]:
        """The number of the minibatch that each worker would get next, at the beginning of an epoch."""
        workers, where = np.unique(self.worker, return_inverse=True)
        largest = np.full(len(workers), -1)
        np.maximum.at(largest, where, self.count)
        following = -(-(largest + 1) // epoch) * epoch
        return {int(worker): int(count) for worker, count in zip(workers, following, strict=True)}

    def applied_twice(self) -> int:
        """How many accepted gradients repeat a (worker, count) that was accepted before: 0 in a sound trace."""
        updates = self.updates()
        pairs = np.stack([updates.worker, updates.count], axis=1)
        return len(pairs) - len(np.unique(pairs, axis=0))

    def columns(self) -> dict[str, Any]:
        """All columns by name, None for those that are not there."""
        return {f.name: getattr(self, f.name) for f in fields(self)}


class _Unchecked(ChainTrace):
    """Rows taken out of a checked trace, whose versions no longer count from 0."""

    def __post_init__(self) -> None:
        pass


class TraceBuilder:
    """Collects the rows of a chain's trace as they happen, after those of its past."""

    def __init__(self, past: ChainTrace | None = None) -> None:
        self._worker, self._count, self._staleness = array("i"), array("q"), array("i")
        self._accepted, self._step_size, self._time = array("b"), array("d"), array("d")
        if past is not None:
            self.extend(past)

    def extend(self, rows: ChainTrace) -> None:
        """Many gradients have reached the server; their times count from the run's start."""
        for name, column in rows.columns().items():
            own: array[Any] = getattr(self, f"_{name}")
            given = np.full(len(rows), np.nan) if column is None else column
            own.frombytes(given.astype(np.dtype(own.typecode)).tobytes())

    def append(
        self, worker: int, count: int, staleness: int, accepted: bool, step_size: float = np.nan, time: float = np.nan
    ) -> None:
        """One gradient has reached the server."""
        self._worker.append(worker)
        self._count.append(count)
        self._staleness.append(staleness)
        self._accepted.append(accepted)
        self._step_size.append(step_size)
        self._time.append(time)

    def build(self) -> ChainTrace:
        """The trace so far. Columns that were never given are None."""
        return ChainTrace(**self.rows(0).columns())

    def rows(self, first: int) -> ChainTrace:
        """The rows from number ``first`` on. Columns that were never given are None."""
        step_size, time = np.array(self._step_size[first:]), np.array(self._time[first:])
        return _Unchecked(
            worker=np.array(self._worker[first:]),
            count=np.array(self._count[first:]),
            staleness=np.array(self._staleness[first:]),
            accepted=np.array(self._accepted[first:], dtype=bool),
            step_size=None if np.isnan(step_size).all() else step_size,
            time=None if np.isnan(time).all() else time,
        )


@dataclass(frozen=True, eq=False)
class Trace:
    """The traces of a run's chains, and what else a replay needs to give the same bits.

    Args:
        chains: one :class:`ChainTrace` per server.
        seed: the run's seed; a replay may override it.
        burn_in, thin: which draws the run kept.
        initial: θ_0 of each chain, (chain, n), or None for the model's own start.
        about: anything worth keeping, such as the kernel's settings; plain JSON.
    """

    chains: tuple[ChainTrace, ...]
    seed: int = 0
    burn_in: int = 0
    thin: int = 1
    initial: Array | None = None
    about: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        checked = {
            "seed": whole_number("seed", self.seed, most=MAX_SEED),
            "burn_in": whole_number("burn_in", self.burn_in),
            "thin": whole_number("thin", self.thin, least=1),
        }
        for name, value in checked.items():  # plain int, also of NumPy's integers: they go into a JSON header
            object.__setattr__(self, name, value)

    def __len__(self) -> int:
        return len(self.chains)

    def with_about(self, **facts: Any) -> "Trace":
        """The same trace with more facts noted."""
        return replace(self, about={**self.about, **facts})

    @classmethod
    def from_staleness(cls, staleness: Any, *, seed: int = 0) -> "Trace":
        """A synthetic trace: update l uses a gradient that is staleness[l] versions old.

        A row of a 2-d array is a chain. Values beyond l, which the chain's start does not allow, are cut to l.

        >>> Trace.from_staleness([3, 3, 3, 3]).chains[0].staleness.tolist()
        [0, 1, 2, 3]
        """
        try:
            rows = np.asarray(staleness)
        except ValueError:  # rows of different lengths
            rows = np.empty(0, object)
        if rows.ndim not in (1, 2) or rows.dtype.kind not in "iu" or rows.size == 0 or rows.min() < 0:
            raise ArgumentError(
                "staleness", staleness, "is not an array of whole numbers ≥ 0", "Give shape (steps,) or (chain, steps)."
            )
        rows = np.atleast_2d(rows)
        step = np.arange(rows.shape[1], dtype=np.int64)
        chains = [
            ChainTrace(
                worker=np.zeros(len(step), np.int32),
                count=step,
                staleness=np.minimum(row, step).astype(np.int32),
                accepted=np.ones(len(step), bool),
            )
            for row in rows
        ]
        return cls(tuple(chains), seed=seed)

    @classmethod
    def constant_staleness(cls, staleness: int, steps: int, *, chains: int = 1, seed: int = 0) -> "Trace":
        """Every gradient is τ versions old, the setting of figure 1 and of the closed forms."""
        tau = whole_number("staleness", staleness)
        shape = (whole_number("chains", chains, least=1), whole_number("steps", steps, least=1))
        return cls.from_staleness(np.full(shape, tau), seed=seed)

    @classmethod
    def random_staleness(cls, probabilities: Iterable[float], steps: int, *, chains: int = 1, seed: int = 0) -> "Trace":
        """Every gradient is τ versions old with probability probabilities[τ], independently."""
        remedy = "Give the weights of τ = 0, 1, 2, …, which are ≥ 0 and need not sum to 1."
        if not isinstance(probabilities, Iterable):
            raise ArgumentError("probabilities", probabilities, "is not a sequence", remedy)
        p = np.array([real_number("probabilities", value, least=0) for value in probabilities])
        if p.size == 0 or p.max() <= 0:
            raise ArgumentError("probabilities", probabilities, "has no mass", remedy)
        shape = (whole_number("chains", chains, least=1), whole_number("steps", steps, least=1))
        key = whole_number("seed", seed, most=MAX_SEED)
        uniform = np.random.Generator(np.random.Philox(key=key)).random(shape)
        cumulative = np.cumsum(p / p.max())
        return cls.from_staleness(np.searchsorted(cumulative / cumulative[-1], uniform, side="right"), seed=key)

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Write to one compressed .npz file without pickle; the old file stays until the new one is complete."""
        path = Path(path)
        columns = {f"{s}/{k}": v for s, chain in enumerate(self.chains) for k, v in chain.columns().items()}
        arrays = {name: array for name, array in {"initial": self.initial, **columns}.items() if array is not None}
        header = {
            "format": _FORMAT,
            "chains": len(self.chains),
            "arrays": list(arrays),  # the checksums of a zip file cover what is in it, and not that all of it is there
            **{name: getattr(self, name) for name in ("seed", "burn_in", "thin", "about")},
        }
        encoded = np.frombuffer(json.dumps(header).encode(), np.uint8)
        with tempfile.TemporaryDirectory(dir=path.parent, prefix=f".{path.name}-") as folder:
            temporary = Path(folder) / path.name
            with temporary.open("wb") as file:
                np.savez_compressed(file, header=encoded, **arrays)
                file.flush()
                os.fsync(file.fileno())
            os.replace(temporary, path)
        directory = os.open(path.parent, os.O_RDONLY)
        try:
            os.fsync(directory)  # so that the new name survives a loss of power, too
        finally:
            os.close(directory)
        return path

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> "Trace":
        """Read what :meth:`save` wrote; a damaged or foreign file is a :class:`TraceError`."""
        try:
            with open(path, "rb") as opened, np.load(opened, allow_pickle=False) as file:
                arrays = dict(file)
            header = json.loads(arrays.pop("header").tobytes())
            if header.pop("format") != _FORMAT or sorted(arrays) != sorted(header.pop("arrays")):
                raise TraceError("of another format, or with other contents than its header says")
            count = header.pop("chains")
            names = [f.name for f in fields(ChainTrace)]
            chains = [ChainTrace(**{k: arrays.get(f"{s}/{k}") for k in names}) for s in range(count)]  # type: ignore[arg-type]
            return cls(tuple(chains), initial=arrays.get("initial"), **header)
        except FileNotFoundError:
            raise
        except Exception as error:  # whatever a damaged file makes of zipfile, zlib, json and NumPy
            raise TraceError(f"{path} is not a readable stalegrad trace ({type(error).__name__}: {error})") from error
