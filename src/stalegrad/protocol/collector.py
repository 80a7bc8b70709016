"""Keeps the draws of a chain in another process than the run's, until the run takes them."""

from typing import Any, NamedTuple

import numpy as np

from stalegrad._internal.types import Array
from stalegrad.potentials.coordinates import Coordinates
from stalegrad.protocol.chain import Chain, Record
from stalegrad.protocol.draws import Thinning, keep


class DrawBlock(NamedTuple):
    """Draws in a row, (draw, n), and what is noted beside each, see :class:`~stalegrad.protocol.draws.DrawStats`."""

    draws: Array
    gradient_norm: Array
    kinetic_temperature: Array


class DrawCollector(Record):
    """Keeps the draws of one chain until they are taken.

    Args:
        thinning: which updates are kept.
        size, dtype: of a draw.
        coordinates: in which the chain runs, if they are not those of the draws.
    """

    def __init__(self, thinning: Thinning, size: int, dtype: Any, coordinates: Coordinates | None = None) -> None:
        self._thinning, self._size, self._dtype, self._coordinates = thinning, size, dtype, coordinates
        self._row = size * int(np.dtype(dtype).itemsize)  # bytes
        self._filled = 0
        self._block = self._room(0)

    @property
    def bytes(self) -> int:
        """The size of the draws collected since the last :meth:`take`."""
        return self._filled * self._row

    def __call__(self, update: int, chain: Chain, gradient: Array) -> None:
        """Keep the chain's position if the update is one of those."""
        if self._thinning.index(update) is not None:
            if self._filled == len(self._block.draws):
                larger = self._room(2 * self._filled)
                for old, new in zip(self._block, larger, strict=True):
                    new[: self._filled] = old
                self._block = larger
            draws, norms, temperatures = (part[None] for part in self._block)
            keep(draws, norms, temperatures, self._filled, chain.position, gradient, chain.kernel.momentum(chain.state))
            self._filled += 1

    def take(self) -> DrawBlock:
        """The draws since the last time; from now on they are the caller's."""
        taken = DrawBlock(*(part[: self._filled] for part in self._block))
        if self._coordinates is not None:
            taken = taken._replace(draws=self._coordinates.original(taken.draws))
        self._filled = 0
        self._block = self._room(0)
        return taken

    def _room(self, rows: int) -> DrawBlock:
        rows = max(rows, 16)
        return DrawBlock(np.empty((rows, self._size), self._dtype), np.empty(rows), np.full(rows, np.nan))
