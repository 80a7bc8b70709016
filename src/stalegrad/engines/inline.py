"""The inline engine: everything in this process, one update after the other, in the order that a trace says.

It is the reference executor. A run on it is a simulated cluster's trace, executed; a replay is a recorded trace,
executed; R repetitions are the same trace executed on R rows at once.
"""

import threading
from array import array
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from stalegrad.chain import Chain, all_finite, refuse_bad_gradient
from stalegrad.checks import real_number
from stalegrad.engines.base import Checkpoint, Job, Outcome
from stalegrad.engines.block import execute_block
from stalegrad.engines.interrupts import stop_on_signals
from stalegrad.errors import GradientError
from stalegrad.jit import is_compiled
from stalegrad.kernels.base import has_compiled_update
from stalegrad.potentials.base import Potential, Whose
from stalegrad.potentials.shards import shard_weights
from stalegrad.server import ChainStatus, Record
from stalegrad.simulation import Law, Network, simulate
from stalegrad.simulation.laws import Several, as_law, as_network
from stalegrad.trace import ChainTrace
from stalegrad.types import Array, IntArray

_BLOCK_ENTRIES = 1 << 17  # minibatch indices drawn, or used, in one compiled call
_TURN = 64  # updates of a chain before it is the next chain's turn
_TURN_OF_BLOCKS = 2048  # likewise, of a chain that advances in compiled blocks
WORTH_A_BLOCK = 100_000
"""So many updates are worth compiling a loop for the model and kernel at hand, see :mod:`stalegrad.engines.block`.

That takes 3 to 8 s, and an update then 2 to 30 µs instead of 12 to 40: the first such run may lose, later ones gain."""
WORTH_LOADING = 10_000
"""So many are worth loading one from disk that was compiled before."""


