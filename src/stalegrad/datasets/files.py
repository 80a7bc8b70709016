"""Where the files of a data set are found: in a folder of the user's, in the cache, or on the web.

A file is known by the sha256 of its bytes, decompressed: it is the same file as it is, as .gz and as .xz. What is read
is verified every time, whoever put it there. Processes that need the same files for the first time at the same time, as
the ranks of an MPI job do, download them once: one does, the others wait for it.
"""

import fcntl
import gzip
import hashlib
import lzma
import os
import shutil
import tarfile
import tempfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from stalegrad._internal.errors import DatasetError

VARIABLE = "STALEGRAD_DATA"
"""The environment variable that names a folder with the user's own copies."""

_DECOMPRESS: dict[str, Callable[[bytes], bytes]] = {"": bytes, ".gz": gzip.decompress, ".xz": lzma.decompress}


@dataclass(frozen=True)
class Download:
    """What the web offers: a file, its .gz, or a .tar.gz with several files.

    Args:
        name: of what is downloaded.
        sha256: of that, as it comes.
        urls: where it is offered; tried in this order.
    """

    name: str
    sha256: str
    urls: tuple[str, ...]


@dataclass(frozen=True)
class File:
    """One file of a data set.

    Args:
        name: without a suffix for compression.
        sha256: of its bytes, decompressed.
        download: what to download to get it.
    """

    name: str
    sha256: str
    download: Download


def read(dataset: str, files: tuple[File, ...]) -> dict[str, bytes]:
    """The bytes of every file, by name: from the user's folder, else from the cache, else downloaded into the cache.

    Raises:
        DatasetError: if a file is damaged, or neither at hand nor to be had; it says what to put where.
    """
    return {file.name: _read(dataset, file, files) for file in files}


def cache() -> Path:
    """The folder of downloads, in the user's cache directory."""
    import pooch

    return Path(pooch.os_cache("stalegrad"))


def _read(dataset: str, file: File, files: tuple[File, ...]) -> bytes:
    content = _find(dataset, file)
    if content is None:
        with _one_at_a_time(dataset):
            content = _find(dataset, file)  # another process may have been quicker
            if content is None:
                _fetch(dataset, file.download, files)
                content = _find(dataset, file)
    if content is None:
        raise DatasetError(f"{file.download.name} of {dataset} does not hold {file.name}. {_remedy(dataset, files)}")
    return content


def _find(dataset: str, file: File) -> bytes | None:
    """The file's verified bytes from the first place that has it, or None."""
    for folder in _folders(dataset):
        for suffix, decompress in _DECOMPRESS.items():
            path = folder / f"{file.name}{suffix}"
            if path.is_file():
                try:
                    content = decompress(path.read_bytes())
                except (EOFError, OSError, lzma.LZMAError, zlib.error) as error:
                    raise DatasetError(f"{path} cannot be read ({error}). Delete it, or replace it.") from error
                _verify(str(path), content, file.sha256)
                return content
    return None


def _folders(dataset: str) -> list[Path]:
    own = os.environ.get(VARIABLE)
    return [Path(folder) / dataset for folder in (own, cache()) if folder]


def _verify(what: str, content: bytes, expected: str) -> None:
    found = hashlib.sha256(content).hexdigest()
    if found != expected:
        raise DatasetError(
            f"{what} is not the file that it should be: expected sha256 {expected}, found {found} (of its "
            f"{len(content):,} bytes, decompressed). Delete it to have it downloaded anew, or replace it."
        )


@contextmanager
def _one_at_a_time(dataset: str) -> Iterator[None]:
    """Let one process at a time download a data set. Where files cannot be locked all do, which is slow but no harm."""
    with suppress(OSError):  # a folder that cannot be written to is reported by whoever writes
        cache().mkdir(parents=True, exist_ok=True)
    try:
        descriptor = os.open(cache() / f".{dataset}.lock", os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600)
    except OSError:
        yield
        return
    try:
        with suppress(OSError):
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            for left in cache().glob(f".{dataset}-*"):  # by a process that was killed
                shutil.rmtree(left, ignore_errors=True)
        yield
    finally:
        os.close(descriptor)


def _fetch(dataset: str, download: Download, files: tuple[File, ...]) -> None:
    """Download into the cache from the first address that delivers the right bytes.

    Everything happens in a folder of this process's own, from which finished files are renamed into place.
    """
    folder, problems = cache() / dataset, []
    try:
        folder.mkdir(parents=True, exist_ok=True)
        own = Path(tempfile.mkdtemp(prefix=f".{dataset}-", dir=cache()))
    except OSError as error:
        raise DatasetError(f"{folder} cannot be written to ({error}). {_remedy(dataset, files)}") from error
    try:
        for url in download.urls:
            try:
                got = _retrieve(url, download, own)
                for path in _unpacked(got, files) if got.name.endswith(".tar.gz") else [got]:
                    os.replace(path, folder / path.name)
                return
            except (OSError, ValueError) as error:  # no connection, no such page, no space; the wrong bytes
                problems.append(f"  {url}\n    {type(error).__name__}: {error}")
    finally:
        shutil.rmtree(own, ignore_errors=True)
    tried = "\n".join(problems)
    raise DatasetError(f"{dataset} is not at hand and could not be downloaded:\n{tried}\n{_remedy(dataset, files)}")


def _retrieve(url: str, download: Download, folder: Path) -> Path:
    """Download one file, verified, into a folder."""
    import pooch

    return Path(pooch.retrieve(url, f"sha256:{download.sha256}", fname=download.name, path=folder, progressbar=True))


def _unpacked(archive: Path, files: tuple[File, ...]) -> list[Path]:
    """The files of a data set that an archive holds, written next to it."""
    wanted, written = {file.name: file for file in files}, []
    with tarfile.open(archive) as members:
        for member in members:
            name = Path(member.name).name
            stream = members.extractfile(member) if name in wanted else None
            if stream is not None:
                content = stream.read()
                _verify(f"{name} in {archive}", content, wanted[name].sha256)
                written.append(archive.with_name(name))
                written[-1].write_bytes(content)
    return written


def _remedy(dataset: str, files: tuple[File, ...]) -> str:
    """What a user without a network is to do."""
    width = max(len(file.name) for file in files)
    lines = [f"  {file.name:{width}}  sha256 {file.sha256}" for file in files]
    downloads = dict.fromkeys(file.download for file in files)
    sources = [f"  {url}" for download in downloads for url in download.urls]
    own = os.environ.get(VARIABLE)
    place = f"{VARIABLE} is {own} now" if own else f"{VARIABLE} is not set now"
    return "\n".join(
        [
            f"To use {dataset} without a network, put these files, as they are or compressed as .gz or .xz,",
            *lines,
            f"into the folder {cache() / dataset}, or into the subfolder {dataset} of a folder that the environment",
            f"variable {VARIABLE} names ({place}). They are offered, some compressed or in one archive, at",
            *sources,
        ]
    )
