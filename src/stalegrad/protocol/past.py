"""What a chain must know of its past to go on: the trace of earlier sessions in a few numbers."""

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from stalegrad.protocol.chain_trace import ChainTrace


@dataclass(frozen=True)
class Past:
    """The trace of a chain until now, as far as what comes next depends on it. It does not grow with the trace.

    Args:
        rows: gradients that have reached the server.
        steps: of these, how many were accepted: the chain's version.
        staleness_sum: Σ τ_l of the accepted.
        staleness_max: the largest of them.
        seconds: when the last one was dealt with, since the run's start; 0 where times are not known.
        counts: by worker, the largest number of a minibatch that it has sent a gradient of.
    """

    rows: int = 0
    steps: int = 0
    staleness_sum: int = 0
    staleness_max: int = 0
    seconds: float = 0.0
    counts: Mapping[int, int] = field(default_factory=dict)

    @classmethod
    def of(cls, trace: ChainTrace) -> "Past":
        """That of a chain with this trace, which is read block by block."""
        past = cls()
        for block in trace.blocks():
            past = past.then(block)
        return past

    def then(self, rows: ChainTrace) -> "Past":
        """After some more gradients, whose times count from the run's start."""
        if not len(rows):
            return self
        used = rows.updates().staleness
        workers, where = np.unique(rows.worker, return_inverse=True)
        largest = np.full(len(workers), -1, np.int64)
        np.maximum.at(largest, where, rows.count)
        counts = dict(self.counts)
        for worker, count in zip(workers.tolist(), largest.tolist(), strict=True):
            counts[worker] = max(counts.get(worker, -1), count)
        return Past(
            rows=self.rows + len(rows),
            steps=self.steps + len(used),
            staleness_sum=self.staleness_sum + int(used.sum(dtype=np.int64)),
            staleness_max=max(self.staleness_max, int(used.max(initial=0))),
            seconds=max(self.seconds, rows.seconds),
            counts=counts,
        )

    def next_counts(self, epoch: int = 1) -> dict[int, int]:
        """The number of the minibatch that each worker would get next, at the beginning of an epoch."""
        return {worker: -(-(count + 1) // epoch) * epoch for worker, count in self.counts.items()}
