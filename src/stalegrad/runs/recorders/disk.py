"""Keeps draws on disk instead of in memory: the recorder of runs that have a store."""

from pathlib import Path
from typing import Any

import numpy as np

from stalegrad._internal.errors import StoreError
from stalegrad._internal.types import Array
from stalegrad.engines.base import Checkpoint
from stalegrad.potentials.coordinates import Coordinates
from stalegrad.protocol.chain import Chain, Record
from stalegrad.protocol.collector import DrawBlock, DrawCollector
from stalegrad.protocol.draws import Thinning, Window, keep
from stalegrad.protocol.settings import Keep
from stalegrad.runs.averages import Averages
from stalegrad.runs.store.chain_writer import ChainWriter
from stalegrad.runs.store.checkpoint import Committed, read_state
from stalegrad.runs.store.folder import chain_folder
from stalegrad.runs.store.writer import OnError, Writer


class DiskRecorder:
    """Streams the draws of chains to the folder of a run, and saves the chains from time to time.

    A chain's part of the folder is opened when its recorder is asked for: other processes may have the other chains.

    Args:
        folder: the run's.
        chains: the last commit of every chain.
        thinning: which updates are kept.
        size, dtype: of a draw.
        every: seconds between checkpoints, at most.
        on_error: what to do when the folder cannot be written.
        coordinates: in which the chains run, if they are not those of the draws.
        keep: which draws are written.
        averages: what is evaluated at every draw.
    """

    rows = 1

    def __init__(
        self,
        folder: Path,
        chains: tuple[Committed, ...],
        thinning: Thinning,
        size: int,
        dtype: Any,
        every: float,
        on_error: OnError,
        coordinates: Coordinates | None = None,
        keep: Keep = "all",
        averages: Averages | None = None,
    ) -> None:
        self._thinning, self._coordinates = thinning, coordinates
        self._keep, self._averages = keep, averages
        self._writer = Writer(folder, on_error)
        self._chains, self._size, self._dtype, self._every = chains, size, dtype, every
        self._chain_writers: dict[int, ChainWriter] = {}

    @property
    def failure(self) -> StoreError | None:
        """Why the folder could not be written, with what it lacks for that."""
        failure = self._writer.failure
        missing = {s: writer.missing for s, writer in self._chain_writers.items() if any(writer.missing)}
        if failure is None or not missing:
            return failure
        lacks = "; ".join(
            f"chain {s} {lost.draws:,} draws and {lost.gradients:,} gradients" for s, lost in missing.items()
        )
        told = StoreError(f"{failure}. What was sampled after that is not in the store: {lacks}")
        told.__cause__ = failure.__cause__
        return told

    def hurry(self) -> None:
        """The run is asked to stop: a folder that cannot be written is no longer waited for."""
        self._writer.hurry()

    def checkpoint(self, server: int) -> Checkpoint:
        """What an engine asks between updates whether to save the chain, and saves it with."""
        return self._chain_writer(server)

    def commits(self) -> list[int]:
        """How often each chain has been saved, as far as this process saves it."""
        return [
            self._chain_writers[s].commits if s in self._chain_writers else of.number
            for s, of in enumerate(self._chains)
        ]

    def draws_in_memory(self, server: int, ended: bool = False) -> tuple[int, Array]:
        """The draws of a chain that were last in memory, see :data:`stalegrad.runs.progress.DrawsInMemory`."""
        chain_writer = self._chain_writers.get(server)
        return (0, np.empty((0, self._size), self._dtype)) if chain_writer is None else chain_writer.draws_in_memory

    def of(self, server: int) -> Record:
        """The recorder of one server."""
        return _ChainRecorder(self._chain_writer(server), self._thinning, self._coordinates)

    def settle(self) -> StoreError | None:
        """Wait until everything is written."""
        self.close()
        return self.failure

    def arrays(self, server: int) -> tuple[Array, ...]:
        """Nothing: what is on disk can be seen by all."""
        return ()

    def reserve(self, server: int, kept: int) -> tuple[Array, ...]:
        """Nothing: blocks on disk grow as draws come, whatever ``kept`` is."""
        return ()

    def collector(self) -> DrawCollector:
        """What keeps the draws of a chain in another process."""
        return DrawCollector(self._thinning, self._size, self._dtype, self._coordinates)

    def collect(self, server: int, block: DrawBlock) -> None:
        """Add draws that such a collector has kept to those of a chain."""
        chain_writer, taken = self._chain_writer(server), 0
        while taken < len(block.draws):
            *columns, entry = chain_writer.buffers()
            count = min(chain_writer.room, len(block.draws) - taken)
            for own, given in zip(columns, block, strict=True):
                own[0, entry : entry + count] = given[taken : taken + count]
            chain_writer.added(count)
            taken += count

    def close(self) -> None:
        """Wait until everything is written. Calling it again does nothing."""
        self._writer.close()

    def _chain_writer(self, server: int) -> ChainWriter:
        if server not in self._chain_writers:
            of = self._chains[server]
            if self._averages is not None:
                self._averages.restore(server, read_state(chain_folder(self._writer.folder, server), of))
            self._chain_writers[server] = ChainWriter(
                self._writer, server, of, self._size, self._dtype, self._every, self._keep, self._averages
            )
        return self._chain_writers[server]


class _ChainRecorder(Record):
    """As the recorder in memory, with the draws in blocks that are written when they are full."""

    def __init__(self, chain_writer: ChainWriter, thinning: Thinning, coordinates: Coordinates | None) -> None:
        self._chain_writer, self._thinning, self._coordinates = chain_writer, thinning, coordinates

    def __call__(self, update: int, chain: Chain, gradient: Array) -> None:
        if self._thinning.index(update) is not None:
            keep(*self._chain_writer.buffers(), chain.position, gradient, chain.kernel.momentum(chain.state))
            self._add(1)

    def window(self, version: int, updates: int) -> tuple[Window, int]:
        thinning = self._thinning
        return Window.of(thinning, *self._chain_writer.buffers()), min(updates, self._chain_writer.room * thinning.thin)

    def filled(self, version: int) -> None:
        if (draws := self._thinning.draws(version) - self._chain_writer.kept) > 0:
            self._add(draws)

    def _add(self, draws: int) -> None:
        """So many entries of the buffers have been filled; what is written are draws of θ."""
        if self._coordinates is not None:
            block, _, _, first = self._chain_writer.buffers()
            block[:, first : first + draws] = self._coordinates.original(block[:, first : first + draws])
        self._chain_writer.added(draws)
