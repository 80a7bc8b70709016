"""The rows of a chain's trace, as they happen."""

from array import array
from typing import Any

import numpy as np

from stalegrad.protocol.chain_trace import ChainTrace, unchecked


class TraceBuilder:
    """Collects the rows of a chain's trace until they are taken.

    Args:
        whole: whether the trace begins with the first row that comes; False where a chain goes on.
    """

    def __init__(self, *, whole: bool = True) -> None:
        self._whole = whole
        self._clear()

    def _clear(self) -> None:
        self._worker, self._count, self._staleness = array("i"), array("q"), array("i")
        self._accepted, self._step_size, self._time = array("b"), array("d"), array("d")

    def __len__(self) -> int:
        return len(self._worker)

    def extend(self, rows: ChainTrace) -> None:
        """Many gradients have reached the server; their times count from the run's start."""
        for name, column in rows.columns().items():
            own: array[Any] = getattr(self, f"_{name}")
            given = np.full(len(rows), np.nan) if column is None else column
            own.frombytes(given.astype(np.dtype(own.typecode)).tobytes())

    def append(
        self, worker: int, count: int, staleness: int, accepted: bool, step_size: float = np.nan, time: float = np.nan
    ) -> None:
        """One gradient has reached the server."""
        self._worker.append(worker)
        self._count.append(count)
        self._staleness.append(staleness)
        self._accepted.append(accepted)
        self._step_size.append(step_size)
        self._time.append(time)

    def build(self) -> ChainTrace:
        """The rows that are here, checked if they are the whole trace. Columns that were never given are None."""
        step_size, time = np.array(self._step_size), np.array(self._time)
        return (ChainTrace if self._whole else unchecked)(
            worker=np.array(self._worker),
            count=np.array(self._count),
            staleness=np.array(self._staleness),
            accepted=np.array(self._accepted, dtype=bool),
            step_size=None if np.isnan(step_size).all() else step_size,
            time=None if np.isnan(time).all() else time,
        )

    def take(self) -> ChainTrace:
        """The rows that have come since the last time; from now on they are the caller's."""
        self._whole = False
        taken = self.build()
        self._clear()
        return taken
