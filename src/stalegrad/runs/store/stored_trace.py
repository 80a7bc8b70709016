"""A chain's trace on disk: written a few rows at a time, read a chunk at a time."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from stalegrad._internal.errors import StoreError
from stalegrad._internal.files import RESTORE
from stalegrad._internal.types import Array, IntArray
from stalegrad.protocol.chain_trace import BLOCK_ROWS, COLUMNS, ChainTrace, joined
from stalegrad.runs.store.arrays import GrowingArray, StoredArray, create
from stalegrad.runs.store.trace_columns import ORDER, Encoder, decode

CHUNK_ROWS = BLOCK_ROWS
"""Rows of a chunk: a block of the trace as whoever works through it sees it."""


def create_trace(folder: Path) -> None:
    """Make an empty trace, to which rows can be added."""
    create(
        folder, (len(ORDER),), "int64", {"columns": ORDER}, rows=CHUNK_ROWS, by_column=True
    )  # column by column, so that the small numbers of each are together


class GrowingTrace:
    """A trace on disk to which rows are added.

    Args:
        folder: where it is.
        rows: how many count. What a writer that was killed may have written after them is cut off.
    """

    def __init__(self, folder: Path, rows: int) -> None:
        self._array, self._encoder = GrowingArray(folder, rows), Encoder(CHUNK_ROWS)
        self._encoded: tuple[int, IntArray] | None = None  # rows that could not be written, and the first's number
        if begun := rows % CHUNK_ROWS:
            self._encoder.encode(_decoded(folder, rows - begun, StoredArray(folder, rows)[rows - begun :]))

    def write(self, first: int, rows: ChainTrace) -> None:
        """Add rows, of which the first has this number. Doing so again, after it has failed, changes nothing."""
        if self._encoded is None or self._encoded[0] != first:
            self._encoded = first, self._encoder.encode(rows)
        self._array.write(*self._encoded)
        self._encoded = None

    def flush(self) -> None:
        """Write what is not written yet."""
        self._array.flush()


class StoredTrace(ChainTrace):
    """The trace of a chain of a stored run, up to its last commit when it was opened.

    Nothing of it is held: :meth:`blocks` reads a chunk at a time, and a column is read each time it is asked for.

    Args:
        folder: where it is.
        rows: how many count.
        updates: how many of these were accepted.
    """

    _folder: Path
    _rows: int
    _updates: int
    _array: StoredArray

    def __init__(self, folder: Path, rows: int, updates: int) -> None:
        array = StoredArray(folder, rows)
        if array.shape[1:] != (len(ORDER),) or array.dtype != np.int64:
            raise StoreError(f"the array {folder} is damaged: it is not of {len(ORDER)} columns of int64. {RESTORE}")
        vars(self).update(_folder=folder, _rows=rows, _updates=updates, _array=array)

    def __len__(self) -> int:
        return self._rows

    def __reduce__(self) -> tuple[Any, ...]:
        return StoredTrace, (self._folder, self._rows, self._updates)

    def __repr__(self) -> str:
        return f"StoredTrace({self._rows:,} gradients, {self._updates:,} accepted, in {self._folder})"

    @property
    def steps(self) -> int:
        """L, the number of accepted updates."""
        return self._updates

    @property
    def has_step_sizes(self) -> bool:
        """True: a stored run has made its updates."""
        return True

    @property
    def seconds(self) -> float:
        """When the last gradient was dealt with; 0 if there is none, or if times are not known."""
        return self._block((self._rows - 1) // CHUNK_ROWS).seconds if self._rows else 0.0

    def blocks(self) -> Iterator[ChainTrace]:
        """All rows in order, a chunk at a time."""
        for chunk in range(-(-self._rows // CHUNK_ROWS)):
            yield self._block(chunk)

    def columns(self) -> dict[str, Any]:
        """All columns by name, read into memory."""
        return joined(self.blocks()).columns()

    def _column(self, name: str) -> Array:
        return np.concatenate([np.empty(0, COLUMNS[name].dtype), *(block.columns()[name] for block in self.blocks())])

    def _block(self, chunk: int) -> ChainTrace:
        begun = chunk * CHUNK_ROWS
        return _decoded(self._folder, begun, self._array[begun : begun + CHUNK_ROWS])


def _read(name: str) -> property:
    return property(lambda trace: trace._column(name))


for _name in COLUMNS:
    setattr(StoredTrace, _name, _read(_name))


def _decoded(folder: Path, first: int, table: IntArray) -> ChainTrace:
    try:
        return decode(table)
    except ValueError as error:
        raise StoreError(f"{folder} is damaged in rows {first} to {first + len(table) - 1}: {error}") from error
