"""Files that are never half there: written beside, synchronised, and renamed into place."""

import hashlib
import json
import os
from pathlib import Path
from typing import Any

from stalegrad.errors import StoreError
from stalegrad.store.failpoints import reach

PARTIAL = ".partial"
"""How the names of unfinished files end. Those that a killed process has left behind are removed by the next one."""


def write(path: Path, content: bytes | bytearray | memoryview, place: str) -> None:
    """Replace a file in one step that survives a loss of power: the old content or the new one, nothing in between.

    ``place`` names the :mod:`failpoints <stalegrad.store.failpoints>` on the way.
    """
    temporary = path.with_name(path.name + PARTIAL)
    view = memoryview(content).cast("B")
    half = len(view) // 2
    reach(f"{place}.begin")
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
    reach(f"{place}.renamed")
    sync_folder(path.parent)
    reach(f"{place}.done")


def sync_folder(folder: Path) -> None:
    """Make the names in a folder survive a loss of power."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def write_json(path: Path, value: Any, place: str) -> None:
    """Replace a JSON file."""
    write(path, json.dumps(value, indent=1, ensure_ascii=False).encode() + b"\n", place)


def read_json(path: Path) -> Any:
    """The content of a JSON file; a damaged one is a :class:`StoreError`."""
    try:
        return json.loads(path.read_bytes())
    except FileNotFoundError as error:
        raise StoreError(f"{path} is not there, so the store is damaged") from error
    except (UnicodeDecodeError, json.JSONDecodeError) as error:
        raise StoreError(f"{path} is damaged: {error}") from error


def sha256(content: bytes) -> str:
    """The checksum that a manifest keeps of a file's content."""
    return hashlib.sha256(content).hexdigest()


def remove_partial(folder: Path) -> None:
    """Remove what a killed process has left unfinished below a folder."""
    for leftover in folder.rglob(f"*{PARTIAL}"):
        leftover.unlink(missing_ok=True)
