"""The folder of a run: what is in it, how it comes to be, and how it is opened again.

::

    runs/x/
      run.json             what was asked for: written when the run starts, and when its step size is changed
      status.json          how the run is doing: its sessions, how the last one ended
      lock                 held by the process that writes
      initial.npy          where the chains started, if the user or a warm-up said so
      coordinates.npz      in which the chains run, if a warm-up has found some; draws are in those of θ in any case
      chain-0/
        checkpoint.json    the last commit: how much of the arrays counts, and the file below
        state-7.npz        the sampler's state at that commit
        events.json        faults of workers
        draws/             Zarr arrays that grow: (draw, parameter),
        stats/             (draw, figure): the norm of the gradient and the kinetic temperature,
        trace/             (gradient, column): see trace_columns.py

Everything can be read while the run goes on: a reader sees the last commit.
"""

import io
import os
import shutil
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np

from stalegrad._internal import files
from stalegrad._internal.errors import StoreError
from stalegrad._internal.types import Array
from stalegrad.engines import Event
from stalegrad.potentials.coordinates import Coordinates
from stalegrad.protocol.run_record import RunRecord
from stalegrad.runs.store.checkpoint import Committed, commit, committed
from stalegrad.runs.store.described import check_events, check_run, check_status
from stalegrad.runs.store.lock import Lock, is_abandoned, is_locked

FORMAT = "stalegrad-run-5"
WITH_COORDINATES = "stalegrad-run-6"  # earlier versions would take the state's z for θ, and must not go on with it
_RUN, _STATUS, _INITIAL, _COORDINATES = "run.json", "status.json", "initial.npy", "coordinates.npz"

STATS = ("gradient_norm", "kinetic_temperature")


def chain_folder(folder: Path, chain: int) -> Path:
    """Where a chain is kept."""
    return folder / f"chain-{chain}"


def now() -> str:
    """The time, for people and for sorting."""
    return datetime.now(UTC).isoformat(timespec="milliseconds")


@dataclass(frozen=True)
class Info:
    """What a store says about its run, without reading any draws.

    Args:
        path: the folder.
        record: what was asked for.
        job: the table of the job file that described the run, or None.
        created: when.
        version: of stalegrad that made it.
        state: ``"running"``, ``"finished"``, ``"interrupted"``, ``"diverged"``, ``"failed"`` or ``"killed"`` (no
            process has it, and none has ended it).
        failure: why it failed, or None.
        sessions: one entry for the start and one for each time the run was resumed.
        chains: the last commit of each chain.
    """

    path: Path
    record: RunRecord
    job: dict[str, Any] | None
    created: str
    version: str
    state: str
    failure: str | None
    sessions: list[dict[str, Any]]
    chains: tuple[Committed, ...]

    @property
    def steps(self) -> int:
        """L, the updates that each chain is to have: a resumed run may have been given more than the first."""
        steps: int = self.sessions[-1]["steps"] if self.sessions else self.record.settings.steps
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
        total = 0
        for path in self.path.rglob("*"):
            with suppress(FileNotFoundError):  # replaced meanwhile by the run, which goes on
                total += path.lstat().st_size if path.is_file() else 0
        return total