@dataclass(frozen=True)
class Inline:
    """Simulate the cluster, execute its trace here.

    The defaults make every worker equally fast, so that workers take turns and staleness is W − 1.

    Args:
        compute: virtual seconds for a gradient, of which an answer may take several: a number, or a law of
            :mod:`stalegrad.simulation`.
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
        chains = [job.chain(s) for s in range(job.servers)]
        left = [job.steps - chain.version for chain in chains]
        numbers = getattr(job.potential, "gradient_numbers", None)
        compute = self.compute if numbers is None else Several(of=as_law("compute", self.compute), numbers=numbers)
        trace = simulate(
            workers=job.workers, steps=max(1, *left), compute=compute, network=self.network, update=self.update,
            servers=job.servers, max_staleness=job.max_staleness, policy=job.policy, seed=job.seed,
        )  # fmt: skip
        executions = [
            Execution(trace.chains[s].head(left[s]), job.potential, chain, job.record(s), job.status[s], job.past_of(s))
            for s, chain in enumerate(chains)
        ]
        checkpoints = [job.checkpoint(s) for s in range(job.servers)] if job.checkpoint else []
        stop, interrupted = threading.Event(), threading.Event()
        with stop_on_signals(stop, interrupted):
            while not stop.is_set() and any(not execution.done for execution in executions):
                for execution in executions:  # by turns, so that all chains are equally far when somebody interrupts
                    execution.advance(execution.turn, stop)
                for execution, checkpoint in zip(executions, checkpoints, strict=False):
                    if checkpoint.due():
                        execution.save(checkpoint)
        for execution, checkpoint in zip(executions, checkpoints, strict=False):
            execution.save(checkpoint)
        return Outcome(tuple(execution.trace for execution in executions), interrupted=interrupted.is_set())


class Execution:
    """A trace on its way through a chain. Dropped gradients never touch a chain, so they are not computed.

    Args:
        trace: the order of things.
        potential: the model.
        chain: at its start, or where its past has brought it.
        record: told of every update.
        status: kept up to date for displays.
        past: what happened to the chain before; the trace goes on from there.
    """

    def __init__(
        self,
        trace: ChainTrace,
        potential: Potential,
        chain: Chain,
        record: Record,
        status: ChainStatus | None = None,
        past: ChainTrace | None = None,
    ) -> None:
        if past is not None and len(past):
            trace = _with_fresh_counts(trace, past, potential.epoch)
        self._trace, self._updates = trace, trace.updates()
        self._past, self._offset = past, chain.version
        self._potential, self._chain, self._record = potential.own(), chain, record
        self._status = status or ChainStatus()
        self._used = array("d")  # the step size of each update made
        self._staleness = np.ascontiguousarray(self._updates.staleness, np.int64)
        depth = int(self._staleness.max(initial=0)) + 1
        # The last points, by version modulo depth. A fresh gradient needs no copy of its point.
        self._points = np.repeat(chain.point[None], depth, axis=0) if depth > 1 else chain.point[None]
        self._gradient = np.empty_like(chain.position)
        shards = shard_weights(potential.minibatches, None if past is None else past.updates().worker)
        self._weights = None if shards is None else shards.next(self._updates.worker).astype(chain.position.dtype)
        length = max(1, _BLOCK_ENTRIES // (chain.position.shape[0] * potential.batch_size))
        self._block_length = length
        self._block: IntArray = np.empty(0, np.int64)
        self._bound = self._bound_for_blocks()

    @property
    def turn(self) -> int:
        """How many updates to make before it is another chain's turn."""
        return _TURN if self._bound is None else _TURN_OF_BLOCKS

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
        done = replace(done, step_size=step_size)
        return done if self._past is None else self._past.then(done)

    def save(self, checkpoint: Checkpoint) -> None:
        """Save the chain as it is now."""
        trace = self.trace
        checkpoint.save(self._chain, trace.rows, ())

    def advance(self, updates: int | None = None, stop: threading.Event | None = None) -> None:
        """Make so many updates, or all that are left, unless ``stop`` is set in between."""
        if self._bound is not None:
            return self._advance_in_blocks(updates, stop)
        chain, points, gradient = self._chain, list(self._points), self._gradient
        gradients, record, used = self._potential.gradients, self._record, self._used
        depth, first, offset = len(points), len(used), self._offset
        weights, addressed, own_points = self._weights, self._potential.addressed, chain.own_points
        last = self._last_of(updates)
        staleness, workers, step_sizes = self._as_lists(first, last)
        for update in range(first, last):  # this loop is the inline engine's speed
            turn = update - first
            point = points[(update - staleness[turn]) % depth]
            if own_points:
                point = chain.point_for(workers[turn], point)
            if addressed:
                self._potential.answer(point, self._whose(update), gradient)
            else:
                row = update % self._block_length
                if row == 0:
                    self._block = self._draw(update, self._block_length)
                gradients(point, self._block[row], gradient)
            if weights is not None:
                gradient *= weights[update]
            if not all_finite(gradient):
                _refuse(gradient, self._updates, update, chain)
            used.append(chain.advance(gradient, step_sizes[turn], workers[turn]))
            if depth > 1:
                points[(update + 1) % depth][...] = chain.point
            record(offset + update, chain, gradient)
            if stop is not None and stop.is_set():
                break
        self._report(first)

    def _whose(self, update: int) -> Whose:
        """The address of the gradient of an update."""
        chain, worker, count = self._chain, int(self._updates.worker[update]), int(self._updates.count[update])
        return Whose(chain.seed, chain.chain, worker, count, chain.first_repeat)

    def _bound_for_blocks(self) -> Any:
        """What a compiled block needs of the model; None if model, kernel or recorder cannot, or it is not worth it."""
        able = has_compiled_update(self._chain.state) and hasattr(self._record, "window")
        able = able and not self._potential.addressed and type(self._chain) is Chain
        bound = getattr(self._potential, "bound", None) if able else None
        if bound is None or len(self._updates) < min(WORTH_A_BLOCK, WORTH_LOADING):
            return None
        if len(self._updates) >= WORTH_A_BLOCK:
            return bound
        arguments, _ = self._for_block(bound, 1)
        return bound if is_compiled(execute_block, arguments) else None

    def _for_block(self, bound: Any, updates: int) -> tuple[tuple[Any, ...], Array]:
        """The arguments of a compiled block of at most so many updates from here on, and their step sizes."""
        chain, first = self._chain, len(self._used)
        window, room = self._record.window(chain.version, updates)  # type: ignore[attr-defined]
        block = slice(first, first + room)
        rows, used = chain.coefficient_rows(room, self._recorded_steps(block))
        workers, counts = self._updates.worker[block], self._updates.count[block]
        arguments = (
            bound, self._potential.minibatches.for_compiled_code, chain.state, chain.kernel.momentum(chain.state),
            chain.point, self._points, workers.astype(np.int64), counts.astype(np.int64), self._staleness[block], rows,
            (chain.key, chain.chain, chain.first_repeat, chain.version), first, tuple(window), self._gradient,
        )  # fmt: skip
        return arguments, used

    def _advance_in_blocks(self, updates: int | None, stop: threading.Event | None) -> None:
        chain, first, last = self._chain, len(self._used), self._last_of(updates)
        while len(self._used) < last and not (stop is not None and stop.is_set()):
            arguments, used = self._for_block(self._bound, min(last - len(self._used), self._block_length))
            made = execute_block(*arguments)
            chain.advanced(made)
            self._used.frombytes(used[:made].tobytes())
            self._record.filled(chain.version)  # type: ignore[attr-defined]
            if made < len(used):
                bad = len(self._used)
                point = self._points[(bad - self._staleness[bad]) % len(self._points)]
                self._potential.gradients(point, self._draw(bad, 1)[0], self._gradient)
                _refuse(self._gradient, self._updates, bad, chain)
        self._report(first)

    def _last_of(self, updates: int | None) -> int:
        """Before which update to stop when so many more, or all, are wanted."""
        left = len(self._updates) - len(self._used)
        return len(self._used) + (left if updates is None else min(updates, left))

    def _recorded_steps(self, rows: slice) -> Array | None:
        recorded = self._updates.step_size
        return None if recorded is None else recorded[rows]

    def _as_lists(self, first: int, last: int) -> tuple[list[int], list[int], list[float | None]]:
        """Staleness, worker and step size, if there was one, of these updates: lists are faster to read one by one."""
        rows = slice(first, last)
        recorded = self._recorded_steps(rows)
        steps: list[float | None] = [None] * (last - first) if recorded is None else recorded.tolist()
        return self._staleness[rows].tolist(), self._updates.worker[rows].tolist(), steps

    def _draw(self, update: int, updates: int) -> IntArray:
        """The minibatches (R, J) of many updates in one compiled call: they do not depend on the chain."""
        rows = slice(update, update + updates)
        chain, worker, count = self._chain, self._updates.worker[rows], self._updates.count[rows]
        repeats = chain.position.shape[0]
        return self._potential.minibatches.draw_many(
            chain.seed, chain.chain, worker, count, repeats, chain.first_repeat
        )

    def _report(self, first: int) -> None:
        made = self._staleness[first : len(self._used)]
        self._status.accepted += len(made)
        self._status.staleness_sum += int(made.sum())
        self._status.staleness_max = max(self._status.staleness_max, int(made.max(initial=0)))


def _with_fresh_counts(trace: ChainTrace, past: ChainTrace, epoch: int) -> ChainTrace:
    """The trace with minibatch numbers that go on where the past has stopped, at a new epoch of every worker."""
    used = past.next_counts(epoch)
    first = np.array([used.get(worker, 0) for worker in range(int(trace.worker.max(initial=0)) + 1)])
    return replace(trace, count=trace.count + first[trace.worker])


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
