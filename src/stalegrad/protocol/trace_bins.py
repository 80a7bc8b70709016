"""The rows of traces over time, in a bounded number of bins: who computed when, what was dropped, how stale it was."""

from collections import deque
from collections.abc import Sequence
from math import nan
from typing import Any

import numpy as np

from stalegrad._internal.types import Array, IntArray
from stalegrad.protocol.chain_trace import ChainTrace

BINS = 240
"""Of the time of a run: their width doubles when the last is full."""
MOST_LANES = 256
"""Of the picture of who computed when: with more workers, some in a row share one."""
_FIRST_WIDTH = 2.0**-10  # seconds
_LAW = 257  # values of τ that are counted one by one; the last stands for all larger ones
_LAST = 900  # gradients that are kept one by one, of all chains
EDGES = np.unique(np.concatenate([np.arange(16), np.rint(16 * 2.0 ** (np.arange(1, 53) / 4))]).astype(np.int64))
"""Intervals of τ: from each number to the next."""


class TraceBins:
    """What the rows of all traces amount to.

    Args:
        servers: S.
        workers: W.
    """

    def __init__(self, servers: int, workers: int) -> None:
        self.servers, self.workers = servers, workers
        self.per_lane = -(-servers * workers // MOST_LANES)  # workers of a lane
        self.lanes = -(-servers * workers // self.per_lane)
        self.width, self.end = _FIRST_WIDTH, 0.0
        self.seconds, self.used, self.dropped = (np.zeros((self.lanes, BINS)) for _ in range(3))
        self.heat = np.zeros((BINS, len(EDGES)))
        self.law = np.zeros((2, _LAW))
        self.last: list[deque[tuple[Any, ...]]] = [deque(maxlen=max(60, _LAST // servers)) for _ in range(servers)]
        self.seen = self.total = 0
        """Rows that were looked at, and that there were."""

    def add(self, chain: int, rows: ChainTrace, stands_for: int) -> None:
        """Some rows of a chain, in order, which stand for so many."""
        self.total += stands_for
        if not len(rows) or rows.time is None:
            return
        seconds = np.zeros(len(rows)) if rows.gradient_seconds is None else np.asarray(rows.gradient_seconds, float)
        time, seconds = np.nan_to_num(np.maximum(rows.time, 0.0)), np.nan_to_num(np.maximum(seconds, 0.0))
        weight = max(stands_for, len(rows)) / len(rows)
        lane = np.minimum(
            chain * self.workers + np.minimum(rows.worker, self.workers - 1), self.lanes * self.per_lane - 1
        )
        lane = np.asarray(lane, np.int64) // self.per_lane
        self.seen += len(rows)
        self._reach(float(time.max()))
        at = np.minimum((time / self.width).astype(np.int64), BINS - 1)
        taken = np.asarray(rows.accepted, bool)
        self.used += weight * self._counted(lane[taken], at[taken])
        self.dropped += weight * self._counted(lane[~taken], at[~taken])
        self._add_busy(lane, time, seconds, weight)
        tau = np.searchsorted(EDGES, rows.staleness, side="right") - 1
        heat = np.bincount(at * len(EDGES) + tau, minlength=self.heat.size)
        self.heat += weight * heat.reshape(self.heat.shape)
        exact = np.minimum(rows.staleness, _LAW - 1)
        for kind, which in enumerate((taken, ~taken)):
            self.law[kind] += weight * np.bincount(exact[which], minlength=_LAW)
        bars, last = self.last[chain], slice(-(self.last[chain].maxlen or 1), None)
        columns = (lane, time, seconds, rows.staleness, taken, rows.worker)
        bars.extend(zip(*(np.asarray(column)[last].tolist() for column in columns), strict=True))

    def busy(self, lately: float) -> float:
        """The share of their time in which workers computed, over the last so many seconds; NaN if unknown."""
        bins = min(BINS, int(self.end / self.width) + 1)
        first = max(0, bins - max(2, round(lately / self.width)))
        seconds = self.end - first * self.width
        computed = float(self.seconds[:, first:bins].sum())
        return min(1.0, computed / (seconds * self.servers * self.workers)) if computed and seconds > 0 else nan

    def _counted(self, lane: IntArray, at: IntArray, weights: Array | None = None) -> Array:
        counts = np.bincount(lane * BINS + at, weights, minlength=self.lanes * BINS)
        return np.asarray(counts.reshape(self.lanes, BINS))

    def _add_busy(self, lane: IntArray, time: Array, seconds: Array, weight: float) -> None:
        """A gradient that took longer than a bin is spread over those in which it was computed."""
        begin, end = np.maximum(time - seconds, 0.0) / self.width, time / self.width
        first, last = begin.astype(np.int64), np.minimum(end.astype(np.int64), BINS - 1)
        for offset in range(int((last - first).max(initial=0)) + 1):
            which = first + offset <= last
            at = first[which] + offset
            overlap = np.minimum(end[which], at + 1) - np.maximum(begin[which], at)
            self.seconds += weight * self.width * self._counted(lane[which], at, np.maximum(overlap, 0.0))

    def _reach(self, time: float) -> None:
        """Make bins so wide that this moment is in one of them."""
        self.end = max(self.end, time)
        while time >= BINS * self.width:
            self.width *= 2
            for array in (self.seconds, self.used, self.dropped):
                array[:, : BINS // 2] = array[:, ::2] + array[:, 1::2]
                array[:, BINS // 2 :] = 0
            self.heat[: BINS // 2] = self.heat[::2] + self.heat[1::2]
            self.heat[BINS // 2 :] = 0

    @property
    def count(self) -> int:
        """How many bins have begun."""
        return min(BINS, int(self.end / self.width) + 1) if self.end else 0

    @property
    def widths(self) -> Array:
        """Seconds of each bin that has begun; the last one is not over."""
        widths = np.full(self.count, self.width)
        if self.count:
            widths[-1] = max(self.end - (self.count - 1) * self.width, 1e-9)
        return widths

    def busy_by_lane(self) -> Array:
        """The share of each bin in which the workers of each lane computed, (lane, bin).

        Rows that stand for others make it an estimate, which is never more than all of the time.
        """
        return np.asarray(np.minimum(self.seconds[:, : self.count] / (self.widths * self.per_lane), 1.0))

    def heat_by_time(self) -> Array:
        """The share of each interval of τ among the gradients of each bin, (bin, interval)."""
        heat = self.heat[: self.count]
        top = int(np.flatnonzero(heat.any(0))[-1]) + 1 if heat.any() else 0
        return np.asarray(heat[:, :top] / np.maximum(heat.sum(1, keepdims=True), 1e-300))

    @classmethod
    def of(cls, chains: Sequence[ChainTrace], workers: int) -> "TraceBins":
        """All rows of whole traces."""
        bins = cls(len(chains), workers)
        for s, chain in enumerate(chains):
            for block in chain.blocks():
                bins.add(s, block, len(block))
        return bins
