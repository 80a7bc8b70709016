"""The folder of a run: what is in it, how it comes to be, and how it is opened again.

::

    runs/x/
      run.json             what was asked for: written once, when the run starts
      status.json          how the run is doing: its sessions, how the last one ended
      lock                 held by the process that writes
      initial.npy          where the chains started, if the user said so
      chain-0/
        checkpoint.json    the last commit: how much of the arrays counts, and the file below
        state-7.npz        the sampler's state at that commit
        events.json        faults of workers
        draws/             Zarr arrays that grow: (draw, parameter),
        stats/             (draw, figure): the norm of the gradient and the kinetic temperature,
        trace/             (gradient, column): worker, count, staleness, accepted, step_size, time

Everything can be read while the run goes on: a reader sees the last commit.
"""

import os
import shutil
import tempfile
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np

from stalegrad.errors import StoreError
from stalegrad.store import files
from stalegrad.store.checkpoint import Committed, commit, committed
from stalegrad.store.lock import Lock, is_locked
from stalegrad.trace import ChainTrace
from stalegrad.types import Array

FORMAT = "stalegrad-run-1"
_RUN, _STATUS, _INITIAL = "run.json", "status.json", "initial.npy"

TRACE_TYPES = {
    "worker": "int32",
    "count": "int64",
    "staleness": "int32",
    "accepted": "bool",
    "step_size": "float64",
    "time": "float64",
}
"""The columns of a trace on disk, where all of them are float64: that holds every count exactly."""
STATS = ("gradient_norm", "kinetic_temperature")


def chain_folder(folder: Path, chain: int) -> Path:
    """Where a chain is kept."""
    return folder / f"chain-{chain}"


def now() -> str:
    """The time, for people and for sorting."""
    return datetime.now(UTC).isoformat(timespec="seconds")


@dataclass(frozen=True)
class Info:
    """What a store says about its run, without reading any draws.

    Args:
        path: the folder.
        configuration: what was asked for.
        created: when.
        version: of stalegrad that made it.
        state: ``"running"``, ``"finished"``, ``"interrupted"``, ``"failed"`` or ``"killed"`` (no process has it, and
            none has ended it).
        failure: why it failed, or None.
        sessions: one entry for the start and one for each time the run was resumed.
        chains: the last commit of each chain.
    """

    path: Path
    configuration: dict[str, Any]
    created: str
    version: str
    state: str
    failure: str | None
    sessions: list[dict[str, Any]]
    chains: tuple[Committed, ...]

    @property
    def steps(self) -> int:
        """L, the updates that each chain is to have: a resumed run may have been given more than the first."""
        steps: int = self.sessions[-1]["steps"] if self.sessions else self.configuration["steps"]
        return steps

    @property
    def updates(self) -> list[int]:
        """How far each chain is."""
        return [chain.updates for chain in self.chains]

    @property
    def draws(self) -> list[int]:
        """How many draws of each chain are kept."""
        return [chain.draws for chain in self.chains]

    def bytes_on_disk(self) -> int:
        """The size of all files."""
        return sum(path.stat().st_size for path in self.path.rglob("*") if path.is_file())


def inspect(path: str | os.PathLike[str]) -> Info:
    """Look at a store; :class:`StoreError` if it is none, is damaged, or is of another version."""
    folder = Path(path)
    if not (folder / _RUN).exists():
        raise StoreError(f"{folder} holds no run: there is no {_RUN} in it")
    about = files.read_json(folder / _RUN)
    found = about.get("format") if isinstance(about, dict) else None
    if found != FORMAT:
        raise StoreError(
            f"{folder} has the format {found!r}; this version of stalegrad reads {FORMAT!r}. Use the version that "
            f"wrote it ({about.get('version', 'unknown') if isinstance(about, dict) else 'unknown'})"
        )
    status = files.read_json(folder / _STATUS)
    state = status["state"]
    if state == "running" and not is_locked(folder):
        state = "killed"
    configuration = about["configuration"]
    chains = tuple(committed(chain_folder(folder, s)) for s in range(configuration["servers"]))
    return Info(
        folder, configuration, about["created"], about["version"], state, status["failure"], status["sessions"], chains
    )


