"""A chain on disk: what it carries from one update to the next, and how much of its arrays counts.

The state goes to a file of its own under a new name. The manifest ``checkpoint.json`` names that file with its
checksum, and how many rows of the trace and draws belong to it; replacing the manifest is the commit. Whatever was
written since, by a process that was killed before its next commit, is not looked at and cut off by the next writer.
"""

import io
import os
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np

from stalegrad._internal import files
from stalegrad._internal.errors import ArgumentError, StoreError
from stalegrad._internal.failpoints import reach
from stalegrad._internal.tables import check_table
from stalegrad._internal.types import Array
from stalegrad._internal.validation import whole_number

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
    arrays: dict[str, Any] = {name: np.asarray(array) for name, array in state.items()}
    if objects := [name for name, array in arrays.items() if array.dtype.hasobject]:
        raise TypeError(f"the state's {', '.join(objects)} are Python objects: only plain arrays can be stored")
    np.savez(buffer, **arrays)  # without allow_pickle=, which NumPy before 2.2 takes for one more array
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
    path = folder / _MANIFEST
    manifest = files.read_json(path)
    try:
        check_table(manifest, "checkpoint", f"It has: {', '.join(f.name for f in fields(Committed))}.")
        counts = {name: whole_number(name, manifest.get(name)) for name in ("number", "updates", "rows", "draws")}
        state, checksum = manifest.get("state"), manifest.get("checksum")
        if state != f"state-{counts['number']}.npz":  # and so no path to somewhere else
            raise ArgumentError("state", state, "is not the checkpoint's file", "It is state-NUMBER.npz.")
        if not isinstance(checksum, str):
            raise ArgumentError("checksum", checksum, "is not text", "It is a SHA-256 in hexadecimal digits.")
        if not counts["draws"] <= counts["updates"] <= counts["rows"]:
            problem = f"is not between {counts['draws']} draws and {counts['rows']} rows of the trace"
            raise ArgumentError("updates", counts["updates"], problem, "Every draw and every update has its row.")
    except ArgumentError as error:
        raise StoreError(f"{path} is damaged: {error} {files.RESTORE}") from error
    return Committed(**counts, state=state, checksum=checksum)


LAST = "draw:last"
"""The name under which a checkpoint has the last draw, where no others are kept."""


def chain_state(state: dict[str, Array]) -> dict[str, Array]:
    """The kernel's arrays alone, without what else a checkpoint holds, which has a colon in its name."""
    return {name: array for name, array in state.items() if ":" not in name}


def last_draw(folder: Path, of: Committed) -> dict[str, Array]:
    """The last draw that a checkpoint holds, under its name; nothing if it holds none."""
    return {name: array for name, array in read_state(folder, of).items() if name == LAST}


def read_state(folder: Path, of: Committed) -> dict[str, Array]:
    """The kernel's arrays at a commit, after their checksum has been compared."""
    try:
        content = (folder / of.state).read_bytes()
    except OSError as error:
        problem = f"the state of the last checkpoint, cannot be read: {error.strerror}. {files.RESTORE}"
        raise StoreError(f"{folder / of.state}, {problem}") from error
    if files.sha256(content) != of.checksum:
        raise StoreError(
            f"{folder / of.state} is damaged: its checksum is not that of {_MANIFEST}. The draws and the trace are not "
            "touched by this: sg.load reads them, and sg.replay of the trace gives the state again"
        )
    try:
        with np.load(io.BytesIO(content), allow_pickle=False) as arrays:
            return dict(arrays)
    except Exception as error:  # whatever a foreign file makes of zipfile and NumPy
        raise StoreError(f"{folder / of.state} is damaged: {error}. {files.RESTORE}") from error
