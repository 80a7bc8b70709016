"""Files that are never half there: written beside, synchronised, and renamed into place."""

import hashlib
import json
import os
from pathlib import Path
from typing import Any

from stalegrad._internal.errors import StoreError
from stalegrad._internal.failpoints import reach

PARTIAL = ".partial"
"""How the names of unfinished files end. Those that a killed process has left behind are removed by the next one."""

RESTORE = "Take the file from a copy of the folder if there is one"
"""What can be done about a small file of a store that is lost or damaged."""


def write(path: Path, content: bytes | bytearray | memoryview, place: str) -> None:
    """Replace a file in one step that survives a loss of power: the old content or the new one, nothing in between.

    ``place`` names the :mod:`failpoints <stalegrad._internal.failpoints>` on the way.
    """
    temporary = path.with_name(f"{path.name}.{os.getpid()}{PARTIAL}")
    view = memoryview(content).cast("B")
    half = len(view) // 2
    reach(f"{place}.begin")
    try:
        with temporary.open("wb") as file:
            file.write(view[:half])
            file.flush()
            reach(f"{place}.half")
            file.write(view[half:])
            file.flush()
            reach(f"{place}.written")
            os.fsync(file.fileno())
        reach(f"{place}.synced")
        os.replace(temporary, path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    reach(f"{place}.renamed")
    sync_folder(path.parent)
    reach(f"{place}.done")


def write_output(path: Path, content: bytes) -> None:
    """Replace a file that a user asked for, such as a picture. A symlink of that name is replaced, never followed.

    A run's folder may have come from somebody else, with links in it that point to files of this user.
    """
    temporary = path.with_name(f".{path.name}.{os.getpid()}{PARTIAL}")
    temporary.unlink(missing_ok=True)
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666)
    try:
        with open(descriptor, "wb") as file:
            file.write(content)
        os.replace(temporary, path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def make_folder(folder: Path) -> None:
    """Make a folder, and those above it that are missing, whose names survive a loss of power."""
    if not folder.is_dir():
        make_folder(folder.parent)
        folder.mkdir(exist_ok=True)
        sync_folder(folder.parent)


def sync_folder(folder: Path) -> None:
    """Make the names in a folder survive a loss of power."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def write_json(path: Path, value: Any, place: str) -> None:
    """Replace a JSON file."""
    text = json.dumps(value, indent=1, ensure_ascii=False)
    write(path, text.encode(errors="backslashreplace") + b"\n", place)  # half a character, in names that are no UTF-8


def read_json(path: Path) -> Any:
    """The content of a JSON file; a damaged one is a :class:`StoreError`."""
    try:
        return json.loads(path.read_bytes())
    except FileNotFoundError as error:
        raise StoreError(f"{path} is not there, so the store is damaged. {RESTORE}") from error
    except OSError as error:
        raise StoreError(f"{path} cannot be read: {error.strerror}. Look at its owner and rights") from error
    except (ValueError, RecursionError) as error:  # no JSON, no UTF-8, numbers without end, brackets without end
        raise StoreError(f"{path} is damaged: {error}. {RESTORE}") from error


def sha256(content: bytes) -> str:
    """The checksum that a manifest keeps of a file's content."""
    return hashlib.sha256(content).hexdigest()


def remove_partial(folder: Path) -> None:
    """Remove what a killed process has left unfinished below a folder."""
    for leftover in folder.rglob(f"*{PARTIAL}"):
        leftover.unlink(missing_ok=True)
