"""Keeps draws on disk instead of in memory: the recorder of runs that have a store."""

from pathlib import Path
from typing import Any

from stalegrad.chain import Chain
from stalegrad.engines.base import Checkpoint, DrawBlock
from stalegrad.errors import StoreError
from stalegrad.recorder import Thinning, keep
from stalegrad.server import Record
from stalegrad.store.checkpoint import Committed
from stalegrad.store.writer import ChainKeeper, OnError, Writer
from stalegrad.types import Array


class DiskRecorder:
    """Streams the draws of all chains to the folder of a run, and saves the chains from time to time.

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
        self._keepers = [ChainKeeper(self._writer, s, of, size, dtype, every) for s, of in enumerate(chains)]

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
        return self._keepers[server]

    def latest(self, server: int) -> tuple[int, Array] | None:
        """The number and a copy of a chain's latest draw, while the run goes on; None if there is none at hand."""
        keeper = self._keepers[server]
        draw = keeper.latest()
        return None if draw is None else (keeper.kept, draw)

    def of(self, server: int) -> Record:
        """The recorder of one server."""
        keeper, index = self._keepers[server], self._thinning.index

        def record(update: int, chain: Chain, gradient: Array) -> None:
            if index(update) is not None:
                draws, norms, temperatures, place = keeper.buffers()
                momentum = chain.kernel.momentum(chain.state)
                keep(draws, norms, temperatures, place, chain.position, gradient, momentum)
                keeper.added()

        return record

    def collect(self, server: int, block: DrawBlock) -> None:
        """Add draws that were made elsewhere to those of a server."""
        keeper = self._keepers[server]
        for row in zip(*block, strict=True):
            *columns, place = keeper.buffers()
            for own, given in zip(columns, row, strict=True):
                own[0, place] = given
            keeper.added()

    def close(self) -> None:
        """Wait until everything is written."""
        self._writer.close()
