"""How a chain is advanced: the one executor of traces, behind replays, simulated clusters and diagnostics.

A run on the inline engine is a simulated cluster's trace, executed; a replay is a recorded trace, executed; R
repetitions are the same trace executed on R rows at once.
"""

import warnings
from array import array
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from stalegrad._internal.errors import GradientError, NotFinite
from stalegrad._internal.jit import is_compiled
from stalegrad._internal.types import Array, IntArray
from stalegrad.potentials.address import GradientAddress
from stalegrad.potentials.base import Potential
from stalegrad.protocol.block import execute_block
from stalegrad.protocol.chain import Chain, Each, Record, all_finite, diverged, refuse_bad_gradient
from stalegrad.protocol.chain_trace import ChainTrace, joined
from stalegrad.protocol.order import Order, Stretch
from stalegrad.protocol.past import Past
from stalegrad.protocol.server import ChainStatus
from stalegrad.protocol.trace_builder import TraceBuilder
from stalegrad.protocol.turn import compiles

_BLOCK_ENTRIES = 1 << 17  # minibatch indices drawn, or used, in one compiled call
_TURN = 64  # updates of a chain before it is the next chain's turn
_TURN_OF_BLOCKS = 2048  # likewise, of a chain that advances in compiled blocks
_SHOWN = 1024  # updates after which displays see their rows
WORTH_A_BLOCK = 100_000
"""So many updates are worth compiling a loop for the model and kernel at hand, see :mod:`stalegrad.protocol.block`.

That takes 3 to 8 s, and an update then 2 to 30 µs instead of 12 to 40: the first such run may lose, later ones gain."""
WORTH_LOADING = 10_000
"""So many are worth loading one from disk that was compiled before."""
WORTH_A_SCAN = 5_000
"""So many updates of a model in JAX, of all repetitions, are worth compiling a program that makes many of them."""