def create(
    path: str | os.PathLike[str],
    configuration: dict[str, Any],
    version: str,
    initial: Array | None,
    states: list[dict[str, Array]],
) -> tuple[Path, Lock]:
    """Make the folder of a new run, complete and locked, in one step: nobody ever sees half of it.

    Args:
        path: the folder; it must not exist yet, or be empty.
        configuration: what was asked for.
        version: of stalegrad.
        initial: where the chains start, if the user said so.
        states: the state of every chain before its first update: a run that is killed early starts from there.
    """
    from stalegrad.store import arrays

    folder = Path(path)
    refuse_unless_free(folder)
    folder.parent.mkdir(parents=True, exist_ok=True)
    temporary = Path(tempfile.mkdtemp(prefix=f".{folder.name}-", suffix=files.PARTIAL, dir=folder.parent))
    lock = None
    try:
        os.chmod(temporary, 0o755)  # not mkdtemp's own, which keeps others from reading the results
        lock = Lock(temporary)
        size, dtype = configuration["model"]["size"], configuration["model"]["dtype"]
        for s, state in enumerate(states):
            home = chain_folder(temporary, s)
            arrays.create(home / "draws", (size,), dtype)
            arrays.create(home / "stats", (len(STATS),), "float64", {"columns": STATS})
            arrays.create(home / "trace", (len(TRACE_TYPES),), "float64", {"columns": list(TRACE_TYPES)})
            files.write_json(home / "events.json", [], "events")
            commit(home, 0, 0, 0, 0, state)
        if initial is not None:
            np.save(temporary / _INITIAL, initial, allow_pickle=False)
        write_status(temporary, "running", [], None)
        about = {"format": FORMAT, "version": version, "created": now(), "configuration": configuration}
        files.write_json(temporary / _RUN, about, "run")
        os.rename(temporary, folder)  # onto nothing, or onto an empty folder
        files.sync_folder(folder.parent)
    except BaseException as error:
        if lock is not None:
            lock.release()
        shutil.rmtree(temporary, ignore_errors=True)
        if isinstance(error, OSError):
            raise StoreError(f"{folder} cannot be made: {error}. Give a folder that can be written to") from error
        raise
    return folder, lock


def refuse_unless_free(folder: Path) -> None:
    """A new run does not write over an old one, nor among files of something else."""
    if (folder / _RUN).exists():
        raise StoreError(
            f"{folder} holds a run already. Go on with it (sg.resume, stalegrad resume), or give another folder"
        )
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise StoreError(f"{folder} is there already and is not a run. Give a folder that does not exist yet")


def write_status(folder: Path, state: str, sessions: list[dict[str, Any]], failure: str | None) -> None:
    """Note how the run is doing."""
    files.write_json(
        folder / _STATUS, {"state": state, "failure": failure, "changed": now(), "sessions": sessions}, "status"
    )


def read_initial(folder: Path) -> Array | None:
    """Where the chains started, if the user said so."""
    path = folder / _INITIAL
    return np.load(path, allow_pickle=False) if path.exists() else None


def read_trace(folder: Path, chain: int, rows: int) -> ChainTrace:
    """A chain's trace, up to a commit."""
    from stalegrad.store.arrays import StoredArray

    table = StoredArray(chain_folder(folder, chain) / "trace", rows)[:]
    columns: dict[str, Any] = {name: table[:, k].astype(kind) for k, (name, kind) in enumerate(TRACE_TYPES.items())}
    return ChainTrace(**columns)


def read_events(folder: Path, chain: int) -> list[dict[str, Any]]:
    """The faults of a chain's workers."""
    events: list[dict[str, Any]] = files.read_json(chain_folder(folder, chain) / "events.json")
    return events
