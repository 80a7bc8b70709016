"""How stale a chain's gradients were, as counts: what is left of a long trace where its order does not matter."""

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np

from stalegrad._internal.types import Array, IntArray


class StalenessCounts(NamedTuple):
    """How many gradients had each staleness.

    >>> counts = StalenessCounts.of([(np.array([0, 1, 1, 7]), np.array([True, True, True, False]))])
    >>> counts.tau.tolist(), counts.used.tolist(), counts.dropped.tolist()
    ([0, 1, 7], [1, 2, 0], [0, 0, 1])
    >>> round(counts.mean, 2), counts.largest, counts.quantile(0.99)
    (0.67, 1, 7)
    """

    tau: IntArray
    """Those that occur, in ascending order."""
    used: IntArray
    """How many of the accepted gradients had each."""
    dropped: IntArray
    """How many of the others."""

    @classmethod
    def of(cls, blocks: Iterable[tuple[IntArray, Array]]) -> "StalenessCounts":
        """Of pairs: the staleness of some gradients, and whether each was accepted."""
        counts: tuple[dict[int, int], dict[int, int]] = {}, {}
        for staleness, accepted in blocks:
            taken = np.asarray(accepted, bool)
            for known, part in zip(counts, (staleness[taken], staleness[~taken]), strict=True):
                for value, number in zip(*_counted(part), strict=True):
                    known[value] = known.get(value, 0) + number
        used, dropped = counts
        tau = sorted(used.keys() | dropped.keys())
        columns = tau, [used.get(t, 0) for t in tau], [dropped.get(t, 0) for t in tau]
        return cls(*(np.array(column, np.int64) for column in columns))

    @classmethod
    def together(cls, several: Iterable["StalenessCounts"]) -> "StalenessCounts":
        """Those of several chains as one."""
        parts = list(several)
        if not parts:
            return cls.of([])
        tau, where = np.unique(np.concatenate([part.tau for part in parts]), return_inverse=True)
        used, dropped = np.zeros(len(tau), np.int64), np.zeros(len(tau), np.int64)
        np.add.at(used, where, np.concatenate([part.used for part in parts]))
        np.add.at(dropped, where, np.concatenate([part.dropped for part in parts]))
        return cls(tau, used, dropped)

    @property
    def accepted(self) -> int:
        """How many gradients were accepted."""
        return int(self.used.sum())

    @property
    def arrived(self) -> int:
        """How many there were, accepted or not."""
        return self.accepted + int(self.dropped.sum())

    @property
    def total(self) -> int:
        """Σ τ over the accepted ones."""
        return int((self.tau * self.used).sum())

    @property
    def mean(self) -> float:
        """The mean over the accepted ones; NaN if there are none."""
        return self.total / self.accepted if self.accepted else float("nan")

    @property
    def largest(self) -> int:
        """The largest of the accepted ones; 0 if there are none."""
        return int(self.tau[self.used > 0].max(initial=0))

    def quantile(self, q: float) -> int:
        """The smallest τ that so large a share of all gradients, accepted or not, did not exceed."""
        passed = np.cumsum(self.used + self.dropped)
        return int(self.tau[np.searchsorted(passed, np.ceil(q * (self.arrived - 1)), side="right")])


def _counted(staleness: IntArray) -> tuple[list[int], list[int]]:
    """The values that occur, and how often each does."""
    if staleness.size and int(staleness.max()) < 4 * len(staleness):  # much faster than sorting
        counts = np.bincount(staleness)
        tau = np.flatnonzero(counts)
        return tau.tolist(), counts[tau].tolist()
    values, numbers = np.unique(staleness, return_counts=True)
    return values.tolist(), numbers.tolist()
