"""Arrays in chunks on disk, in Zarr's third format: every chunk a file of its own, compressed, with a checksum.

What is written here any reader of Zarr can open. It is written and read without the package of that name, which takes
milliseconds a chunk where Blosc takes a few tenths, and makes whatever codec a description names.
"""

import shutil
from collections.abc import Iterator
from itertools import product
from pathlib import Path
from typing import Any

import google_crc32c
import numcodecs.blosc
import numpy as np

from stalegrad._internal import files
from stalegrad._internal.errors import StoreError
from stalegrad._internal.types import Array
from stalegrad.runs.store.metadata import described

_CHECKSUM = 4
_HEADER = 16  # of Blosc; its bytes 4 to 7 say how long the content is, 12 to 15 how long with the header it is now
_SHUFFLES = {"shuffle": numcodecs.blosc.SHUFFLE, "bitshuffle": numcodecs.blosc.BITSHUFFLE}

numcodecs.blosc.use_threads = False  # its own threads would not survive a fork, and compete with those that sample


class Chunks:
    """The files of an array's chunks.

    Args:
        folder: of the array.
    """

    def __init__(self, folder: Path) -> None:
        about = described(folder)
        codecs = {codec["name"]: codec.get("configuration", {}) for codec in about["codecs"]}
        self.folder, self.rows = folder, int(about["shape"][0])
        self.row_shape = tuple(map(int, about["shape"][1:]))
        self.shape = tuple(map(int, about["chunk_grid"]["configuration"]["chunk_shape"]))
        """Of a chunk."""
        self.dtype: np.dtype[Any] = np.dtype(about["data_type"]).newbyteorder("<")
        self.order = tuple(codecs.get("transpose", {}).get("order", range(len(self.shape))))
        """Of the axes in a file."""
        blosc = codecs["blosc"]
        self._blosc = numcodecs.blosc.Blosc(blosc["cname"], blosc["clevel"], _SHUFFLES[blosc["shuffle"]])
        self._about = about

    def refuse_fewer_rows(self, committed: int) -> None:
        """Raise :class:`StoreError` if rows are missing."""
        if self.rows < committed:
            raise StoreError(f"the array {self.folder} has {self.rows} rows; {committed} were committed")

    def set_rows(self, rows: int) -> None:
        """Let the array have so many rows from now on, whatever chunks there are."""
        files.write_json(self.folder / "zarr.json", {**self._about, "shape": [rows, *self.row_shape]}, "metadata")
        self.rows = rows

    def paths(self, chunk: int) -> Iterator[tuple[Path, tuple[slice, ...]]]:
        """The files of all rows of a chunk, and which entries of a row each holds: long rows are cut."""
        widths = self.shape[1:]
        for places in product(*(range(-(-n // width)) for n, width in zip(self.row_shape, widths, strict=True))):
            entries = tuple(slice(at * width, (at + 1) * width) for at, width in zip(places, widths, strict=True))
            yield self.folder.joinpath("c", str(chunk), *map(str, places)), entries

    def write(self, chunk: int, rows: Array) -> None:
        """Write a chunk, all of whose rows are given."""
        for path, entries in self.paths(chunk):
            block = rows[(slice(None), *entries)]
            if block.shape != self.shape:  # at the end of a row that is cut
                whole = np.zeros(self.shape, self.dtype)
                whole[tuple(map(slice, block.shape))] = block
                block = whole
            content = self._blosc.encode(np.ascontiguousarray(block.transpose(self.order), self.dtype))
            files.make_folder(path.parent)
            files.write(path, content + _checksum(content), self.folder.name)

    def read(self, chunk: int) -> Array:
        """All rows of a chunk; those behind the array's last one are what they may be. ValueError if it is damaged."""
        if self.shape[1:] == self.row_shape:  # no row is cut
            return self._decoded(next(self.paths(chunk))[0])
        rows = np.empty((self.shape[0], *self.row_shape), self.dtype)
        for path, entries in self.paths(chunk):
            part = rows[(slice(None), *entries)]
            part[...] = self._decoded(path)[tuple(map(slice, part.shape))]
        return rows

    def _decoded(self, path: Path) -> Array:
        try:
            content = path.read_bytes()
        except FileNotFoundError as error:
            raise ValueError("it is not there") from error
        except OSError as error:
            raise ValueError(f"it cannot be read: {error.strerror}") from error
        compressed = content[:-_CHECKSUM]
        if len(compressed) < _HEADER or content[-_CHECKSUM:] != _checksum(compressed):
            raise ValueError("its checksum is not that of its content")
        block = np.empty([self.shape[axis] for axis in self.order], self.dtype)
        said = [int.from_bytes(compressed[at : at + 4], "little") for at in (4, 12)]
        if said != [block.nbytes, len(compressed)]:  # before Blosc makes room for so much
            raise ValueError(f"it says that it holds {said[0]} bytes in {said[1]}, not {block.nbytes}")
        try:
            self._blosc.decode(compressed, block)
        except Exception as error:  # whatever bytes that nobody has compressed make of Blosc
            raise ValueError(f"it cannot be decompressed: {error}") from error
        return block.transpose(np.argsort(self.order))

    def remove_from(self, chunk: int) -> None:
        """Remove the files of a chunk and of all behind it: what a writer that was killed may have left."""
        home = self.folder / "c"
        for path in home.iterdir() if home.is_dir() else ():
            if path.name.isdecimal() and int(path.name) >= chunk:
                if path.is_dir() and not path.is_symlink():
                    shutil.rmtree(path)
                else:
                    path.unlink()


def _checksum(content: bytes) -> bytes:
    return int(google_crc32c.value(content)).to_bytes(_CHECKSUM, "little")
