"""A chain on disk: what it carries from one update to the next, and how much of its arrays counts.

The state goes to a file of its own under a new name. The manifest ``checkpoint.json`` names that file with its
checksum, and how many rows of the trace and draws belong to it; replacing the manifest is the commit. Whatever was
written since, by a process that was killed before its next commit, is not looked at and cut off by the next writer.
"""

import io
import os
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

from stalegrad.errors import StoreError
from stalegrad.store import files
from stalegrad.store.failpoints import reach
from stalegrad.types import Array

_MANIFEST = "checkpoint.json"


@dataclass(frozen=True)
class Committed:
    """What of a chain is safe on disk.

    Args:
        number: of the checkpoint, from 0.
        updates: the chain's version.
        rows: of its trace.
        draws: kept.
        state: the file with the kernel's arrays.
        checksum: SHA-256 of that file.
    """

    number: int
    updates: int
    rows: int
    draws: int
    state: str
    checksum: str


def commit(folder: Path, number: int, updates: int, rows: int, draws: int, state: dict[str, Array]) -> None:
    """Make a chain's state, with the arrays as they are on disk now, the one that counts."""
    buffer = io.BytesIO()
    np.savez(buffer, allow_pickle=False, **state)
    content = buffer.getvalue()
    name = f"state-{number}.npz"
    files.write(folder / name, content, "state")
    files.write_json(
        folder / _MANIFEST, asdict(Committed(number, updates, rows, draws, name, files.sha256(content))), "checkpoint"
    )
    for old in folder.glob("state-*.npz"):
        if old.name != name:
            reach("cleaning")
            os.unlink(old)


def committed(folder: Path) -> Committed:
    """What the last commit of a chain says."""
    try:
        return Committed(**files.read_json(folder / _MANIFEST))
    except TypeError as error:
        raise StoreError(f"{folder / _MANIFEST} is damaged: {error}") from error


def read_state(folder: Path, of: Committed) -> dict[str, Array]:
    """The kernel's arrays at a commit, after their checksum has been compared."""
    try:
        content = (folder / of.state).read_bytes()
    except FileNotFoundError as error:
        raise StoreError(f"{folder / of.state}, the state of the last checkpoint, is not there") from error
    if files.sha256(content) != of.checksum:
        raise StoreError(
            f"{folder / of.state} is damaged: its checksum is not that of {_MANIFEST}. The draws and the trace are not "
            "touched by this: sg.load reads them, and sg.replay of the trace gives the state again"
        )
    with np.load(io.BytesIO(content), allow_pickle=False) as arrays:
        return dict(arrays)
