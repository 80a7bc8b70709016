"""The order of updates, a stretch at a time: what an executor follows, of a trace or of a simulation under way."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

from stalegrad.protocol.chain_trace import ChainTrace


class Stretch(NamedTuple):
    """Some rows in a row.

    Args:
        rows: of the trace.
        depth: how many of the last points must be kept while they are executed, for these rows and for what comes
            after them: one more than the staleness of any gradient that reads a version of this stretch, or before.
    """

    rows: ChainTrace
    depth: int


@dataclass(frozen=True)
class Order:
    """All rows of a trace that may not exist as a whole.

    Args:
        updates: how many accepted rows there are in all.
        stretches: the rows, in order; they are gone through once.
    """

    updates: int
    stretches: Iterable[Stretch]

    @classmethod
    def of(cls, trace: ChainTrace) -> "Order":
        """That of a trace, which is read block by block."""
        depth = trace.staleness_counts.largest + 1
        return cls(trace.steps, (Stretch(block, depth) for block in trace.blocks()))
