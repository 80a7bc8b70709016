"""How the rows of a trace become small numbers, most of them 0, which compress to a few bytes a gradient.

What can be foretold from the rows before is not written. With ' for the last row of the same worker:

- ``count`` goes up by one: what is kept is count − count' − 1;
- a worker reads the version that its last gradient has made: what is kept is τ − (version − version');
- times are rounded to 2⁻²³ s, about a tenth of a microsecond, and their differences kept;
- step sizes change smoothly if at all: second differences of their bits are kept, those of dropped rows are not;
- of the seconds that a gradient took the logarithm is kept, to a sixteenth of a power of 2, which is within 2.2 %.

All else is kept as it is. Every chunk can be read by itself: in its first row, and in the first of each worker, nothing
is foretold. Everything but times and seconds comes back bit for bit.
"""

import numpy as np

from stalegrad._internal.errors import StoreError
from stalegrad._internal.jit import compiled
from stalegrad._internal.types import Array, IntArray
from stalegrad.kernels.noise import MAX_COUNT, MAX_WORKERS
from stalegrad.protocol.chain_trace import ChainTrace, unchecked

ORDER = ("worker", "accepted", "count", "staleness", "step_size", "time", "scanned", "gradient_seconds")
"""Of the columns in the array on disk, (gradient, column), of 64-bit integers."""

TICKS = 2.0**23
"""Of a second."""

_LONGEST = 2.0**62  # ticks; 17,000 years
_NO_TIME = np.int64(np.iinfo(np.int64).min)
_SHORTEST = 2.0**-32  # seconds; less is kept as 0
_FINENESS = 16  # of the logarithms of seconds: parts of a power of 2
_UNKNOWN, _NOTHING, _FIRST = 0, 1, 2  # how seconds that are unknown, 0, or the shortest are kept
_LAST = _FIRST + _FINENESS * (32 + 62)


class Encoder:
    """Encodes the rows of a trace as they come, however many at a time.

    Args:
        rows: of a chunk; with each, all that is foretold begins anew.
    """

    def __init__(self, rows: int) -> None:
        self._left = self._rows = rows
        self._workers = np.zeros((MAX_WORKERS, 2), np.int64)
        self._before = np.zeros(4, np.int64)

    def encode(self, rows: ChainTrace) -> IntArray:
        """The next rows as integers (row, column)."""
        number = len(rows)
        unknown = np.full(number, np.nan) if rows.step_size is None or rows.time is None else None
        columns = (
            np.ascontiguousarray(rows.worker, np.int64),
            np.ascontiguousarray(rows.accepted, np.bool_),
            np.ascontiguousarray(rows.count, np.int64),
            np.ascontiguousarray(rows.staleness, np.int64),
            np.ascontiguousarray(unknown if rows.step_size is None else rows.step_size, np.float64).view(np.int64),
            np.ascontiguousarray(unknown if rows.time is None else rows.time, np.float64),
        )
        table = np.empty((len(ORDER), number), np.int64)  # column by column, as on disk
        first = 0
        while first < number:
            part = slice(first, min(first + self._left, number))
            if not _encode(*(column[part] for column in columns), self._workers, self._before, table[:, part]):
                raise StoreError(f"a store keeps times up to {_LONGEST / TICKS:.1e} s. Give smaller virtual seconds")
            self._left -= part.stop - first
            if not self._left:
                self._left = self._rows
                self._workers[...], self._before[...] = 0, 0
            first = part.stop
        table[ORDER.index("scanned")] = -1 if rows.scanned is None else rows.scanned
        table[ORDER.index("gradient_seconds")] = _logarithms(rows)
        return table.T


def encode(rows: ChainTrace) -> IntArray:
    """The rows of a chunk, from its first one on, as integers (row, column)."""
    return Encoder(max(1, len(rows))).encode(rows)


