"""Keeps one chain of a run on disk while it goes on: its draws, its trace and its checkpoints."""

import time
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any, NamedTuple

import numpy as np

from stalegrad._internal import files
from stalegrad._internal.types import Array
from stalegrad.engines.base import Event
from stalegrad.protocol.chain import Chain
from stalegrad.protocol.chain_trace import ChainTrace
from stalegrad.protocol.settings import Keep
from stalegrad.runs.averages import Averages
from stalegrad.runs.store.arrays import GrowingArray, chunk_rows
from stalegrad.runs.store.checkpoint import LAST, Committed, commit, last_draw
from stalegrad.runs.store.folder import chain_folder, read_events
from stalegrad.runs.store.stored_trace import CHUNK_ROWS, GrowingTrace
from stalegrad.runs.store.writer import Writer

FIRST_CHECKPOINT = 1.0
"""Seconds of a session after which its first checkpoint is due, if none is asked for earlier."""


def interval(every: float, until_last: float) -> float:
    """Seconds from one checkpoint to the next: as long as the session has lasted until the one, but at most ``every``.

    So checkpoints are 1, 2, 4, 8, … seconds after the beginning: a kill loses half of a short session at most, and
    ``every`` seconds of a long one.

    >>> interval(60.0, 0.0), interval(60.0, 8.0), interval(60.0, 500.0), interval(0.1, 8.0)
    (1.0, 8.0, 60.0, 0.1)
    """
    return min(every, max(FIRST_CHECKPOINT, until_last))


class Missing(NamedTuple):
    """What a chain has sampled and the store does not have, because it could not be written."""

    draws: int
    gradients: int


class ChainWriter:
    """Hands what a chain gives to the thread that writes, and holds no more of it than a few blocks.

    Args:
        writer: the thread that writes.
        chain: which chain.
        of: its last commit.
        size, dtype: of a draw.
        every: seconds between checkpoints, at most; see :func:`interval`.
        keep: which draws are written.
        averages: what is evaluated at every draw before it may be forgotten.
    """

    most_rows = CHUNK_ROWS

    def __init__(
        self, writer: Writer, chain: int, of: Committed, size: int, dtype: Any, every: float, keep: Keep = "all",
        averages: Averages | None = None,
    ) -> None:  # fmt: skip
        self._writer, self._every, self._chain = writer, every, chain
        self._folder = chain_folder(writer.folder, chain)
        self._keep, self._averages, self._last = keep, averages, last_draw(self._folder, of)
        self._draws = GrowingArray(self._folder / "draws", of.draws if keep == "all" else 0)
        self._stats = GrowingArray(self._folder / "stats", of.draws)
        self._trace = GrowingTrace(self._folder / "trace", of.rows)
        self._number, self._rows = of.number, of.rows
        self._committed = of.draws, of.rows
        self.commits = of.number
        """The number of the last commit that is on disk."""
        self._past_events, self._events = read_events(writer.folder, chain), 0
        self._room = chunk_rows(size * np.dtype(dtype).itemsize)
        self._size, self._dtype = size, dtype
        self._filled = 0
        self._begun = self._saved = time.monotonic()
        self.kept = of.draws
        self._renew()
        self.draws_in_memory: tuple[int, Array] = (of.draws, self._block[0, :0])
        """The number of the first draw of the current block and its draws, (draw, n): one pair, for other threads."""

    def buffers(self) -> tuple[Array, Array, Array, int]:
        """Where the next draw goes: draws (1, room, n), two statistics (1, room), and which entry of them."""
        return self._block, self._norms, self._temperatures, self._filled

    @property
    def room(self) -> int:
        """For how many draws there is room in the buffers."""
        return self._room - self._filled

    @property
    def missing(self) -> Missing:
        """What has come here and has not been committed: nothing, after a last commit that has been written."""
        draws, rows = self._committed
        return Missing(self.kept - draws, self._rows - rows)

    def added(self, draws: int) -> None:
        """So many entries of :meth:`buffers` have been filled."""
        self._filled += draws
        self.kept += draws
        self.draws_in_memory = self.kept - self._filled, self._block[0, : self._filled]
        if self._filled == self._room:
            self._submit_block()

    def due(self) -> bool:
        """Whether it is time for a checkpoint."""
        return time.monotonic() - self._saved >= interval(self._every, self._saved - self._begun)

    def add(self, rows: ChainTrace) -> None:
        """Have rows of the trace written; they count from the next commit on."""
        if len(rows):
            first = self._rows
            self._rows += len(rows)
            self._writer.put(lambda: self._trace.write(first, rows), _size(rows))

    def save(self, chain: Chain, events: Sequence[Event]) -> None:
        """Commit the chain as it is now."""
        if self._filled:
            self._submit_block()
        state, updates, draws, rows = chain.snapshot(), chain.version, self.kept, self._rows
        self._number += 1
        self._saved = time.monotonic()
        number, all_events = self._number, list(events)
        size = sum(array.nbytes for array in state.values())
        last = self._last
        self._writer.put(lambda: self._commit(number, updates, rows, draws, state | last, all_events), size)

    def _submit_block(self) -> None:
        """Have the block written, and go on with a new one."""
        first, filled = self.kept - self._filled, self._filled
        draws, norms, temperatures = (part[0, :filled] for part in (self._block, self._norms, self._temperatures))
        stats = np.stack([norms, temperatures], axis=1)
        self._renew()

        def write() -> None:
            if self._keep == "all":
                self._draws.write(first, draws)
            self._stats.write(first, stats)

        averages = self._averages
        if averages is not None:  # a piece of its own: one that could not be written is tried again
            self._writer.put(lambda: averages.add(self._chain, first, draws), draws.nbytes)
        if self._keep == "last":
            self._last = {LAST: draws[-1]}
        self._writer.put(write, draws.nbytes + stats.nbytes)

    def _renew(self) -> None:
        self._filled = 0
        self._block = np.empty((1, self._room, self._size), self._dtype)
        self._norms = np.empty((1, self._room))
        self._temperatures = np.full((1, self._room), np.nan)

    def _commit(
        self, number: int, updates: int, rows: int, draws: int, state: dict[str, Array], events: list[Event]
    ) -> None:
        if len(events) != self._events:
            records = [asdict(event) for event in (*self._past_events, *events)]
            files.write_json(self._folder / "events.json", records, "events")
            self._events = len(events)
        for array in (self._draws, self._stats, self._trace):
            array.flush()
        averages = {} if self._averages is None else self._averages.arrays(self._chain)
        commit(self._folder, number, updates, rows, draws, state | averages)
        self._committed, self.commits = (draws, rows), number


def _size(rows: ChainTrace) -> int:
    return sum(column.nbytes for column in rows.columns().values() if column is not None)
