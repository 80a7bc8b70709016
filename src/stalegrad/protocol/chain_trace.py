"""The trace of one chain: who sent each gradient that reached its server, how stale it was and what became of it."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, fields
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from stalegrad._internal.errors import TraceError
from stalegrad._internal.types import Array, IntArray
from stalegrad.kernels.noise import MAX_COUNT, MAX_WORKERS
from stalegrad.protocol.staleness_counts import StalenessCounts

BLOCK_ROWS = 1 << 16
"""Long traces are worked through so many rows at a time."""


class Column(NamedTuple):
    """What a column of a trace holds.

    Args:
        dtype: as it is collected.
        kinds: of NumPy's, which a trace may have.
        optional: whether a trace may be without it; NaN, or −1, stands for what is not known.
    """

    dtype: np.dtype[Any]
    kinds: str
    optional: bool

    @property
    def unknown(self) -> float:
        """What stands for what is not known, where that is allowed."""
        return np.nan if self.dtype.kind == "f" else -1


def _metadata(dtype: type, kinds: str, *, optional: bool = False) -> dict[str, Column]:
    return {"column": Column(np.dtype(dtype), kinds, optional)}


@dataclass(frozen=True, eq=False)
class ChainTrace:
    """The trace of one chain, a column per fact and a row per gradient in order of arrival.

    That of a stored run stays on disk: a column is read, all of it, each time that it is asked for. What must not grow
    with the trace goes through :meth:`blocks`.

    Args:
        worker: who sent it.
        count: which of the worker's minibatches it was computed on.
        staleness: τ_l, the chain's version on arrival minus the version that the worker had read.
        accepted: whether it updated the chain.
        step_size: h of the update, NaN where there was none, or None to leave it to the kernel's schedule.
        time: seconds from the start to the update, measured or virtual, or None.
        scanned: 1 for an update that was made within a program of many (:mod:`stalegrad.protocol.scan_jax`), whose
            last bits may differ from those of gradients that are asked for one by one, and 0 for all others; None to
            leave it to whoever executes the trace.
        gradient_seconds: how long its worker has computed it, measured or virtual, or None. Nothing depends on it: it
            is for those who want to see where the time went. A store keeps it to within 2.2 %.
    """

    worker: IntArray = field(metadata=_metadata(np.int32, "iu"))
    count: IntArray = field(metadata=_metadata(np.int64, "iu"))
    staleness: IntArray = field(metadata=_metadata(np.int32, "iu"))
    accepted: Array = field(metadata=_metadata(np.bool_, "b"))
    step_size: Array | None = field(default=None, metadata=_metadata(np.float64, "f", optional=True))
    time: Array | None = field(default=None, metadata=_metadata(np.float64, "f", optional=True))
    scanned: IntArray | None = field(default=None, metadata=_metadata(np.int8, "iu", optional=True))
    gradient_seconds: Array | None = field(default=None, metadata=_metadata(np.float32, "f", optional=True))

    def __post_init__(self) -> None:
        columns = {name: v for name, v in self.columns().items() if v is not None or not COLUMNS[name].optional}
        for name, column in columns.items():
            if not isinstance(column, np.ndarray) or column.ndim != 1 or column.dtype.kind not in COLUMNS[name].kinds:
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

    @property
    def seconds(self) -> float:
        """When the last gradient was dealt with; 0 if there is none, or if times are not known."""
        last = float(self.time[-1]) if self.time is not None and len(self) else 0.0
        return last if last > 0 else 0.0

    @property
    def has_step_sizes(self) -> bool:
        """Whether the updates have been made, so that their step sizes are known."""
        return self.step_size is not None

    @cached_property
    def staleness_counts(self) -> StalenessCounts:
        """How many gradients, accepted or not, had each staleness."""
        return StalenessCounts.of((block.staleness, block.accepted) for block in self.blocks())

    def blocks(self) -> Iterator["ChainTrace"]:
        """All rows in order, at most 65,536 at a time: versions of a block do not count from 0."""
        for first in range(0, len(self), BLOCK_ROWS):
            yield self.part(slice(first, first + BLOCK_ROWS))

    def updates(self) -> "ChainTrace":
        """The trace without its dropped gradients: one row for each update."""
        return self.part(self.accepted)

    def of_updates(self, numbers: IntArray) -> "ChainTrace":
        """The rows of some updates, counted from 0, in ascending order."""
        return joined(block.part(rows) for _, block, rows in self._located(numbers))

    def steps_of(self, numbers: IntArray) -> Array:
        """The step sizes of some updates, counted from 0, in ascending order: all that is kept of their rows."""
        sizes, filled = np.empty(len(numbers)), 0
        for _, block, rows in self._located(numbers):
            assert block.step_size is not None, "an executed trace has step sizes"
            sizes[filled : filled + len(rows)] = block.step_size[rows]
            filled += len(rows)
        return sizes[:filled]

    def arrivals(self, numbers: IntArray) -> IntArray:
        """Which rows those of some updates are, counted from 0 both, in ascending order."""
        return np.concatenate([np.empty(0, np.int64), *(first + rows for first, _, rows in self._located(numbers))])

    def head(self, updates: int) -> "ChainTrace":
        """The rows up to and with the accepted gradient number ``updates``, counted from 1."""
        rows = int(self.arrivals(np.array([updates - 1]))[0]) + 1 if updates else 0
        return ChainTrace(**self.part(slice(0, rows)).columns())

    def part(self, rows: Any) -> "ChainTrace":
        """Some rows: a slice, numbers in ascending order, or a mask."""
        kept: dict[str, Any] = {k: None if v is None else v[rows] for k, v in self.columns().items()}
        return _Unchecked(**kept)

    def _located(self, numbers: IntArray) -> Iterator[tuple[int, "ChainTrace", IntArray]]:
        """Every block with the number of its first row, and which of its rows are those of the updates wanted."""
        first = before = 0
        for block in self.blocks():
            rows = np.flatnonzero(block.accepted)
            low, high = np.searchsorted(numbers, (before, before + len(rows)))
            yield first, block, rows[numbers[low:high] - before]
            first, before = first + len(block), before + len(rows)

    def applied_twice(self) -> int:
        """How many accepted gradients repeat a (worker, count) that was accepted before: 0 in a sound trace."""
        updates = self.updates()
        pairs = np.stack([updates.worker, updates.count], axis=1)
        return len(pairs) - len(np.unique(pairs, axis=0))

    def columns(self) -> dict[str, Any]:
        """All columns by name, None for those that are not there."""
        return {name: getattr(self, name) for name in COLUMNS}


COLUMNS: dict[str, Column] = {each.name: each.metadata["column"] for each in fields(ChainTrace)}
"""The columns of a trace, by name."""


class _Unchecked(ChainTrace):
    """Rows taken out of a checked trace, whose versions no longer count from 0."""

    def __post_init__(self) -> None:
        pass


def joined(parts: Iterable[ChainTrace]) -> ChainTrace:
    """The rows of all parts, one after the other; a column that one part does not have is None."""
    columns: dict[str, list[Any]] = {name: [] for name in COLUMNS}
    for part in parts:
        for name, column in part.columns().items():
            columns[name].append(column)
    result: dict[str, Any] = {
        name: None if any(piece is None for piece in pieces)
        else np.concatenate(pieces) if pieces else np.empty(0, COLUMNS[name].dtype)
        for name, pieces in columns.items()
    }  # fmt: skip
    return _Unchecked(**result)


def unchecked(**columns: Any) -> ChainTrace:
    """Rows from the middle of a trace, whose versions do not count from 0."""
    return _Unchecked(**columns)
