"""Arrays that grow on disk, in Zarr's format: compressed, a checksum on every chunk, replaced chunk by chunk.

Zarr is imported here only, and when a store is opened.
"""

import asyncio
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import zarr
from zarr.abc.store import ByteRequest
from zarr.codecs import BloscCodec, Crc32cCodec
from zarr.core.buffer import Buffer
from zarr.storage import LocalStore

from stalegrad.errors import StoreError
from stalegrad.store import files
from stalegrad.types import Array, IntArray

CHUNK_BYTES = 1 << 20
"""A chunk holds about so much, but always whole rows and never more than :data:`CHUNK_ROWS` of them."""
CHUNK_ROWS = 1 << 16

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
        path.parent.mkdir(parents=True, exist_ok=True)
        files.write(path, value.to_bytes(), "metadata" if path.name == "zarr.json" else self.root.name)


class GrowingArray:
    """An array (row, …) on disk to which rows are added.

    Args:
        folder: where it is; its name is that of the array.
        rows: how many rows count. A writer that was killed may have written more: they are cut off.
    """

    def __init__(self, folder: Path, rows: int) -> None:
        with zarr.config.set(_WRITE_ALL):  # the array takes it over when it is opened
            self._array = zarr.open_array(_SafeFolder(folder), mode="r+")
        self._rows = rows
        if self._array.shape[0] != rows:
            self._array.resize((rows, *self._array.shape[1:]))

    def append(self, values: Array) -> None:
        """Add rows at the end."""
        if len(values):
            end = self._rows + len(values)
            self._array.resize((end, *self._array.shape[1:]))
            self._array[self._rows : end] = values
            self._rows = end


def create(folder: Path, shape: tuple[int, ...], dtype: Any, attributes: Mapping[str, Any] | None = None) -> None:
    """Make an empty array whose rows have this shape."""
    kind = np.dtype(dtype)
    rows = chunk_rows(kind.itemsize * math.prod(shape))
    zarr.create_array(
        _SafeFolder(folder),
        shape=(0, *shape),
        chunks=(rows, *(max(1, n) for n in shape)),
        dtype=kind,
        compressors=[BloscCodec(cname="zstd", clevel=1, shuffle="shuffle", typesize=kind.itemsize), Crc32cCodec()],
        fill_value=np.zeros((), kind)[()],
        attributes=dict(attributes or {}),
    )


class StoredArray:
    """An array on disk, read slice by slice. Looks like a NumPy array to whoever only slices it.

    Args:
        folder: where it is.
        rows: how many rows count.
    """

    def __init__(self, folder: Path, rows: int) -> None:
        try:
            self._array = zarr.open_array(LocalStore(folder, read_only=True), mode="r")
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
        index = np.arange(len(self))[rows]
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
        for chunk in range(low // size, (high - 1) // size + 1):
            path = self._folder.joinpath("c", str(chunk), *("0",) * (self.ndim - 1))
            if not path.exists():
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