class Executor:
    """A trace on its way through a chain. Dropped gradients never touch a chain, so they are not computed.

    Args:
        order: the order of things: a trace, or an :class:`~stalegrad.protocol.order.Order`.
        potential: the model.
        chain: at its start, or where its past has brought it.
        record: called with every update.
        status: kept up to date for displays.
        past: what happened to the chain before; the trace goes on from there.
        keep_rows: whether to collect the rows that have been executed, for :attr:`trace` and :meth:`take_rows`.
        points: what :attr:`points` was where an execution was left that this one goes on with, bit for bit: the rest of
            its trace, with the chain as it was then. None where the trace begins.
    """

    def __init__(
        self,
        order: ChainTrace | Order,
        potential: Potential,
        chain: Chain,
        record: Record,
        status: ChainStatus | None = None,
        past: Past | None = None,
        *,
        keep_rows: bool = True,
        points: Array | None = None,
    ) -> None:
        order = Order.of(order) if isinstance(order, ChainTrace) else order
        self._stretches, self._total = iter(order.stretches), order.updates
        self._past = past
        self._potential, self._chain, self._record = potential.for_worker(), chain, record
        self._status = status or ChainStatus()
        self._executed = TraceBuilder(whole=past is None or not past.rows) if keep_rows else None
        self._status.rows = self._executed
        self._made = 0  # updates of all stretches
        self._used = array("d")  # the step size of each update made of this stretch
        self._settled = 0  # rows of this stretch that are in _executed
        # The last points, by version modulo depth; this version is 0. A fresh gradient needs no copy of its point.
        self._points = chain.point[None] if points is None or len(points) == 1 else np.roll(points, 1, axis=0)
        self._gradient = np.empty_like(chain.position)
        self._block_length = max(1, _BLOCK_ENTRIES // (chain.position.shape[0] * potential.batch_size))
        self._block: IntArray = np.empty(0, np.int64)  # minibatches drawn in advance, ...
        self._block_first = 0  # ... from this update of the stretch on
        self._scan: Any = None
        self._told = False  # that updates which were made in programs of many are made one by one
        self._scan_is_worth_it = self._total * len(chain.position) >= WORTH_A_SCAN
        self._enter(Stretch(joined([]), 1))
        self._skip_finished()
        self._bound = self._bound_for_blocks()

    @property
    def turn(self) -> int:
        """How many updates to make before it is another chain's turn."""
        if self._scan is not None:
            return int(self._scan.length)
        return _TURN if self._bound is None else _TURN_OF_BLOCKS

    @property
    def done(self) -> bool:
        """Whether the trace is at its end."""
        return self._made == self._total

    @property
    def trace(self) -> ChainTrace:
        """What has been executed and not been taken, with the step sizes that were used."""
        assert self._executed is not None, "rows are kept unless they are there already"
        self._settle()
        return self._executed.build()

    @property
    def waiting(self) -> int:
        """About how many rows have been executed and not been taken."""
        return 0 if self._executed is None else len(self._executed)

    def take_rows(self) -> ChainTrace:
        """The rows that have been executed since the last time; from now on they are the caller's."""
        assert self._executed is not None, "rows are kept unless they are there already"
        self._settle()
        return self._executed.take()

    @property
    def points(self) -> Array:
        """The last points that workers may still be computing at, oldest first: (depth, R, n)."""
        depth = len(self._points)
        return np.array([self._points[version % depth] for version in range(self._made - depth + 1, self._made + 1)])

    @property
    def chain(self) -> Chain:
        """The chain, as far as it has been advanced."""
        return self._chain

    def advance(self, updates: int | None = None, stop: Callable[[], bool] | None = None) -> None:
        """Make so many updates, or all that are left, unless ``stop`` says so in between."""
        left = self._total - self._made
        last = self._made + (left if updates is None else min(updates, left))
        while self._made < last and not (stop is not None and stop()):
            before = len(self._used)
            count = min(last - self._made, len(self._updates) - before)
            alike = self._alike(before, count)
            if self._scanned[before]:
                self._advance_in_scans(alike, stop)
            elif self._bound is not None:
                self._advance_in_blocks(alike, stop)
            else:
                self._advance_one_by_one(alike, stop)
            self._report(before)
            self._skip_finished()

    def _alike(self, first: int, updates: int) -> int:
        """How many of so many updates from ``first`` on are made in the same way as it."""
        ways = self._scanned[first : first + updates]
        other = np.flatnonzero(ways != ways[0])
        return int(other[0]) if len(other) else updates

    def _advance_in_scans(self, updates: int, stop: Callable[[], bool] | None) -> None:
        """Make so many updates of this stretch, which has them, many in one call of JAX's."""
        from stalegrad.protocol.scan_jax import Rows

        chain, last = self._chain, len(self._used) + updates
        while len(self._used) < last and not (stop is not None and stop()):
            first = len(self._used)
            offered = self._record.window(chain.version, min(last - first, self._scan.length))
            assert offered is not None, "asked before the first program"
            window, room = offered
            block = slice(first, first + room)
            coefficients, used = chain.coefficient_rows(room, self._recorded_steps(block))
            rows = Rows(
                self._updates.worker[block], self._updates.count[block], self._staleness[block], coefficients,
                *chain.foresight_rows(room, used), self._first + first,
            )  # fmt: skip
            made, gradient = self._scan.advance(rows, self._points, window)
            self._used.frombytes(used[:made].tobytes())
            self._record.filled(chain.version)
            if made < room:
                _refuse(gradient, self._updates, first + made, self._first + first + made, chain)

    def _advance_one_by_one(self, updates: int, stop: Callable[[], bool] | None) -> None:
        """Make so many updates of this stretch, which has them."""
        chain, points, gradient = self._chain, list(self._points), self._gradient
        gradients, record, used = self._potential.gradients, self._record, self._used
        depth, first, offset = len(points), len(used), self._first
        addressed, per_worker_points = self._potential.addressed, chain.per_worker_points
        rounds = chain.wire.rounds
        staleness, workers, step_sizes = self._as_lists(first, first + updates)
        for turn in range(updates):  # this loop is the inline engine's speed
            update = offset + first + turn
            point = points[(update - staleness[turn]) % depth]
            if per_worker_points:
                point = chain.point_for(workers[turn], point)
            if rounds:
                point = chain.as_sent(point, chain.version - staleness[turn])
            if addressed:
                self._potential.answer(point, self._address(first + turn), gradient)
            else:
                row = first + turn - self._block_first
                if not 0 <= row < len(self._block):
                    self._block, self._block_first, row = self._draw(first + turn, self._block_length), first + turn, 0
                gradients(point, self._block[row], gradient)
            if not all_finite(gradient):
                _refuse(gradient, self._updates, first + turn, update, chain)
            used.append(chain.apply(gradient, workers[turn], record, step_sizes[turn]))
            if depth > 1:
                points[(update + 1) % depth][...] = chain.point
            if stop is not None and stop():
                break

    def _address(self, entry: int) -> GradientAddress:
        """The address of the gradient of an update of this stretch."""
        chain, worker, count = self._chain, int(self._updates.worker[entry]), int(self._updates.count[entry])
        return GradientAddress(chain.seed, chain.chain, worker, count, chain.first_repeat)

    def _bound_for_blocks(self) -> Any:
        """What a compiled block needs of the model; None if model, kernel or recorder cannot, or it is not worth it."""
        bound = self._potential.bound
        if self._total < min(WORTH_A_BLOCK, WORTH_LOADING):
            return None
        if not compiles(self._potential, self._chain, self._record):
            return None
        if self._total >= WORTH_A_BLOCK:
            return bound
        arguments, _ = self._for_block(bound, 1)
        return bound if is_compiled(execute_block, arguments) else None

    def _for_block(self, bound: Any, updates: int) -> tuple[tuple[Any, ...], Array]:
        """The arguments of a compiled block of at most so many updates from here on, and their step sizes."""
        chain, first = self._chain, len(self._used)
        offered = self._record.window(chain.version, updates)
        assert offered is not None, "asked before the first block"
        window, room = offered
        block = slice(first, first + room)
        rows, used = chain.coefficient_rows(room, self._recorded_steps(block))
        linear, ahead = chain.foresight_rows(room, used)
        workers, counts = self._updates.worker[block], self._updates.count[block]
        arguments = (
            bound, self._potential.minibatches.for_compiled_code, chain.state, chain.kernel.momentum(chain.state),
            chain.present_point, chain.point, linear, ahead, self._points, workers.astype(np.int64),
            counts.astype(np.int64), self._staleness[block], rows,
            (chain.key, chain.chain, chain.first_repeat, chain.version), self._first + first, tuple(window),
            self._gradient,
        )  # fmt: skip
        return arguments, used

    def _advance_in_blocks(self, updates: int, stop: Callable[[], bool] | None) -> None:
        """Make so many updates of this stretch, which has them, many in one compiled call."""
        chain, last = self._chain, len(self._used) + updates
        while len(self._used) < last and not (stop is not None and stop()):
            arguments, used = self._for_block(self._bound, min(last - len(self._used), self._block_length))
            made = execute_block(*arguments)
            chain.advanced(made)
            self._used.frombytes(used[:made].tobytes())
            self._record.filled(chain.version)
            if made < len(used):
                bad = len(self._used)
                point = self._points[(self._first + bad - self._staleness[bad]) % len(self._points)]
                self._potential.gradients(point, self._draw(bad, 1)[0], self._gradient)
                _refuse(self._gradient, self._updates, bad, self._first + bad, chain)

    def _recorded_steps(self, rows: slice) -> Array | None:
        recorded = self._updates.step_size
        return None if recorded is None else recorded[rows]

    def _as_lists(self, first: int, last: int) -> tuple[list[int], list[int], list[float | None]]:
        """Staleness, worker and step size, if there was one, of these updates: lists are faster to read one by one."""
        rows = slice(first, last)
        recorded = self._recorded_steps(rows)
        steps: list[float | None] = [None] * (last - first) if recorded is None else recorded.tolist()
        return self._staleness[rows].tolist(), self._updates.worker[rows].tolist(), steps

    def _draw(self, first: int, updates: int) -> IntArray:
        """The minibatches (R, J) of many updates in one compiled call: they do not depend on the chain."""
        rows = slice(first, first + updates)
        chain, worker, count = self._chain, self._updates.worker[rows], self._updates.count[rows]
        repeats = chain.position.shape[0]
        return self._potential.minibatches.draw_many(
            chain.seed, chain.chain, worker, count, repeats, chain.first_repeat
        )

    def _report(self, before: int) -> None:
        """Add what was made of this stretch, since so many updates of it had been made, to all figures."""
        made = self._staleness[before : len(self._used)]
        self._made += len(made)
        self._status.accepted += len(made)
        self._status.staleness_sum += int(made.sum())
        self._status.staleness_max = max(self._status.staleness_max, int(made.max(initial=0)))
        if self._executed is not None and self._executed.watched and len(self._used) - self._settled >= _SHOWN:
            self._settle()

    def _skip_finished(self) -> None:
        """Go on to the next stretch with an update that is still to be made, if there is one."""
        while len(self._used) == len(self._updates):
            self._settle()
            following = next(self._stretches, None)
            if following is None:
                return
            self._enter(following)

    def _enter(self, stretch: Stretch) -> None:
        rows, depth = stretch
        if self._past is not None and self._past.rows:
            rows = _continued(rows, self._past, self._potential.epoch)
        self._rows, self._updates = rows, rows.updates()
        self._first = self._made  # number of the first update of this stretch in the execution
        self._staleness = np.ascontiguousarray(self._updates.staleness, np.int64)
        self._scanned = self._ways()
        if self._scan is not None:
            depth = self._scan.ring_size(depth)
        self._used, self._settled = array("d"), 0
        self._block, self._block_first = np.empty(0, np.int64), 0
        if depth > len(self._points):
            kept, current = len(self._points), self._chain.point
            deeper = np.repeat(current[None], depth, axis=0)
            for version in range(self._made - kept + 1, self._made + 1):
                deeper[version % depth] = self._points[version % kept]
            self._points = deeper

    def _ways(self) -> Array:
        """Which updates of this stretch are made by programs of many: those that were, and new ones if it pays."""
        recorded = self._updates.scanned
        if recorded is None:
            ways = np.full(len(self._updates), self._scan_is_worth_it)
        else:
            ways = (recorded == 1) | ((recorded < 0) & self._scan_is_worth_it)
        if self._scan is None and ways.any() and self._potential.traced is not None:
            from stalegrad.protocol.scan_jax import Scan  # JAX is at hand where such a model is

            self._scan = Scan.of(self._potential, self._chain, self._record)
        if self._scan is not None:
            return ways
        if recorded is not None and np.any(recorded == 1) and not self._told:
            self._told = True
            _tell_of_other_bits(int(np.count_nonzero(recorded == 1)), self._potential, self._chain)
        return np.zeros(len(ways), bool)

    def _settle(self) -> None:
        """Collect the rows that have been executed, with the step sizes that were used."""
        if self._executed is None:
            return
        made = len(self._used)
        accepted = np.flatnonzero(self._rows.accepted)
        end = len(self._rows) if made == len(accepted) else int(accepted[made - 1]) + 1 if made else 0
        done = self._rows.part(slice(self._settled, end))
        if len(done):
            step_size = np.full(len(done), np.nan)
            taken = np.asarray(done.accepted, bool)
            first = made - int(np.count_nonzero(taken))
            step_size[taken] = self._used[first:made]
            scanned = np.zeros(len(done), np.int8)
            scanned[taken] = self._scanned[first:made]
            self._executed.extend(replace(done, step_size=step_size, scanned=scanned))
        self._settled = end


def _continued(rows: ChainTrace, past: Past, epoch: int) -> ChainTrace:
    """Rows that go on where the past has stopped: in time, and with each worker at a new epoch of its minibatches."""
    used = past.next_counts(epoch)
    first = np.array([used.get(worker, 0) for worker in range(int(rows.worker.max(initial=0)) + 1)])
    return replace(
        rows, count=rows.count + first[rows.worker], time=None if rows.time is None else rows.time + past.seconds
    )


def execute(
    trace: ChainTrace, potential: Potential, chain: Chain, record: Record | Callable[[int, Chain, Array], object]
) -> ChainTrace:
    """Run the accepted updates of a trace in its order; returns the trace with the step sizes that were used.

    Args:
        trace: the order of things.
        potential: the model.
        chain: at its start.
        record: called with every update; a function of (update, chain, gradient) will do.
    """
    known = trace.has_step_sizes  # then the trace is what is executed, to the last bit
    record = record if isinstance(record, Record) else Each(record)
    executor = Executor(trace, potential, chain, record, keep_rows=not known)
    executor.advance()
    return trace if known else executor.trace


def _tell_of_other_bits(updates: int, potential: Potential, chain: Chain) -> None:
    """Warn that a trace cannot be replayed to the last bit, and say what would help."""
    if potential.traced is None:
        why = f"JAX cannot follow the model that is given ({type(potential).__name__})"
        remedy = "give the model that made the trace, of from_jax or from_numpyro"
    else:
        why = f"{type(chain.kernel).__name__}, the architecture or what is recorded needs Python between two of them"
        remedy = "give the kernel and the architecture that made it, and record draws rather than call a function"
    warnings.warn(
        f"chain {chain.chain}: {updates:,} updates of the trace were made many in one program of JAX's (column "
        f"'scanned'), and no such program can be made here: {why}. They are made one by one, which may change their "
        f"last bits: the draws will be close to those of the run and not the same. For the same draws {remedy}",
        stacklevel=2,
    )


def _refuse(gradient: Array, updates: ChainTrace, entry: int, update: int, chain: Chain) -> None:
    """Say where the gradient that cannot be used came from."""
    worker, count = updates.worker[entry], updates.count[entry]
    where = f"minibatch {count} of worker {worker}"
    try:
        refuse_bad_gradient(gradient, chain.position)
    except NotFinite as error:
        raise diverged(chain.chain, chain.version, f"{error}, on {where}") from None
    except GradientError as error:
        raise GradientError(f"chain {chain.chain}, update {update}, {where}: {error}") from None
