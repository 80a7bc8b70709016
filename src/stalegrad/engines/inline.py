"""The inline engine: everything in this process, one update after the other, in the order that a trace says.

It is the reference executor. A run on it is a simulated cluster's trace, executed; a replay is a recorded trace,
executed; R repetitions are the same trace executed on R rows at once.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from stalegrad.chain import Chain, all_finite, refuse_bad_gradient
from stalegrad.engines.base import Job
from stalegrad.errors import GradientError
from stalegrad.potentials.base import Potential
from stalegrad.server import Record
from stalegrad.simulation import Law, Network, simulate
from stalegrad.trace import ChainTrace, Trace
from stalegrad.types import Array, IntArray

_BLOCK_ENTRIES = 1 << 17  # minibatch indices drawn in one compiled call


@dataclass(frozen=True)
class Inline:
    """Simulate the cluster, execute its trace here.

    The defaults make every worker equally fast, so that workers take turns and staleness is W − 1.

    Args:
        compute: virtual seconds for a gradient, a number or a law of :mod:`stalegrad.simulation`.
        network: the virtual link of a server.
        update: virtual seconds for an update.
    """

    compute: Law | float = 1.0
    network: Network | float | None = None
    update: float = 0.0

    def run(self, job: Job) -> Trace:
        """Execute the job."""
        trace = simulate(
            workers=job.workers, steps=job.steps, compute=self.compute, network=self.network, update=self.update,
            servers=job.servers, max_staleness=job.max_staleness, policy=job.policy, seed=job.seed,
        )  # fmt: skip
        chains = [execute(trace.chains[s], job.potential, job.chain(s), job.record(s)) for s in range(job.servers)]
        return Trace(tuple(chains), seed=job.seed)


def execute(trace: ChainTrace, potential: Potential, chain: Chain, record: Record) -> ChainTrace:
    """Run the accepted updates of a trace in its order; returns the trace with the step sizes that were used.

    Dropped gradients never touch a chain, so they are not computed.
    """
    updates = trace.updates()
    depth = int(updates.staleness.max(initial=0)) + 1
    history = np.repeat(chain.point[None], depth, axis=0)  # the last points, by version modulo depth
    points = list(history) if depth > 1 else [chain.point]  # a fresh gradient needs no copy of its point
    gradient = np.empty_like(chain.position)
    used: list[float] = []
    staleness = updates.staleness.tolist()
    steps = [None] * len(updates) if updates.step_size is None else updates.step_size.tolist()
    gradients, advance = potential.gradients, chain.advance  # this loop is the inline engine's speed
    for first, batches in _batches(updates, potential, chain):
        for update, indices in enumerate(batches, first):
            gradients(points[(update - staleness[update]) % depth], indices, gradient)
            if not all_finite(gradient):
                _refuse(gradient, updates, update, chain)
            used.append(advance(gradient, steps[update]))
            if depth > 1:
                points[(update + 1) % depth][...] = chain.point
            record(update, chain.position)
    step_size = np.full(len(trace), np.nan)
    step_size[np.asarray(trace.accepted, bool)] = used
    return ChainTrace(trace.worker, trace.count, trace.staleness, trace.accepted, step_size, trace.time)


def _refuse(gradient: Array, updates: ChainTrace, update: int, chain: Chain) -> None:
    """Say where the gradient that cannot be used came from."""
    try:
        refuse_bad_gradient(gradient, chain.position)
    except GradientError as error:
        worker, count = updates.worker[update], updates.count[update]
        where = f"chain {chain.chain}, update {update}, minibatch {count} of worker {worker}"
        raise GradientError(f"{where}: {error}") from None


def _batches(updates: ChainTrace, potential: Potential, chain: Chain) -> Iterator[tuple[int, IntArray]]:
    """The minibatches (update, R, J) of many updates at a time, and the first update's number.

    They do not depend on the chain, so that one compiled call can draw them ahead.
    """
    repeats = chain.position.shape[0]
    length = max(1, _BLOCK_ENTRIES // (repeats * potential.batch_size))
    for first in range(0, len(updates), length):
        rows = slice(first, first + length)
        yield (
            first,
            potential.minibatches.draw_many(
                chain.seed, chain.chain, updates.worker[rows], updates.count[rows], repeats, chain.first_repeat
            ),
        )
