"""What pages draw of a run, as JSON: of bounded size however long the run is and however many workers it has."""

import base64
from contextlib import AbstractContextManager, nullcontext
from math import floor, isnan, log10
from typing import Any

import numpy as np

from stalegrad._internal.tables import Table
from stalegrad._internal.types import Array
from stalegrad.protocol.trace_bins import EDGES, TraceBins


def binned(bins: TraceBins) -> Table:
    """Bins as plain types: what is large are bytes in base 64, row after row."""
    widths, count = bins.widths, bins.count
    used, dropped = bins.used[:, :count], bins.dropped[:, :count]
    heat, known = bins.heat_by_time(), bool(bins.seconds.any())
    law = int(np.flatnonzero(bins.law.any(0))[-1]) + 1 if bins.law.any() else 0
    workers = bins.servers * bins.workers
    return {
        "width": bins.width, "bins": count, "end": bins.end, "lanes": bins.lanes, "per_lane": bins.per_lane,
        "workers": bins.workers, "seen": bins.seen, "total": bins.total,
        "busy": _bytes(bins.busy_by_lane()) if known else None,
        "dropped": _bytes(dropped / np.maximum(used + dropped, 1e-300)),
        "rate": _rounded((used + dropped).sum(0) / widths),
        "share": _rounded(np.minimum(bins.seconds[:, :count].sum(0) / (widths * workers), 1.0)) if known else None,
        "heat": _bytes(np.sqrt(heat)), "edges": EDGES[: heat.shape[1] + 1].tolist() if heat.shape[1] else [],
        "law": [_rounded(part[:law] / max(bins.law.sum(), 1e-300)) for part in bins.law],
        "law_open": law == bins.law.shape[1],
        "bars": _bars(bins),
    }  # fmt: skip


def _bars(bins: TraceBins) -> list[tuple[Any, ...]]:
    """The last gradients of every chain: chain, lane, when it came, how long it took, staleness, whether used, worker.

    Times are rounded to a hundredth of what a gradient typically takes, however long the run is.
    """
    found: list[tuple[Any, ...]] = []
    for chain, bars in enumerate(bins.last):
        if rows := list(bars):
            lane, time, seconds, *others = zip(*rows, strict=True)
            typical = float(np.median(seconds))
            digits = 2 - floor(log10(typical)) if typical > 0 else 6
            ends, lengths = (np.round(column, digits).tolist() for column in (time, seconds))
            found += zip([chain] * len(rows), lane, ends, lengths, *others, strict=True)
    return found


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
    """What pages draw at one moment, made when it is asked for.

    Args:
        bins: of the traces.
        histories: by name.
        lock: held by whoever changes these.
    """

    def __init__(
        self,
        bins: TraceBins | None = None,
        histories: dict[str, History] | None = None,
        lock: AbstractContextManager[Any] | None = None,
    ) -> None:
        self._bins, self._histories, self._lock = bins, histories or {}, lock or nullcontext()

    def table(self) -> Table:
        """All that pages draw, in plain types."""
        with self._lock:
            histories = {name: history.columns() for name, history in self._histories.items()}
            return {**({} if self._bins is None else binned(self._bins)), "histories": histories}


def _bytes(shares: Array) -> str:
    """Numbers from 0 to 1 as bytes from 0 to 255; what is not 0 is at least 1."""
    scaled = np.where(shares > 0, np.clip(np.rint(255 * shares), 1, 255), 0).astype(np.uint8)
    return base64.b64encode(np.ascontiguousarray(scaled).tobytes()).decode()


def _rounded(values: Array) -> list[float]:
    return [float(f"{value:.5g}") for value in values.tolist()]


def _short(value: Any) -> Any:
    return (None if isnan(value) else float(f"{value:.7g}")) if isinstance(value, float) else value