def inspect(path: str | os.PathLike[str]) -> Info:
    """Look at a store; :class:`StoreError` if it is none, is damaged, or is of another version.

    >>> import tempfile, stalegrad as sg
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     settings = {"steps": 50, "engine": "inline", "store": f"{folder}/run", "progress": False}
    ...     _ = sg.sample(sg.testing.small_model(), sg.SGLD(step_size=1e-3), **settings)
    ...     sg.store.inspect(f"{folder}/run").state
    'finished'
    """
    folder = Path(path)
    if not (folder / _RUN).exists():
        raise StoreError(f"{folder} holds no run: there is no {_RUN} in it")
    about = files.read_json(folder / _RUN)
    found = about.get("format") if isinstance(about, dict) else None
    if found not in (FORMAT, WITH_COORDINATES):
        raise StoreError(
            f"{folder} has the format {found!r}; this version of stalegrad reads {FORMAT!r}. Use the version that "
            f"wrote it ({about.get('version', 'unknown') if isinstance(about, dict) else 'unknown'})"
        )
    record = check_run(folder / _RUN, about)
    status = files.read_json(folder / _STATUS)
    check_status(folder / _STATUS, status, record.settings.servers)
    state = status["state"]
    if state == "running" and not is_locked(folder):
        state = "killed"
    chains = tuple(committed(chain_folder(folder, s)) for s in range(record.settings.servers))
    return Info(
        folder, record, about.get("job"), about["created"], about["version"], state, status.get("failure"),
        status["sessions"], chains,
    )  # fmt: skip


def create(
    path: str | os.PathLike[str],
    record: RunRecord,
    version: str,
    initial: Array | None,
    states: list[dict[str, Array]],
    job: Mapping[str, Any] | None = None,
    coordinates: Coordinates | None = None,
    *,
    overwrite: bool = False,
) -> tuple[Path, Lock]:
    """Make the folder of a new run, complete and locked, in one step: half of it is never visible.

    Args:
        path: the folder; it must not exist yet, or be empty, unless a run is to be written over.
        record: what was asked for.
        version: of stalegrad.
        initial: where the chains start, if the user said so.
        states: the state of every chain before its first update: a run that is killed early starts from there.
        job: the table of the job file that described the run, or None.
        coordinates: in which the chains run, or None.
        overwrite: delete the run that is there, if there is one.
    """
    from stalegrad.runs.store import arrays, stored_trace

    folder = Path(path)
    if not (overwrite and is_run(folder)):
        refuse_unless_free(folder)
    lock = temporary = None
    try:
        files.make_folder(folder.parent)
        _remove_unfinished(folder.parent)
        temporary = _unfinished(folder)
        lock = Lock(temporary)
        size, dtype = record.model.size, record.model.dtype
        for s, state in enumerate(states):
            home = chain_folder(temporary, s)
            arrays.create(home / "draws", (size,), dtype)
            arrays.create(home / "stats", (len(STATS),), "float64", {"columns": STATS})
            stored_trace.create_trace(home / "trace")
            files.write_json(home / "events.json", [], "events")
            commit(home, 0, 0, 0, 0, state)
        if initial is not None:
            content = io.BytesIO()
            np.save(content, initial, allow_pickle=False)
            files.write(temporary / _INITIAL, content.getbuffer(), "initial")
        if coordinates is not None:
            content = io.BytesIO()
            np.savez(content, **coordinates.arrays())  # type: ignore[arg-type]
            files.write(temporary / _COORDINATES, content.getbuffer(), "coordinates")
        write_status(temporary, "running", [], None)
        about = {
            "format": FORMAT if coordinates is None else WITH_COORDINATES, "version": version, "created": now(),
            "record": record.table(), "job": None if job is None else dict(job),
        }  # fmt: skip
        files.write_json(temporary / _RUN, about, "run")
        if overwrite and is_run(folder):
            remove(folder)
        os.rename(temporary, folder)  # onto nothing, or onto an empty folder
        files.sync_folder(folder.parent)
    except BaseException as error:
        if lock is not None:
            lock.release()
        if temporary is not None:
            shutil.rmtree(temporary, ignore_errors=True)
        if isinstance(error, OSError):
            raise StoreError(f"{folder} cannot be made: {error}. Give a folder that can be written to") from error
        raise
    return folder, lock


def _unfinished(folder: Path) -> Path:
    """A new folder beside the one that is to be made, with the rights that the user's umask leaves to new folders."""
    for number in count():
        place = folder.with_name(f".{folder.name}-{os.getpid()}-{number}{files.PARTIAL}")
        try:
            place.mkdir()
            return place
        except FileExistsError:  # of another thread, or of a process that has died and had the same number
            continue
    raise AssertionError("there is always another number")


