"""The inline engine: everything in this process, one update after the other, in the order that a trace says.

It is the reference executor. A run on it is a simulated cluster's trace, executed; a replay is a recorded trace,
executed; R repetitions are the same trace executed on R rows at once.
"""

import threading
from dataclasses import dataclass, replace

import numpy as np

from stalegrad.chain import Chain, all_finite, refuse_bad_gradient
from stalegrad.checks import real_number
from stalegrad.engines.base import Job, Outcome
from stalegrad.engines.interrupts import stop_on_signals
from stalegrad.errors import GradientError
from stalegrad.potentials.base import Potential
from stalegrad.server import ChainStatus, Record
from stalegrad.simulation import Law, Network, simulate
from stalegrad.simulation.laws import as_law, as_network
from stalegrad.trace import ChainTrace
from stalegrad.types import Array, IntArray

_BLOCK_ENTRIES = 1 << 17  # minibatch indices drawn in one compiled call
_TURN = 64  # updates of a chain before it is the next chain's turn


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

    def __post_init__(self) -> None:
        as_law("compute", self.compute)
        as_network(self.network)
        real_number("update", self.update, least=0)

    def run(self, job: Job) -> Outcome:
        """Execute the job, chain after chain."""
        trace = simulate(
            workers=job.workers, steps=job.steps, compute=self.compute, network=self.network, update=self.update,
            servers=job.servers, max_staleness=job.max_staleness, policy=job.policy, seed=job.seed,
        )  # fmt: skip
        executions = [
            Execution(trace.chains[s], job.potential, job.chain(s), job.record(s), job.status[s])
            for s in range(job.servers)
        ]
        stop, interrupted = threading.Event(), threading.Event()
        with stop_on_signals(stop, interrupted):
            while not stop.is_set() and any(not execution.done for execution in executions):
                for execution in executions:  # by turns, so that all chains are equally far when somebody interrupts
                    execution.advance(_TURN, stop)
        return Outcome(tuple(execution.trace for execution in executions), interrupted=interrupted.is_set())


class Execution:
    """A trace on its way through a chain. Dropped gradients never touch a chain, so they are not computed.

    Args:
        trace: the order of things.
        potential: the model.
        chain: at its start.
        record: told of every update.
        status: kept up to date for displays.
    """

    def __init__(
        self, trace: ChainTrace, potential: Potential, chain: Chain, record: Record, status: ChainStatus | None = None
    ) -> None:
        self._trace, self._updates = trace, trace.updates()
        self._potential, self._chain, self._record = potential, chain, record
        self._status = status or ChainStatus()
        self._used: list[float] = []
        self._staleness: list[int] = self._updates.staleness.tolist()
        recorded = self._updates.step_size
        self._step_sizes = [None] * len(self._updates) if recorded is None else recorded.tolist()
        depth = max(self._staleness, default=0) + 1
        # The last points, by version modulo depth. A fresh gradient needs no copy of its point.
        self._points = [chain.point.copy() for _ in range(depth)] if depth > 1 else [chain.point]
        self._gradient = np.empty_like(chain.position)
        length = max(1, _BLOCK_ENTRIES // (chain.position.shape[0] * potential.batch_size))
        self._block_length = length
        self._block: IntArray = np.empty(0, np.int64)

    @property
    def done(self) -> bool:
        """Whether the trace is at its end."""
        return len(self._used) == len(self._updates)

    @property
    def trace(self) -> ChainTrace:
        """What has been executed, with the step sizes that were used."""
        done = self._trace if self.done else self._trace.head(len(self._used))
        step_size = np.full(len(done), np.nan)
        step_size[np.asarray(done.accepted, bool)] = self._used
        return replace(done, step_size=step_size)

    def advance(self, updates: int | None = None, stop: threading.Event | None = None) -> None:
        """Make so many updates, or all that are left, unless ``stop`` is set in between."""
        chain, points, gradient, staleness = self._chain, self._points, self._gradient, self._staleness
        gradients, record, used = self._potential.gradients, self._record, self._used
        depth, first = len(points), len(used)
        last = len(staleness) if updates is None else min(first + updates, len(staleness))
        for update in range(first, last):  # this loop is the inline engine's speed
            row = update % self._block_length
            if row == 0:
                self._draw_block(update)
            gradients(points[(update - staleness[update]) % depth], self._block[row], gradient)
            if not all_finite(gradient):
                _refuse(gradient, self._updates, update, chain)
            used.append(chain.advance(gradient, self._step_sizes[update]))
            if depth > 1:
                points[(update + 1) % depth][...] = chain.point
            record(update, chain, gradient)
            if stop is not None and stop.is_set():
                break
        self._report(first)

    def _draw_block(self, update: int) -> None:
        """The minibatches (R, J) of many updates in one compiled call: they do not depend on the chain."""
        rows = slice(update, update + self._block_length)
        chain, worker, count = self._chain, self._updates.worker[rows], self._updates.count[rows]
        repeats = chain.position.shape[0]
        self._block = self._potential.minibatches.draw_many(
            chain.seed, chain.chain, worker, count, repeats, chain.first_repeat
        )

    def _report(self, first: int) -> None:
        made = self._staleness[first : len(self._used)]
        self._status.accepted += len(made)
        self._status.staleness_sum += sum(made)
        self._status.staleness_max = max(self._status.staleness_max, max(made, default=0))


def execute(trace: ChainTrace, potential: Potential, chain: Chain, record: Record) -> ChainTrace:
    """Run the accepted updates of a trace in its order; returns the trace with the step sizes that were used."""
    execution = Execution(trace, potential, chain, record)
    execution.advance()
    return execution.trace


def _refuse(gradient: Array, updates: ChainTrace, update: int, chain: Chain) -> None:
    """Say where the gradient that cannot be used came from."""
    try:
        refuse_bad_gradient(gradient, chain.position)
    except GradientError as error:
        worker, count = updates.worker[update], updates.count[update]
        where = f"chain {chain.chain}, update {update}, minibatch {count} of worker {worker}"
        raise GradientError(f"{where}: {error}") from None