@compiled
def _encode(worker, accepted, count, staleness, step_size, time, workers, before, table):  # type: ignore[no-untyped-def]
    """Encode rows of one chunk into the first columns of a table; False if a time is too large.

    Args:
        worker: who sent each row.
        accepted: whether it was an update.
        count: which of the worker's minibatches it is of.
        staleness: its own.
        step_size: the bits of that of the update.
        time: when.
        workers: of each worker that has a row in the chunk, its next count, and 1 + the version after its last row.
        before: of the rows before: the updates that they were, the bits of the last step size and how they differ from
            those before, and the last time.
        table: (column, row).
    """
    made, bits, difference, last = before
    for row in range(len(worker)):
        of = workers[worker[row] & (MAX_WORKERS - 1)]
        table[0, row], table[1, row] = worker[row], accepted[row]
        table[2, row] = count[row] - of[0]
        table[3, row] = staleness[row] - (made + 1 - of[1] if of[1] else 0)
        table[4, row] = 0
        if accepted[row]:
            made += 1
            table[4, row] = step_size[row] - bits - difference
            difference = step_size[row] - bits
            bits = step_size[row]
        of[0], of[1] = count[row] + 1, made + 1
        ticks = _NO_TIME
        if not np.isnan(time[row]):
            if abs(np.rint(time[row] * TICKS)) > _LONGEST:
                return False
            ticks = np.int64(np.rint(time[row] * TICKS))
        table[5, row] = ticks - last
        last = ticks
    before[:] = made, bits, difference, last
    return True


def decode(table: IntArray) -> ChainTrace:
    """What :func:`encode` was given; a table that it cannot have given is a ValueError."""
    columns = (np.ascontiguousarray(column) for column in table.T)
    worker, taken, count, staleness, bits, ticks, scanned, logarithms = columns
    accepted = taken.astype(bool)
    if np.any((worker < 0) | (worker >= MAX_WORKERS)) or np.any(taken != accepted):
        raise ValueError("a worker's number, or whether a gradient was accepted, is out of range")
    count, staleness = _foretold(worker, accepted, count, staleness)
    if np.any((count < 0) | (count >= MAX_COUNT)) or np.any((staleness < 0) | (staleness >= 2**31)):
        raise ValueError("a minibatch's number, or a staleness, is out of range")
    if np.any((scanned < -1) | (scanned > 1)):
        raise ValueError("whether an update was made within a program of many is out of range")
    if np.any((logarithms < _UNKNOWN) | (logarithms > _LAST)):
        raise ValueError("the seconds of a gradient are out of range")
    step_size = np.full(len(worker), np.nan)
    step_size[accepted] = np.cumsum(np.cumsum(bits[accepted])).view(np.float64)
    at = np.cumsum(ticks)
    return unchecked(
        worker=worker.astype(np.int32),
        count=count,
        staleness=staleness.astype(np.int32),
        accepted=accepted,
        step_size=step_size,
        time=np.where(at == _NO_TIME, np.nan, at / TICKS),
        scanned=scanned.astype(np.int8),
        gradient_seconds=_seconds(logarithms),
    )


def _foretold(worker: IntArray, accepted: Array, counts: IntArray, staleness: IntArray) -> tuple[Array, Array]:
    """Counts and staleness with what the worker's last row foretells of them."""
    made = np.cumsum(accepted, dtype=np.int64)  # the version after each row, in this chunk
    order = np.argsort(worker.astype(np.uint16), kind="stable")
    same = np.zeros(len(worker), bool)  # whether a row is not the first of its worker
    same[1:] = worker[order][1:] == worker[order][:-1]
    after, before = made[order], (made - accepted)[order]
    since = np.zeros(len(worker), np.int64)
    since[1:] = np.where(same[1:], before[1:] - after[:-1], 0)
    running = np.cumsum(counts[order] + same)
    first = np.flatnonzero(~same)
    start = running[first] - counts[order][first]
    result = np.empty((2, len(worker)), np.int64)
    result[0, order] = running - np.repeat(start, np.diff(np.append(first, len(same))))
    result[1, order] = staleness[order] + since
    return result[0], result[1]


def _logarithms(rows: ChainTrace) -> IntArray:
    """The seconds of the gradients as small whole numbers."""
    if rows.gradient_seconds is None:
        return np.full(len(rows), _UNKNOWN, np.int64)
    seconds = np.asarray(rows.gradient_seconds, np.float64)
    with np.errstate(divide="ignore", invalid="ignore"):
        at = np.rint(_FINENESS * np.log2(seconds / _SHORTEST))
    kept = np.clip(np.where(seconds >= _SHORTEST, at, 0), 0, _LAST - _FIRST).astype(np.int64) + _FIRST
    return np.where(np.isnan(seconds), _UNKNOWN, np.where(seconds < _SHORTEST, _NOTHING, kept)).astype(np.int64)


def _seconds(logarithms: IntArray) -> Array:
    """What :func:`_logarithms` was given, but for rounding."""
    seconds = _SHORTEST * np.exp2((logarithms - _FIRST) / _FINENESS)
    return np.where(logarithms == _UNKNOWN, np.nan, np.where(logarithms == _NOTHING, 0.0, seconds)).astype(np.float32)
