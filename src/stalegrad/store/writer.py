"""Writes a run to its folder while it goes on, in a thread of its own and in bounded memory."""

import logging
import queue
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, Literal

import numpy as np

from stalegrad.chain import Chain
from stalegrad.engines.base import Event
from stalegrad.errors import StoreError
from stalegrad.store import files
from stalegrad.store.arrays import GrowingArray, chunk_rows
from stalegrad.store.checkpoint import Committed, commit
from stalegrad.store.folder import TRACE_TYPES, chain_folder, read_events
from stalegrad.trace import ChainTrace
from stalegrad.types import Array

OnError = Literal["stop", "continue"]
_AHEAD = 2  # pieces that may wait for the disk before the sampling waits for it, too

log = logging.getLogger("stalegrad")


class Writer:
    """The thread that writes, and what becomes of the run when it cannot.

    Args:
        folder: the run's.
        on_error: ``"stop"`` ends the run with an error; ``"continue"`` lets it go on without storing.
    """

    def __init__(self, folder: Path, on_error: OnError) -> None:
        self.folder, self.on_error = folder, on_error
        self.failure: StoreError | None = None
        self._queue: queue.Queue[Callable[[], None] | None] = queue.Queue(_AHEAD)
        self._thread = threading.Thread(target=self._work, name="stalegrad-store", daemon=True)
        self._thread.start()

    def put(self, task: Callable[[], None]) -> None:
        """Have something written, after all that was put before. Waits while the disk is too slow."""
        if self.failure is None:
            self._queue.put(task)
        elif self.on_error == "stop":
            raise self.failure

    def close(self) -> None:
        """Wait until everything is written. Calling it again does nothing."""
        if self._thread.is_alive():
            self._queue.put(None)
            self._thread.join()

    def _work(self) -> None:
        while (task := self._queue.get()) is not None:
            if self.failure is not None:
                continue  # whoever waits in put must not wait for ever
            try:
                task()
            except Exception as error:
                self.failure = StoreError(
                    f"{self.folder} cannot be written ({error}). Everything up to the last checkpoint is safe there; "
                    "make room and go on with sg.resume"
                )
                self.failure.__cause__ = error
                if self.on_error == "continue":
                    log.warning("%s. The run goes on without storing", self.failure)


class ChainKeeper:
    """Keeps the draws of one chain on disk, and its checkpoints.

    Args:
        writer: the thread that writes.
        chain: which chain.
        of: its last commit.
        size, dtype: of a draw.
        every: seconds between checkpoints.
    """

    def __init__(self, writer: Writer, chain: int, of: Committed, size: int, dtype: Any, every: float) -> None:
        self._writer, self._every = writer, every
        self._home = chain_folder(writer.folder, chain)
        self._draws = GrowingArray(self._home / "draws", of.draws)
        self._stats = GrowingArray(self._home / "stats", of.draws)
        self._trace = GrowingArray(self._home / "trace", of.rows)
        self._number, self._rows = of.number, of.rows
        self._past_events, self._events = read_events(writer.folder, chain), 0
        self._room = chunk_rows(size * np.dtype(dtype).itemsize)
        self._size, self._dtype = size, dtype
        self._filled = 0
        self._saved = time.monotonic()
        self.kept = of.draws
        self._latest: Array | None = None
        self._renew()

    def buffers(self) -> tuple[Array, Array, Array, int]:
        """Where the next draw goes: draws (1, room, n), two statistics (1, room), and which entry of them."""
        return self._block, self._norms, self._temperatures, self._filled

    def latest(self) -> Array | None:
        """A copy of the latest draw of this session, for whoever looks; None before the first."""
        return None if self._latest is None else self._latest.copy()

    @property
    def room(self) -> int:
        """For how many draws there is room in the buffers."""
        return self._room - self._filled

    def added(self, draws: int) -> None:
        """So many entries of :meth:`buffers` have been filled."""
        self._filled += draws
        self.kept += draws
        self._latest = self._block[0, self._filled - 1]
        if self._filled == self._room:
            self._hand_over()

    def due(self) -> bool:
        """Whether it is time for a checkpoint."""
        return time.monotonic() - self._saved >= self._every

    def save(self, chain: Chain, rows: Callable[[int], ChainTrace], events: Sequence[Event]) -> None:
        """Commit the chain as it is now."""
        if self._filled:
            self._hand_over()
        state, updates, draws, trace = chain.snapshot(), chain.version, self.kept, rows(self._rows)
        self._rows += len(trace)
        self._number += 1
        self._saved = time.monotonic()
        number, count, told = self._number, self._rows, list(events)
        self._writer.put(lambda: self._commit(number, updates, count, draws, trace, state, told))

    def _hand_over(self) -> None:
        """Have the block written, and go on with a new one."""
        block, filled = (self._block, self._norms, self._temperatures), self._filled
        self._renew()
        self._writer.put(lambda: self._write(*(part[0, :filled] for part in block)))

    def _renew(self) -> None:
        self._filled = 0
        self._block = np.empty((1, self._room, self._size), self._dtype)
        self._norms = np.empty((1, self._room))
        self._temperatures = np.full((1, self._room), np.nan)

    def _write(self, draws: Array, norms: Array, temperatures: Array) -> None:
        self._draws.append(draws)
        self._stats.append(np.stack([norms, temperatures], axis=1))

    def _commit(
        self,
        number: int,
        updates: int,
        rows: int,
        draws: int,
        trace: ChainTrace,
        state: dict[str, Array],
        events: list[Event],
    ) -> None:
        missing = np.full(len(trace), np.nan)
        columns = [missing if column is None else column for column in map(trace.columns().get, TRACE_TYPES)]
        self._trace.append(np.stack(columns, axis=1, dtype=np.float64))
        if len(events) != self._events:
            told = self._past_events + [asdict(event) for event in events]
            files.write_json(self._home / "events.json", told, "events")
            self._events = len(events)
        commit(self._home, number, updates, rows, draws, state)