def _remove_unfinished(parent: Path) -> None:
    """Remove folders of runs whose process has died before they were complete: nobody holds their lock."""
    for place in parent.glob(f".*-*{files.PARTIAL}"):
        if place.is_dir() and not place.is_symlink() and is_abandoned(place):
            shutil.rmtree(place, ignore_errors=True)


def refuse_unless_free(folder: Path) -> None:
    """A new run does not write over an old one, nor among files of something else."""
    if (folder / _RUN).exists():
        raise StoreError(
            f"{folder} holds a run already. Go on with it (sg.resume, stalegrad resume), write over it "
            "(overwrite=True, --overwrite), or give another folder"
        )
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise StoreError(f"{folder} is there already and is not a run. Give a folder that does not exist yet")


def is_run(folder: Path) -> bool:
    """Whether a folder holds a run, whole or damaged: it has the file that every run begins with."""
    return folder.is_dir() and not folder.is_symlink() and (folder / _RUN).is_file()


def remove(folder: Path) -> None:
    """Delete a run; :class:`StoreError` if it is none, or if a process is writing it.

    It goes out of sight at once, by another name, so that no half of it is ever taken for a run.
    """
    if not is_run(folder):
        why = "is a link" if folder.is_symlink() else "holds no run" if folder.exists() else "is not there"
        raise StoreError(f"{folder} {why}. Nothing was deleted")
    lock = Lock(folder)
    try:
        away = folder.with_name(f".{folder.name}-{os.getpid()}-gone{files.PARTIAL}")
        shutil.rmtree(away, ignore_errors=True)
        os.rename(folder, away)
        files.sync_folder(folder.parent)
        shutil.rmtree(away)
    finally:
        lock.release()


def write_record(folder: Path, record: RunRecord) -> None:
    """Replace what was asked for: the run goes on with something else."""
    about = files.read_json(folder / _RUN)
    files.write_json(folder / _RUN, {**about, "record": record.table()}, "run")


def write_status(folder: Path, state: str, sessions: list[dict[str, Any]], failure: str | None) -> None:
    """Note how the run is doing."""
    files.write_json(
        folder / _STATUS, {"state": state, "failure": failure, "changed": now(), "sessions": sessions}, "status"
    )


def read_initial(folder: Path) -> Array | None:
    """Where the chains started, if the user said so."""
    path = folder / _INITIAL
    if not path.exists():
        return None
    try:
        initial: Array = np.load(path, allow_pickle=False)
    except Exception as error:  # whatever a damaged file makes of NumPy
        raise StoreError(f"{path} is damaged: {error}. {files.RESTORE}") from error
    if not isinstance(initial, np.ndarray) or initial.dtype.kind != "f":
        raise StoreError(f"{path} is damaged: it holds no array of numbers. {files.RESTORE}")
    return initial


def read_coordinates(folder: Path, record: RunRecord) -> Coordinates | None:
    """In which the chains run, if a warm-up has found some."""
    path = folder / _COORDINATES
    if record.warmup is None or not record.warmup.get("coordinates"):
        return None
    try:
        with np.load(path, allow_pickle=False) as opened:
            coordinates = Coordinates.from_arrays(dict(opened))
    except Exception as error:  # whatever a damaged or missing file makes of NumPy
        raise StoreError(f"{path} is damaged: {error}. {files.RESTORE}") from error
    if coordinates.size != record.model.size or coordinates.centre.dtype.name != record.model.dtype:
        raise StoreError(f"{path} does not go with {folder / _RUN}: it is of another model. {files.RESTORE}")
    return coordinates


def read_events(folder: Path, chain: int) -> list[Event]:
    """The faults of a chain's workers."""
    path = chain_folder(folder, chain) / "events.json"
    return check_events(path, files.read_json(path))
