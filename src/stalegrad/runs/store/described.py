"""What the small files of a store may say, checked when they are read.

A store may be damaged, edited, or come from somebody else. Whatever is missing, of another kind or out of range is a
:class:`StoreError` that names the file, the entry in it, and what would be right: nobody stumbles over it later.
"""

from collections.abc import Mapping
from dataclasses import fields
from datetime import datetime
from pathlib import Path
from typing import Any

from stalegrad._internal.errors import ArgumentError, StoreError
from stalegrad._internal.files import RESTORE
from stalegrad._internal.tables import check_table
from stalegrad._internal.validation import one_of, real_number, whole_number
from stalegrad.engines import Event, Timing
from stalegrad.kernels.noise import MAX_UPDATES, MAX_WORKERS
from stalegrad.protocol.run_record import RunRecord

STATES = ("running", "finished", "interrupted", "failed", "diverged")
"""What a status file may say; that a run was killed is seen from its lock."""


def check_run(path: Path, about: Mapping[str, Any]) -> RunRecord:
    """What was asked for, from run.json, whose other entries are checked as well."""
    with _named(path):
        _text("version", about.get("version"))
        _moment("created", about.get("created"))
        if about.get("job") is not None:
            check_table(about["job"], "job", "Give the table of a job, or null.")
        return RunRecord.from_table(about.get("record"))  # type: ignore[arg-type]  # which it checks


def check_status(path: Path, status: Any, servers: int) -> None:
    """How the run is doing, from status.json."""
    with _named(path):
        check_table(status, "status", "It has: state, failure, changed, sessions.")
        one_of("state", status.get("state"), STATES)
        if status.get("failure") is not None:
            _text("failure", status["failure"])
        sessions = status.get("sessions")
        if not isinstance(sessions, list):
            raise ArgumentError("sessions", sessions, "is not a list", "Give a table for each session.")
        for number, session in enumerate(sessions):
            _check_session(session, f"sessions[{number}]", servers)


def check_events(path: Path, events: Any) -> list[Event]:
    """The faults of a chain's workers, from events.json."""
    with _named(path):
        if not isinstance(events, list):
            raise ArgumentError("events", events, "is not a list", "Give a table for each event.")
        return [_event(event, f"events[{number}]") for number, event in enumerate(events)]


def timing(session: Mapping[str, Any]) -> Timing | None:
    """Where the seconds of a session went, or None if it has not said."""
    table = session.get("timing")
    return None if table is None else Timing(**{f.name: table[f.name] for f in fields(Timing)})


def _check_session(session: Any, path: str, servers: int) -> None:
    check_table(session, path, "It has: started, engine, workers, steps, from.")
    _moment(f"{path}.started", session.get("started"))
    if "ended" in session:
        _moment(f"{path}.ended", session["ended"])
    check_table(session.get("engine"), f"{path}.engine", "Give the table of an engine.")
    whole_number(f"{path}.workers", session.get("workers"), least=1, most=MAX_WORKERS)
    whole_number(f"{path}.steps", session.get("steps"), least=1, most=MAX_UPDATES)
    begun = session.get("from")
    if not isinstance(begun, list) or len(begun) != servers:
        raise ArgumentError(f"{path}.from", begun, "is not a number of updates a chain", f"Give {servers} numbers.")
    for updates in begun:
        whole_number(f"{path}.from", updates, most=MAX_UPDATES)
    if session.get("timing") is not None:
        _check_timing(session["timing"], f"{path}.timing")


def _check_timing(table: Any, path: str) -> None:
    names = [f.name for f in fields(Timing)]
    check_table(table, path, f"It has: {', '.join(names)}.")
    for name in names:
        if name == "count":
            whole_number(f"{path}.{name}", table.get(name))
        else:
            real_number(f"{path}.{name}", table.get(name), least=0)


def _event(event: Any, path: str) -> Event:
    check_table(event, path, "It has: time, chain, worker, kind, details.")
    worker = event.get("worker")
    return Event(
        time=real_number(f"{path}.time", event.get("time")),
        chain=whole_number(f"{path}.chain", event.get("chain")),
        worker=None if worker is None else whole_number(f"{path}.worker", worker, most=MAX_WORKERS - 1),
        kind=_text(f"{path}.kind", event.get("kind")),
        details=_text(f"{path}.details", event.get("details")),
    )


def _text(name: str, value: Any) -> str:
    if not isinstance(value, str):
        raise ArgumentError(name, value, "is not text", "Give text in quotation marks.")
    return value


def _moment(name: str, value: Any) -> None:
    try:
        datetime.fromisoformat(_text(name, value))
    except ValueError as error:
        if isinstance(error, ArgumentError):
            raise
        raise ArgumentError(name, value, "is not a time", "Give one such as 2026-01-31T12:00:00+00:00.") from None


class _named:
    """Complaints of what is done inside become those of a store, with the name of the file."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: object, error: BaseException | None, traceback: object) -> None:
        if isinstance(error, ArgumentError):
            raise StoreError(f"{self._path} is damaged: {error} {RESTORE}") from error
