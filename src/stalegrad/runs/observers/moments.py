"""How a stored chain came along: a bounded number of moments of its trace, gathered as it is read block after block."""

from math import nan
from typing import NamedTuple

import numpy as np

from stalegrad.protocol.chain_trace import ChainTrace

_OF_A_BLOCK = 16
_MOST = 512


class Moment(NamedTuple):
    """A chain at one moment.

    Args:
        seconds: of the run; NaN if the trace has no times.
        gradients: that have arrived until then.
        updates: of those that were used.
        staleness: Σ τ of the used ones.
    """

    seconds: float
    gradients: int
    updates: int
    staleness: int


class Moments:
    """Evenly spaced moments of one chain, and its figures at the last of them."""

    def __init__(self) -> None:
        self.last = Moment(0.0, 0, 0, 0)
        self.largest = 0
        """The largest τ of a gradient that was used."""
        self._kept: list[Moment] = []
        self._every, self._came = 1, 0

    def add(self, rows: ChainTrace) -> None:
        """The rows that follow those that have been added."""
        used = np.asarray(rows.accepted, bool)
        staleness = np.where(used, rows.staleness, 0).astype(np.int64)
        self.largest = max(self.largest, int(staleness.max(initial=0)))
        updates, sums = np.cumsum(used), np.cumsum(staleness)
        ends = np.unique(np.linspace(0, len(rows), _OF_A_BLOCK + 1).astype(int)[1:])
        before = self.last
        for end in ends[ends > 0].tolist():
            self.last = Moment(
                nan if rows.time is None else float(rows.time[end - 1]), before.gradients + end,
                before.updates + int(updates[end - 1]), before.staleness + int(sums[end - 1]),
            )  # fmt: skip
            if self._came % self._every == 0:
                self._kept.append(self.last)
            self._came += 1
            if len(self._kept) > _MOST:
                self._kept, self._every = self._kept[::2], 2 * self._every

    def at(self, share: float) -> Moment:
        """The moment at which about this share of the gradients had arrived."""
        wanted = share * self.last.gradients
        return next((moment for moment in self._kept if moment.gradients >= wanted), self.last)
