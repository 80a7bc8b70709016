"""What pages draw of a run: bins over time, of bounded size however long the run is and however many workers it has."""

import base64
import threading
from collections import deque
from math import isnan, nan
from typing import Any

import numpy as np

from stalegrad._internal.tables import Table
from stalegrad._internal.types import Array, IntArray
from stalegrad.protocol.chain_trace import ChainTrace

BINS = 240
"""Of the time of a run: their width doubles when the last is full."""
MOST_LANES = 256
"""Of the picture of who computed when: with more workers, some in a row share one."""
_FIRST_WIDTH = 2.0**-10  # seconds
_LAW = 257  # values of τ that are counted one by one; the last stands for all larger ones
_BARS = 900  # gradients that are shown one by one, of all chains
_EDGES = np.unique(np.concatenate([np.arange(16), np.rint(16 * 2.0 ** (np.arange(1, 53) / 4))]).astype(np.int64))


class Tally:
    """What the rows of all traces amount to.

    Args:
        servers: S.
        workers: W.
    """

    def __init__(self, servers: int, workers: int) -> None:
        self.servers, self.workers = servers, workers
        self._share = -(-servers * workers // MOST_LANES)  # workers of a lane
        self.lanes = -(-servers * workers // self._share)
        self.width, self.end = _FIRST_WIDTH, 0.0
        self._busy, self._used, self._dropped = (np.zeros((self.lanes, BINS)) for _ in range(3))
        self._heat = np.zeros((BINS, len(_EDGES)))
        self._law = np.zeros((2, _LAW))
        self._bars: list[deque[tuple[Any, ...]]] = [deque(maxlen=max(60, _BARS // servers)) for _ in range(servers)]
        self._lock = threading.Lock()
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
            chain * self.workers + np.minimum(rows.worker, self.workers - 1), self.lanes * self._share - 1
        )
        lane = np.asarray(lane, np.int64) // self._share
        with self._lock:
            self.seen += len(rows)
            self._reach(float(time.max()))
            at = np.minimum((time / self.width).astype(np.int64), BINS - 1)
            taken = np.asarray(rows.accepted, bool)
            self._used += weight * self._counted(lane[taken], at[taken])
            self._dropped += weight * self._counted(lane[~taken], at[~taken])
            self._add_busy(lane, time, seconds, weight)
            tau = np.searchsorted(_EDGES, rows.staleness, side="right") - 1
            heat = np.bincount(at * len(_EDGES) + tau, minlength=self._heat.size)
            self._heat += weight * heat.reshape(self._heat.shape)
            exact = np.minimum(rows.staleness, _LAW - 1)
            for kind, which in enumerate((taken, ~taken)):
                self._law[kind] += weight * np.bincount(exact[which], minlength=_LAW)
            bars, last = self._bars[chain], slice(-(self._bars[chain].maxlen or 1), None)
            columns = (lane, time, seconds, rows.staleness, taken, rows.worker)
            bars.extend(zip(*(np.asarray(column)[last].tolist() for column in columns), strict=True))

    def busy(self, lately: float) -> float:
        """The share of their time in which workers computed, over the last so many seconds; NaN if unknown."""
        with self._lock:
            bins = min(BINS, int(self.end / self.width) + 1)
            first = max(0, bins - max(2, round(lately / self.width)))
            seconds = self.end - first * self.width
            computed = float(self._busy[:, first:bins].sum())
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
            self._busy += weight * self.width * self._counted(lane[which], at, np.maximum(overlap, 0.0))

    def _reach(self, time: float) -> None:
        """Make bins so wide that this moment is in one of them."""
        self.end = max(self.end, time)
        while time >= BINS * self.width:
            self.width *= 2
            for array in (self._busy, self._used, self._dropped):
                array[:, : BINS // 2] = array[:, ::2] + array[:, 1::2]
                array[:, BINS // 2 :] = 0
            self._heat[: BINS // 2] = self._heat[::2] + self._heat[1::2]
            self._heat[BINS // 2 :] = 0

    def table(self) -> Table:
        """As plain types: what is large are bytes in base 64, row after row."""
        with self._lock:
            bins = min(BINS, int(self.end / self.width) + 1) if self.end else 0
            width = np.full(bins, self.width)
            if bins:
                width[-1] = max(self.end - (bins - 1) * self.width, 1e-9)  # the last bin is not over yet
            busy, used, dropped = (part[:, :bins] for part in (self._busy, self._used, self._dropped))
            together = (used + dropped).sum(0)
            heat = self._heat[:bins]
            top = int(np.flatnonzero(heat.any(0))[-1]) + 1 if heat.any() else 0
            share = heat[:, :top] / np.maximum(heat.sum(1, keepdims=True), 1e-300)
            per_lane = min(self._share, self.servers * self.workers)
            law = int(np.flatnonzero(self._law.any(0))[-1]) + 1 if self._law.any() else 0
            known = self._busy.any()
            return {
                "width": self.width, "bins": bins, "end": self.end, "lanes": self.lanes, "per_lane": per_lane,
                "workers": self.workers, "seen": self.seen, "total": self.total,
                "busy": _bytes(busy / (width * per_lane)) if known else None,
                "dropped": _bytes(dropped / np.maximum(used + dropped, 1e-300)),
                "rate": _rounded(together / width),
                "share": _rounded(busy.sum(0) / (width * self.servers * self.workers)) if known else None,
                "heat": _bytes(np.sqrt(share)), "edges": _EDGES[: top + 1].tolist(),
                "law": [_rounded(part[:law] / max(self._law.sum(), 1e-300)) for part in self._law],
                "law_open": law == _LAW,
                "bars": [[s, *map(_short, bar)] for s, bars in enumerate(self._bars) for bar in bars],
            }  # fmt: skip


class History:
    """Numbers over time, at most so many points: when there are more, every other one is forgotten."""

    MOST = 240

    def __init__(self) -> None:
        self._points: list[tuple[float, ...]] = []
        self._every, self._came = 1, 0
        self._last: tuple[float, ...] | None = None

    def add(self, *point: float) -> None:
        """One more point; all have the same length."""
        self._last = point
        if self._came % self._every == 0:
            self._points.append(point)
            if len(self._points) > self.MOST:
                self._points = self._points[::2]
                self._every *= 2
        self._came += 1

    def columns(self) -> list[list[float | None]]:
        """The points, the last one included, as columns."""
        points = self._points + ([self._last] if self._last is not None and self._points[-1] != self._last else [])
        return [[_short(value) for value in column] for column in zip(*points, strict=True)]


class Pictures:
    """What pages draw at one moment, made when it is asked for."""

    def __init__(self, tally: Tally | None = None, histories: dict[str, History] | None = None) -> None:
        self._tally, self._histories = tally, histories or {}

    def table(self) -> Table:
        """All that pages draw, in plain types."""
        histories = {name: history.columns() for name, history in self._histories.items()}
        return {**({} if self._tally is None else self._tally.table()), "histories": histories}


def _bytes(shares: Array) -> str:
    """Numbers from 0 to 1 as bytes from 0 to 255; what is not 0 is at least 1."""
    scaled = np.where(shares > 0, np.clip(np.rint(255 * shares), 1, 255), 0).astype(np.uint8)
    return base64.b64encode(np.ascontiguousarray(scaled).tobytes()).decode()


def _rounded(values: Array) -> list[float]:
    return [float(f"{value:.5g}") for value in values.tolist()]


def _short(value: Any) -> Any:
    return (None if isnan(value) else float(f"{value:.7g}")) if isinstance(value, float) else value
