"""The rows of a chain's trace, as they happen."""

from struct import Struct
from typing import Any

import numpy as np

from stalegrad.protocol.chain_trace import COLUMNS, ChainTrace, unchecked

_ROW = np.dtype([(name, column.dtype) for name, column in COLUMNS.items()])
_PACK = Struct("=" + "".join(column.dtype.char.replace("l", "q") for column in COLUMNS.values())).pack


class TraceBuilder:
    """Collects the rows of a chain's trace until they are taken.

    Args:
        whole: whether the trace begins with the first row that comes; False where a chain goes on.
    """

    def __init__(self, *, whole: bool = True) -> None:
        self._whole = whole
        self._rows = bytearray()

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
        self._rows = bytearray()
        return taken
