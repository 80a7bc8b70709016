"""The rows of a chain's trace, as they happen."""

from struct import Struct
from typing import Any

import numpy as np

from stalegrad.protocol.chain_trace import COLUMNS, ChainTrace, unchecked

_ROW = np.dtype([(name, column.dtype) for name, column in COLUMNS.items()])
_BLOCK = 512  # rows that displays see in a row, if they cannot see all
_FEWEST_BLOCKS, _SHORTEST = 8, 32  # of them where few rows are wanted, unless they were shorter than that
_PACK = Struct("=" + "".join(column.dtype.char.replace("l", "q") for column in COLUMNS.values())).pack


class TraceBuilder:
    """Collects the rows of a chain's trace until they are taken.

    Args:
        whole: whether the trace begins with the first row that comes; False where a chain goes on.
    """

    def __init__(self, *, whole: bool = True) -> None:
        self._whole = whole
        self._rows = bytearray()
        self._before = bytearray()  # those that were taken last, for displays that come late
        self.watched = False
        """Whether a display has asked for :meth:`recent` rows."""
        self._taken = 0  # how many rows were taken, of all
        self._changes = 0  # odd while rows are being taken

    def __len__(self) -> int:
        return len(self._rows) // _ROW.itemsize

    def extend(self, rows: ChainTrace) -> None:
        """Many gradients have reached the server; their times count from the run's start."""
        table = np.empty(len(rows), _ROW)
        for name, column in rows.columns().items():
            table[name] = COLUMNS[name].unknown if column is None else column
        self._rows += table.tobytes()

    def append(self, *row: float) -> None:
        """One gradient has reached the server: what the columns of :class:`ChainTrace` hold, NaN or −1 if unknown."""
        self._rows += _PACK(*row)

    def build(self) -> ChainTrace:
        """The rows that are here, checked if they are the whole trace. Columns that were never given are None."""
        table = np.frombuffer(bytes(self._rows), _ROW)
        columns: dict[str, Any] = {name: np.ascontiguousarray(table[name]) for name in COLUMNS}
        for name, column in COLUMNS.items():
            unknown = np.isnan(columns[name]) if column.dtype.kind == "f" else columns[name] == column.unknown
            if column.optional and unknown.all():
                columns[name] = None
        return (ChainTrace if self._whole else unchecked)(**columns)

    def take(self) -> ChainTrace:
        """The rows that have come since the last time; from now on they are the caller's."""
        self._whole = False
        taken = self.build()
        self._changes += 1
        self._before = self._rows if self.watched else self._before
        self._rows, self._taken = bytearray(), self._taken + len(taken)
        self._changes += 1
        return taken

    def recent(self, since: int, most: int) -> tuple[int, ChainTrace]:
        """For displays, from any thread: how many rows there have been in all, and those from number ``since`` on.

        Args:
            since: the first row that is wanted, counted from 0. Those that were taken before the last time are gone.
            most: how many rows are wanted. Of more, some blocks are given that are evenly spread, with the last rows.
        """
        self.watched = True
        size = _ROW.itemsize
        while True:
            changes, taken, before, rows = self._changes, self._taken, self._before, self._rows
            earlier, total = len(before) // size, taken + len(rows) // size
            pieces = [
                # Slices are copies. No view of the rows may exist, because they could not grow while it does.
                bytes(before[(low - taken + earlier) * size : (min(high, taken) - taken + earlier) * size])
                + bytes(rows[max(0, low - taken) * size : max(0, high - taken) * size])
                for low, high in _blocks(max(since, taken - earlier), total, most)
            ]
            if changes == self._changes and changes % 2 == 0:
                break
        table = np.frombuffer(b"".join(pieces), _ROW)
        return total, unchecked(**{name: np.ascontiguousarray(table[name]) for name in COLUMNS})


def _blocks(first: int, end: int, most: int) -> list[tuple[int, int]]:
    """At most so many of the numbers in [first, end), in a few blocks that are evenly spread, the last one at the end.

    >>> _blocks(0, 10, 20), _blocks(0, 1000, 64)
    ([(0, 10)], [(468, 500), (968, 1000)])
    """
    if end - first <= most:
        return [(first, end)] if end > first else []
    count = max(1, most // _BLOCK, min(_FEWEST_BLOCKS, most // _SHORTEST))
    ends = [first + (end - first) * k // count for k in range(count + 1)]
    sizes = [most * (k + 1) // count - most * k // count for k in range(count)]
    return [(max(before, last - size), last) for before, last, size in zip(ends, ends[1:], sizes, strict=False)]
