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

from typing import Any

import numpy as np

from stalegrad._internal.errors import StoreError
from stalegrad._internal.types import Array, IntArray
from stalegrad.kernels.noise import MAX_COUNT, MAX_WORKERS
from stalegrad.protocol.chain_trace import ChainTrace, unchecked

ORDER = ("worker", "accepted", "count", "staleness", "step_size", "time", "scanned", "gradient_seconds")
"""Of the columns in the array on disk, (gradient, column), of 64-bit integers."""

TICKS = 2.0**23
"""Of a second."""

_LONGEST = 2.0**62  # ticks; 17,000 years
_NO_TIME = np.iinfo(np.int64).min
_SHORTEST = 2.0**-32  # seconds; less is kept as 0
_FINENESS = 16  # of the logarithms of seconds: parts of a power of 2
_UNKNOWN, _NOTHING, _FIRST = 0, 1, 2  # how seconds that are unknown, 0, or the shortest are kept
_LAST = _FIRST + _FINENESS * (32 + 62)


def encode(rows: ChainTrace) -> IntArray:
    """The rows of a chunk, from its first one on, as integers (row, column)."""
    accepted = np.asarray(rows.accepted, bool)
    worker = np.asarray(rows.worker, np.int64)
    count, staleness = _foretold(worker, accepted, undo=False, count=rows.count, staleness=rows.staleness)
    return np.stack([
        worker, accepted.astype(np.int64), count, staleness, _bits(rows.step_size, accepted), _ticks(rows),
        np.full(len(rows), -1) if rows.scanned is None else np.asarray(rows.scanned, np.int64),
        _logarithms(rows),
    ], axis=1)  # fmt: skip


def decode(table: IntArray) -> ChainTrace:
    """What :func:`encode` was given; a table that it cannot have given is a ValueError."""
    columns = (np.ascontiguousarray(column) for column in table.T)
    worker, taken, count, staleness, bits, ticks, scanned, logarithms = columns
    accepted = taken.astype(bool)
    if np.any((worker < 0) | (worker >= MAX_WORKERS)) or np.any(taken != accepted):
        raise ValueError("a worker's number, or whether a gradient was accepted, is out of range")
    count, staleness = _foretold(worker, accepted, undo=True, count=count, staleness=staleness)
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


def _foretold(worker: IntArray, accepted: Array, *, undo: bool, count: Any, staleness: Any) -> tuple[Array, Array]:
    """Counts and staleness without what the worker's last row foretells of them, or with it again."""
    made = np.cumsum(accepted, dtype=np.int64)  # the version after each row, in this chunk
    order = np.argsort(worker.astype(np.uint16), kind="stable")
    same = np.zeros(len(worker), bool)  # whether a row is not the first of its worker
    same[1:] = worker[order][1:] == worker[order][:-1]
    after, before = made[order], (made - accepted)[order]
    since = np.zeros(len(worker), np.int64)
    since[1:] = np.where(same[1:], before[1:] - after[:-1], 0)
    counts, stale = np.asarray(count, np.int64)[order], np.asarray(staleness, np.int64)[order]
    if undo:
        running = np.cumsum(counts + same)
        first = np.flatnonzero(~same)
        start = running[first] - counts[first]
        counts = running - np.repeat(start, np.diff(np.append(first, len(same))))
        stale = stale + since
    else:
        stale = stale - since
        counts[1:] -= np.where(same[1:], counts[:-1] + 1, 0)
    result = np.empty((2, len(worker)), np.int64)
    result[:, order] = counts, stale
    return result[0], result[1]


def _bits(step_size: Array | None, accepted: Array) -> IntArray:
    """Second differences of the bits of the step sizes, modulo 2⁶⁴."""
    bits = np.zeros(len(accepted), np.int64)
    given = np.full(len(accepted), np.nan) if step_size is None else np.asarray(step_size, np.float64)
    used = np.ascontiguousarray(given[accepted]).view(np.int64)
    for _ in range(2):
        used = np.diff(used, prepend=np.int64(0))
    bits[accepted] = used
    return bits


def _ticks(rows: ChainTrace) -> IntArray:
    """Differences of the times, modulo 2⁶⁴."""
    time = np.full(len(rows), np.nan) if rows.time is None else np.asarray(rows.time, np.float64)
    at = np.rint(time * TICKS)
    if np.any(np.abs(at) > _LONGEST):
        raise StoreError(f"a store cannot keep times beyond {_LONGEST / TICKS:.1e} s. Give smaller virtual seconds")
    known = np.isnan(at)
    return np.diff(np.where(known, _NO_TIME, np.where(known, 0.0, at).astype(np.int64)), prepend=np.int64(0))


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
