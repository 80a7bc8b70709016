"""Keeps draws on disk instead of in memory: the recorder of runs that have a store."""

from pathlib import Path
from typing import Any

from stalegrad.chain import Chain
from stalegrad.collector import DrawBlock, DrawCollector
from stalegrad.draws import Thinning, Window, keep
from stalegrad.engines.base import Checkpoint
from stalegrad.errors import StoreError
from stalegrad.server import Record
from stalegrad.store.checkpoint import Committed
from stalegrad.store.writer import ChainKeeper, OnError, Writer
from stalegrad.types import Array


class DiskRecorder:
    """Streams the draws of chains to the folder of a run, and saves the chains from time to time.

    A chain's part of the folder is opened when its recorder is asked for: other processes may have the other chains.

    Args:
        folder: the run's.
        chains: the last commit of every chain.
        thinning: which updates are kept.
        size, dtype: of a draw.
        every: seconds between checkpoints.
        on_error: what to do when the folder cannot be written.
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
    ) -> None:
        self._thinning = thinning
        self._writer = Writer(folder, on_error)
        self._chains, self._size, self._dtype, self._every = chains, size, dtype, every
        self._keepers: dict[int, ChainKeeper] = {}

    @property
    def failure(self) -> StoreError | None:
        """Why the folder could not be written."""
        return self._writer.failure

    @property
    def stops(self) -> bool:
        """Whether such a failure ends the run."""
        return self._writer.on_error == "stop"

    def checkpoint(self, server: int) -> Checkpoint:
        """What saves a chain."""
        return self._keeper(server)

    def latest(self, server: int) -> tuple[int, Array] | None:
        """The number and a copy of a chain's latest draw, while the run goes on; None if there is none at hand."""
        keeper = self._keepers.get(server)
        draw = None if keeper is None else keeper.latest()
        return None if keeper is None or draw is None else (keeper.kept, draw)

    def of(self, server: int) -> Record:
        """The recorder of one server."""
        return _ChainRecorder(self._keeper(server), self._thinning)

    def settle(self) -> StoreError | None:
        """Wait until everything is written."""
        self.close()
        return self.failure if self.stops else None

    def arrays(self, server: int) -> tuple[Array, ...]:
        """Nothing: what is on disk can be seen by all."""
        return ()

    def reserve(self, server: int, kept: int) -> tuple[Array, ...]:
        """Nothing, as above."""
        return ()

    def collector(self) -> DrawCollector:
        """What keeps the draws of a chain in another process."""
        return DrawCollector(self._thinning, self._size, self._dtype)

    def collect(self, server: int, block: DrawBlock) -> None:
        """Add draws that such a collector has kept to those of a chain."""
        keeper, taken = self._keeper(server), 0
        while taken < len(block.draws):
            *columns, entry = keeper.buffers()
            count = min(keeper.room, len(block.draws) - taken)
            for own, given in zip(columns, block, strict=True):
                own[0, entry : entry + count] = given[taken : taken + count]
            keeper.added(count)
            taken += count

    def close(self) -> None:
        """Wait until everything is written. Calling it again does nothing."""
        self._writer.close()

    def _keeper(self, server: int) -> ChainKeeper:
        if server not in self._keepers:
            of = self._chains[server]
            self._keepers[server] = ChainKeeper(self._writer, server, of, self._size, self._dtype, self._every)
        return self._keepers[server]


class _ChainRecorder:
    """As :class:`stalegrad.recorder.ChainRecorder`, with the draws in blocks that are written when they are full."""

    def __init__(self, keeper: ChainKeeper, thinning: Thinning) -> None:
        self._keeper, self._thinning = keeper, thinning

    def __call__(self, update: int, chain: Chain, gradient: Array) -> None:
        if self._thinning.index(update) is not None:
            keep(*self._keeper.buffers(), chain.position, gradient, chain.kernel.momentum(chain.state))
            self._keeper.added(1)

    def window(self, version: int, updates: int) -> tuple[Window, int]:
        thinning = self._thinning
        return Window(thinning.burn_in, thinning.thin, *self._keeper.buffers()), min(
            updates, self._keeper.room * thinning.thin
        )

    def filled(self, version: int) -> None:
        if (draws := self._thinning.draws(version) - self._keeper.kept) > 0:
            self._keeper.added(draws)
