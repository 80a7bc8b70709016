"""Arrays that grow on disk, in Zarr's format: compressed, a checksum on every chunk, replaced chunk by chunk.

Zarr is imported here only, and when a store is opened.
"""

import asyncio
import math
from collections.abc import Mapping
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import zarr
from zarr.abc.store import ByteRequest
from zarr.codecs import BloscCodec, Crc32cCodec, TransposeCodec
from zarr.core.buffer import Buffer
from zarr.storage import LocalStore

from stalegrad._internal import files
from stalegrad._internal.errors import StoreError
from stalegrad._internal.types import Array, IntArray
from stalegrad.runs.store.metadata import refuse_unless_ours

CHUNK_BYTES = 1 << 20
"""A chunk holds about so much, but always whole rows and never more than :data:`CHUNK_ROWS` of them."""
CHUNK_ROWS = 1 << 16
LARGEST_CHUNK = 1 << 28
"""The bytes of a chunk of one row: a longer row is cut into several chunks. Blosc takes less than 2 GiB."""

_WRITE_ALL: Any = {"array.write_empty_chunks": True}  # Zarr leaves out zeros, and then a lost chunk looks like them


def chunk_rows(row_bytes: int) -> int:
    """How many rows of so many bytes make a chunk."""
    return max(1, min(CHUNK_ROWS, CHUNK_BYTES // max(1, row_bytes)))


class _SafeFolder(LocalStore):
    """Zarr's folder, whose files survive a loss of power from the moment they are written."""

    async def set(self, key: str, value: Buffer, byte_range: ByteRequest | None = None) -> None:
        await asyncio.to_thread(self._write, key, value)

    def _write(self, key: str, value: Buffer) -> None:
        path = self.root / key
        files.make_folder(path.parent)
        files.write(path, value.to_bytes(), "metadata" if path.name == "zarr.json" else self.root.name)


class GrowingArray:
    """An array (row, …) on disk to which rows are added.

    Args:
        folder: where it is; its name is that of the array.
        rows: how many rows count. A writer that was killed may have written more: they are cut off.
    """

    def __init__(self, folder: Path, rows: int) -> None:
        refuse_unless_ours(folder)
        with zarr.config.set(_WRITE_ALL):  # the array takes it over when it is opened
            self._array = zarr.open_array(_SafeFolder(folder), mode="r+", zarr_format=3)
        if self._array.shape[0] != rows:
            self._array.resize((rows, *self._array.shape[1:]))

    def write(self, first: int, values: Array) -> None:
        """Write rows from number ``first`` on, at the end. Doing so again, after it has failed, changes nothing."""
        if len(values):
            end = first + len(values)
            if self._array.shape[0] != end:
                self._array.resize((end, *self._array.shape[1:]))
            self._array[first:end] = values


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
    zarr.create_array(
        _SafeFolder(folder),
        shape=(0, *shape),
        chunks=(rows, *widths),
        dtype=kind,
        filters=[TransposeCodec(order=(1, 0))] if by_column else None,
        compressors=[BloscCodec(cname="zstd", typesize=kind.itemsize, **compression), Crc32cCodec()],  # type: ignore[arg-type]
        fill_value=np.zeros((), kind)[()],
        attributes=dict(attributes or {}),
    )


class StoredArray:
    """An array on disk, read slice by slice. Looks like a NumPy array to code that only slices it.

    Args:
        folder: where it is.
        rows: how many rows count.
    """

    def __init__(self, folder: Path, rows: int) -> None:
        refuse_unless_ours(folder)
        try:
            self._array = zarr.open_array(LocalStore(folder, read_only=True), mode="r", zarr_format=3)
        except Exception as error:  # whatever a damaged or missing description makes of Zarr
            raise StoreError(f"the array {folder} cannot be read ({type(error).__name__}: {error})") from error
        if self._array.shape[0] < rows:
            raise StoreError(f"the array {folder} has {self._array.shape[0]} rows; {rows} were committed")
        self._folder = folder
        self.shape: tuple[int, ...] = (rows, *self._array.shape[1:])
        self.dtype: np.dtype[Any] = np.dtype(self._array.dtype)
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
            result: Array = self._read(int(index), int(index) + 1)[(0, *rest)]
            return result
        return self._gather(index, tuple(rest))

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Array:
        return np.asarray(self[:], dtype)

    def _gather(self, index: IntArray, rest: tuple[Any, ...]) -> Array:
        """The rows of an index, chunk by chunk, so that each is read once and never more than one is held."""
        result = np.empty((len(index), *np.empty((1, *self.shape[1:]), self.dtype)[(0, *rest)].shape), self.dtype)
        chunk_of = index // self._array.chunks[0]
        for chunk in np.unique(chunk_of):
            wanted = np.flatnonzero(chunk_of == chunk)
            low, high = int(index[wanted].min()), int(index[wanted].max()) + 1
            result[wanted] = self._read(low, high)[(slice(None), *rest)][index[wanted] - low]
        return result

    def _read(self, low: int, high: int) -> Array:
        """Rows low to high − 1; a chunk that is damaged or not there is an error, never a fill value."""
        size = self._array.chunks[0]
        across = [range(-(-n // width)) for n, width in zip(self.shape[1:], self._array.chunks[1:], strict=True)]
        for chunk in range(low // size, (high - 1) // size + 1):
            for places in product(*across):
                if not self._folder.joinpath("c", str(chunk), *map(str, places)).exists():
                    raise StoreError(self._damage(chunk, "it is not there"))
        try:
            return np.asarray(self._array[low:high])
        except Exception as error:  # a wrong checksum, or whatever damaged bytes make of the codecs
            raise StoreError(self._damage(self._damaged_chunk(low, high), f"{error}")) from error

    def _damaged_chunk(self, low: int, high: int) -> int:
        size = self._array.chunks[0]
        for chunk in range(low // size, (high - 1) // size + 1):
            try:
                self._array[chunk * size : chunk * size + 1]
            except Exception:
                return int(chunk)
        return low // size

    def _damage(self, chunk: int, problem: str) -> str:
        size = self._array.chunks[0]
        return (
            f"chunk {chunk} of {self._folder} is damaged: {problem}. It held rows {chunk * size} to "
            f"{min(len(self), (chunk + 1) * size) - 1}; all others can still be read. With the run's trace and model "
            "sg.replay gives the lost draws again, bit for bit"
        )
