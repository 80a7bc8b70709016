"""Arrays that grow on disk: rows are added at their end, and read slice by slice."""

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from stalegrad._internal import files
from stalegrad._internal.errors import StoreError
from stalegrad._internal.types import Array, IntArray
from stalegrad.runs.store.chunks import Chunks

CHUNK_BYTES = 1 << 20
"""A chunk holds about so much, but always whole rows and never more than :data:`CHUNK_ROWS` of them."""
CHUNK_ROWS = 1 << 16
LARGEST_CHUNK = 1 << 28
"""The bytes of a chunk of one row: a longer row is cut into several chunks. Blosc takes less than 2 GiB."""


def chunk_rows(row_bytes: int) -> int:
    """How many rows of so many bytes make a chunk."""
    return max(1, min(CHUNK_ROWS, CHUNK_BYTES // max(1, row_bytes)))


class GrowingArray:
    """An array (row, …) on disk to which rows are added.

    A chunk is written when it is full, and what is in the last one with :meth:`flush`. Every method may be called again
    after it has failed: that changes nothing of what is already written.

    Args:
        folder: where it is; its name is that of the array.
        rows: how many rows count. A writer that was killed may have written more: they are cut off.
    """

    def __init__(self, folder: Path, rows: int) -> None:
        self._chunks = Chunks(folder)
        self._chunks.refuse_fewer_rows(rows)
        size = self._chunks.shape[0]
        self._rows = self._flushed = rows
        self._chunk = rows // size  # the one that rows are added to
        self._chunks.remove_from(-(-rows // size))
        self._last: Array | None = None
        if rows % size:
            self._room()[: rows % size] = StoredArray(folder, rows)[self._chunk * size :]
        if self._chunks.rows != rows:
            self._chunks.set_rows(rows)

    def write(self, first: int, values: Array) -> None:
        """Add rows at the end, of which the first has this number. They are there to stay with the next flush."""
        size, end = self._chunks.shape[0], first + len(values)
        at = max(first, self._chunk * size)  # when it is called again, some chunks are written already
        while at < end:
            place, count = at - self._chunk * size, min(end, (self._chunk + 1) * size) - at
            new = values[at - first : at - first + count]
            if count < size:
                self._room()[place : place + count] = new
            if place + count == size:
                self._chunks.write(self._chunk, new if count == size else self._room())
                self._chunk += 1
            at += count
            self._rows = at

    def flush(self) -> None:
        """Write what is not written yet."""
        filled = self._rows % self._chunks.shape[0]
        if filled and self._rows != self._flushed:
            self._room()[filled:] = 0
            self._chunks.write(self._chunk, self._room())
        self._flushed = self._rows
        if self._chunks.rows != self._rows:
            self._chunks.set_rows(self._rows)

    def _room(self) -> Array:
        """The rows of the last chunk, laid out as they are on disk. Where chunks come whole, it is not needed."""
        if self._last is None:
            order, shape = self._chunks.order, self._chunks.shape
            shape = (shape[0], *self._chunks.row_shape)
            self._last = np.zeros([shape[axis] for axis in order], self._chunks.dtype).transpose(np.argsort(order))
        return self._last


def chosen_rows(key: Any, rows: int) -> IntArray:
    """Which of so many rows a key chooses, as NumPy would, without a list of all of them where the key is a slice.

    >>> chosen_rows(slice(-3, None), 10**15), chosen_rows(-1, 10**15)
    (array([999999999999997, 999999999999998, 999999999999999]), array(999999999999999))
    """
    if isinstance(key, slice):
        return np.arange(*key.indices(rows))
    if isinstance(key, int | np.integer):
        return np.asarray(range(rows)[key])
    if isinstance(key, np.ndarray) and key.dtype.kind == "i" and key.size and key.min() >= 0 and key.max() < rows:
        return key
    chosen: IntArray = np.arange(rows)[key]
    return chosen


def create(
    folder: Path,
    shape: tuple[int, ...],
    dtype: Any,
    attributes: Mapping[str, Any] | None = None,
    *,
    rows: int | None = None,
    by_column: bool = False,
) -> None:
    """Make an empty array whose rows have this shape. What is written here is allowed in :mod:`.metadata`.

    Args:
        folder: where.
        shape: of a row.
        dtype: of an entry.
        attributes: plain facts to keep beside it.
        rows: of a chunk; None for about a megabyte.
        by_column: whether to lay chunks out, and compress them, column by column, for integers that are mostly small.
    """
    kind = np.dtype(dtype)
    rows = chunk_rows(kind.itemsize * math.prod(shape)) if rows is None else rows
    widths = [max(1, n) for n in shape]
    while kind.itemsize * math.prod(widths) > LARGEST_CHUNK:  # of one row then: cut it
        widths = [-(-n // 2) for n in widths]
    compression = {"clevel": 3, "shuffle": "bitshuffle"} if by_column else {"clevel": 1, "shuffle": "shuffle"}
    codecs = [
        {"name": "bytes", "configuration": {"endian": "little"}},
        {"name": "blosc", "configuration": {"typesize": kind.itemsize, "cname": "zstd", **compression, "blocksize": 0}},
        {"name": "crc32c"},
    ]
    files.make_folder(folder)
    files.write_json(
        folder / "zarr.json",
        {
            "zarr_format": 3,
            "node_type": "array",
            "shape": [0, *shape],
            "data_type": kind.name,
            "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [rows, *widths]}},
            "chunk_key_encoding": {"name": "default", "configuration": {"separator": "/"}},
            "fill_value": np.zeros((), kind).item(),
            "codecs": [{"name": "transpose", "configuration": {"order": [1, 0]}}] * by_column + codecs,
            "attributes": dict(attributes or {}),
        },
        "metadata",
    )


class StoredArray:
    """An array on disk, read slice by slice. Looks like a NumPy array to code that only slices it.

    Args:
        folder: where it is.
        rows: how many rows count.
    """

    def __init__(self, folder: Path, rows: int) -> None:
        self._chunks = Chunks(folder)
        self._chunks.refuse_fewer_rows(rows)
        self._folder = folder
        self.shape: tuple[int, ...] = (rows, *self._chunks.row_shape)
        self.dtype: np.dtype[Any] = self._chunks.dtype
        self.ndim = len(self.shape)

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, key: Any) -> Array:
        rows, *rest = key if isinstance(key, tuple) else (key,)
        if rows is Ellipsis:
            rest = [slice(None)] * (self.ndim - 1 - len(rest)) + rest
            rows = slice(None) if len(rest) < self.ndim else rest.pop(0)
        index = chosen_rows(rows, len(self))
        if index.ndim == 0:
            row: Array = self._read(int(index), int(index) + 1)[(0, *rest)].copy()  # and let go of its chunk
            return row
        return self._gather(index, tuple(rest))

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Array:
        return np.asarray(self[:], dtype)

    def _gather(self, index: IntArray, rest: tuple[Any, ...]) -> Array:
        """The rows of an index, chunk by chunk, so that each is read once and never more than one is held."""
        result = np.empty((len(index), *np.empty((1, *self.shape[1:]), self.dtype)[(0, *rest)].shape), self.dtype)
        chunk_of = index // self._chunks.shape[0]
        for chunk in np.unique(chunk_of):
            wanted = np.flatnonzero(chunk_of == chunk)
            low, high = int(index[wanted].min()), int(index[wanted].max()) + 1
            result[wanted] = self._read(low, high)[(slice(None), *rest)][index[wanted] - low]
        return result

    def _read(self, low: int, high: int) -> Array:
        """Rows low to high − 1, which are in one chunk; if it is damaged or not there, this is an error."""
        chunk, first = divmod(low, self._chunks.shape[0])
        try:
            return self._chunks.read(chunk)[first : first + high - low]
        except ValueError as error:
            raise StoreError(self._damage(chunk, f"{error}")) from error

    def _damage(self, chunk: int, problem: str) -> str:
        size = self._chunks.shape[0]
        return (
            f"chunk {chunk} of {self._folder} is damaged: {problem}. It held rows {chunk * size} to "
            f"{min(len(self), (chunk + 1) * size) - 1}; all others can still be read. With the run's trace and model "
            "sg.replay gives the lost draws again, bit for bit"
        )
