"""A stretch of a chain's future that compiled workers can go through without Python: a segment.

Everything that depends on the number of an update is laid out in advance: the coefficients of the kernel's formula,
where draws go, and room for the rows of the trace. It ends with its updates, or when one of its arrays is full.
"""

from typing import NamedTuple

import numpy as np

from stalegrad._internal.types import Array, IntArray
from stalegrad.kernels.schedules import Constant
from stalegrad.protocol.chain import Chain, Record
from stalegrad.protocol.chain_trace import ChainTrace, unchecked
from stalegrad.protocol.draws import Window

_UPDATES = 1 << 15
_UPDATES_OF_SCHEDULES = 1 << 11  # whose step sizes and coefficients Python computes one by one, while all wait
WORKER, MINIBATCH, STALENESS, ACCEPTED, NANOSECONDS, TOOK = range(6)  # columns of ``rows``


class Segment(NamedTuple):
    """What compiled workers need of the present segment.

    Args:
        number: it is the number-th of the run.
        first: the version of the chain at its start.
        last: the version at its end.
        coefficients: of the kernel's formula, a row an update, or one row for all.
        ahead: α, c and s of each update, see :func:`stalegrad.protocol.turn.make_update`, or one row for all.
        window: where draws go.
        rows: those of the trace, from the first on.
    """

    number: int
    first: int
    last: int
    coefficients: Array
    ahead: Array
    window: Window
    rows: IntArray


def next_segment(
    chain: Chain, record: Record, number: int, steps: int, most: int | None = None
) -> tuple[Segment, Array]:
    """The segment from where the chain is now, at most up to ``steps`` updates, and the step sizes of its updates."""
    constant = isinstance(chain.kernel.schedule, Constant) and chain.kernel.heat is None
    longest = _UPDATES if constant else _UPDATES_OF_SCHEDULES
    longest = min(longest, most or longest)
    offered = record.window(chain.version, min(steps - chain.version, longest))
    assert offered is not None, "asked before the first segment"
    window, updates = offered
    coefficients, step_sizes = chain.coefficient_rows(updates)
    _, ahead = chain.foresight_rows(updates, step_sizes)
    rows = np.empty((2 * updates + 64, TOOK + 1), np.int64)
    first = chain.version
    return Segment(number, first, first + updates, coefficients, ahead, window, rows), step_sizes


def trace_rows(rows: IntArray, step_sizes: Array) -> ChainTrace:
    """Some rows of a segment as those of a trace, given the step sizes of the updates among them."""
    accepted = rows[:, ACCEPTED] != 0
    used = np.full(len(rows), np.nan)
    used[accepted] = step_sizes
    return unchecked(
        worker=rows[:, WORKER], count=rows[:, MINIBATCH], staleness=rows[:, STALENESS], accepted=accepted,
        step_size=used, time=rows[:, NANOSECONDS] * 1e-9, scanned=np.zeros(len(rows), np.int8),
        gradient_seconds=(rows[:, TOOK] * 1e-9).astype(np.float32),
    )  # fmt: skip
