"""Many updates of a model that JAX can follow in one compiled program: no Python between two gradients.

The program is a loop over updates that does what ``Chain.apply`` does: the gradient at the point that the trace says
was read, out of the last points; the linear part that the server owns; the kernel's own formula; and the point
that workers are sent next. Noise and minibatches come from outside, made by the compiled code that makes them
elsewhere, so that they are the same numbers.

XLA fuses the operations of a program as it sees fit, and a fused multiply-add rounds once where two operations round
twice. So the last bits of a program are its own, and a trace says which updates were made in one (its column
``scanned``). For the bits to be the same however a run is cut, interrupted, resumed or replayed, there is one program
for a model and a kernel: how many updates a call makes is an argument of the loop, how many points it begins with is
one of few numbers, and repetitions go one by one.
"""

from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import numpy as np
from jax import lax

from stalegrad._internal.types import Array, IntArray
from stalegrad.kernels.base import Kernel
from stalegrad.kernels.fused import LOOPS, STREAMS
from stalegrad.kernels.noise import normals_of_updates
from stalegrad.potentials.base import Potential
from stalegrad.potentials.minibatches.draws import IN_ORDER
from stalegrad.potentials.traced import Traced, TracedGradient
from stalegrad.protocol.chain import Chain, Record
from stalegrad.protocol.draws import Thinning, Window, keep_many
from stalegrad.protocol.linear_part import LinearBound, product

_BYTES = 1 << 23  # of what goes into a call and comes out of it
_LONGEST, _SHORTEST = 4096, 8  # updates of a call; where fewer fit, a gradient takes longer than asking for it
_LEAST_RING = 8  # points; all runs whose gradients are less stale have the same program

_OF_ANY_KERNEL = ("point", "momentum", "noise_at", "further", "step", "advance")


class Rows(NamedTuple):
    """What a trace and a kernel say of the next updates.

    Args:
        workers: whose gradient makes each update, (B,).
        counts: its number among the worker's, (B,).
        staleness: of each update, (B,).
        coefficients: of the kernel's formula, a row an update, or one row for all.
        linear: A, the curvature that the server owns, or None.
        ahead: α and c of α θ + c q, the point that is sent after each update, or one row for all; c = 0 if it is the
            chain's own.
        first: number of the first update in this execution, which versions in the ring are counted by.
    """

    workers: IntArray
    counts: IntArray
    staleness: IntArray
    coefficients: Array
    linear: LinearBound | None
    ahead: Array
    first: int


class Scan:
    """Makes the updates of one chain, many in a call. Use :meth:`of`.

    Args:
        potential: the model, as workers see it.
        chain: whose state is advanced.
        program: compiled.
        traced: the model's gradient.
        length: the most updates of a call.
    """

    def __init__(self, potential: Potential, chain: Chain, program: Any, traced: Traced, length: int) -> None:
        self._potential, self._chain, self._program, self._traced, self.length = (
            potential, chain, program, traced, length,
        )  # fmt: skip
        n, dtype = potential.size, potential.dtype
        self._in_order = potential.minibatches.for_compiled_code[0] == IN_ORDER
        self._streams = np.array([int(stream) for stream in STREAMS[: chain.kernel.n_normals]], np.int64)
        self._noise = np.zeros((length, len(self._streams), n), dtype)
        self._indices = None if self._in_order else np.zeros((length, potential.batch_size), np.int32)
        self._zero = jax.device_put(np.zeros((), f"i{dtype.itemsize}"))
        self._last: dict[str, tuple[Array, Any]] = {}

    @classmethod
    def of(cls, potential: Potential, chain: Chain, record: Record) -> "Scan | None":
        """For this chain; None where the model, the kernel, the chain or the recorder needs Python in between."""
        traced, kernel = potential.traced, chain.kernel
        if traced is None or potential.addressed or not chain.runs_in_blocks or record.window(chain.version, 1) is None:
            return None
        loop = LOOPS.get(type(chain.state))
        if loop is None or loop.update.further or potential.n_data >= 1 << 31:
            return None
        if any(getattr(type(kernel), name) is not getattr(Kernel, name) for name in _OF_ANY_KERNEL):
            return None
        length = _length(potential, kernel, kernel.momentum(chain.state) is not None)
        if length is None:
            return None
        linear, ahead = chain.foresight_rows(1)
        in_order = potential.minibatches.for_compiled_code[0] == IN_ORDER
        uses = bool(ahead[:, 1].any()), linear is not None, bool(ahead[:, 2].any())
        form = _Form(traced.gradient, type(chain.state), *uses, in_order)
        key = form, length, potential.size, potential.dtype.str, potential.batch_size
        if key not in traced.programs:
            traced.programs[key] = _program_or_none(form, potential, chain, traced, length)
        program = traced.programs[key]
        return None if program is None else cls(potential, chain, program, traced, length)

    @staticmethod
    def ring_size(depth: int) -> int:
        """How many points a ring has that must hold so many of the last ones: a power of two."""
        return max(_LEAST_RING, 1 << (depth - 1).bit_length())

    def advance(self, rows: Rows, points: Array, window: Window) -> tuple[int, Array]:
        """Make the updates of all rows, at most :attr:`length`, and keep their draws.

        Returns how many were made, fewer at a bad gradient, and the gradient of the last row, the bad one if one is.

        Args:
            rows: what happens.
            points: the last points sent, (ring, R, n), by version modulo their number.
            window: where draws go.
        """
        chain, updates = self._chain, len(rows.workers)
        made = [self._made(rows, points, row, updates) for row in range(points.shape[1])]
        sound = min(_first_bad(each.kept.gradients[:updates]) for each in made)
        last = np.stack([each.kept.gradients[min(sound, updates - 1)] for each in made])
        if sound < updates:  # what came after it is of no use: the same again up to there
            made = [self._made(rows, points, row, sound) for row in range(points.shape[1])]
        depth = len(points)
        self._keep(window, made, depth, sound)
        for row, each in enumerate(made):
            for array, new in zip(chain.state, each.state, strict=True):
                if array is not None:
                    array[row] = new
            points[_last_versions(rows.first + sound, depth) % depth, row] = each.sent[sound : sound + depth]
        if chain.point is not chain.present_point:  # workers are sent ahead: the last point that the program has sent
            chain.point[...] = points[(rows.first + sound) % depth]
        chain.advanced(sound)
        return sound, last

    def _keep(self, window: Window, made: "list[_Carry]", depth: int, updates: int) -> None:
        """Keep the draws that are due."""
        version = self._chain.version
        due = Thinning(*window[:4]).updates(version + updates, since=version) - version
        columns = [
            (each.sent[depth:] if each.kept.positions is None else each.kept.positions, *each.kept[1:]) for each in made
        ]
        positions, gradients, momenta = (
            None if column[0] is None else np.stack([array[due] for array in column], axis=1)
            for column in zip(*columns, strict=True)
        )
        keep_many(window.draws, window.norms, window.temperatures, window.entry, positions, gradients, momenta)

    def _made(self, rows: Rows, points: Array, row: int, updates: int) -> "_Carry":
        """What so many updates of one repetition make of its state, points and draws."""
        chain, depth, repeat = self._chain, len(points), self._chain.first_repeat + row
        sigma = chain.kernel.noise_coefficient
        if sigma is None or rows.coefficients[:, sigma].any():
            normals_of_updates(self._noise[:updates], chain.key, self._streams, chain.chain, repeat, chain.version)
        if self._indices is not None:
            drawn = self._potential.minibatches.draw_many(
                chain.seed, chain.chain, rows.workers[:updates], rows.counts[:updates], 1, repeat
            )
            self._indices[:updates] = drawn[:, 0]
        read = depth - 1 + np.arange(len(rows.workers)) - rows.staleness
        state = type(chain.state)(*(None if array is None else array[row] for array in chain.state))
        inputs = _Inputs(
            read_next=self._for_each("read", np.append(read[1:], 0).astype(np.uint32)),
            indices=self._indices, noise=self._noise, coefficients=self._for_each("coefficients", rows.coefficients),
            ahead=self._for_each("ahead", rows.ahead), linear=rows.linear, zero=self._zero,
        )  # fmt: skip
        before = points[_last_versions(rows.first, depth) % depth, row]
        carry = self._program(np.uint32(updates), state, before, before[read[0]], inputs, self._traced.data)
        result: _Carry = jax.tree.map(np.asarray, carry)
        return result

    def _for_each(self, name: str, values: Array) -> Any:
        """One entry an update on JAX's side, where one may stand for all; the last ones again if they are the same."""
        known = self._last.get(name)
        if known is None or not np.array_equal(known[0], values):
            padded = np.zeros((self.length, *values.shape[1:]), values.dtype)
            padded[: self.length if len(values) == 1 else len(values)] = values
            known = self._last[name] = values, jax.device_put(padded)
        return known[1]


class _Inputs(NamedTuple):
    """Of a call, an entry an update."""

    read_next: Any  # which of the points the gradient of the next update was read at
    indices: Any  # of the minibatch; None for all data in order
    noise: Any
    coefficients: Any
    ahead: Any
    linear: Any  # one for all
    zero: Any  # 0, which the compiler does not know


class _Kept(NamedTuple):
    """What each update leaves, from which draws are taken."""

    positions: Any  # None if they are the points that are sent
    gradients: Any
    momenta: Any  # None without


class _Carry(NamedTuple):
    """What an update hands to the next."""

    state: Any
    sent: Any  # the last points before the first update, then the one after each
    point: Any  # at which the next gradient is taken; read beforehand, so that XLA writes ``sent`` in place
    kept: _Kept


@dataclass(frozen=True)
class _Form:
    """What makes a program another program.

    Args:
        gradient: of the model.
        state: the class of the kernel's state, which names its formula.
        ahead: whether workers are sent ahead of the chain.
        owned: whether the server owns a linear part.
        tamed: whether gradients are.
        in_order: whether gradients are on all data.
    """

    gradient: TracedGradient
    state: type
    ahead: bool
    owned: bool
    tamed: bool
    in_order: bool

    def run(self, updates: Any, state: Any, before: Any, point: Any, inputs: _Inputs, data: Any) -> _Carry:
        """The program: make so many updates. Numbers are unsigned, which spares JAX to think of negative ones."""
        loop, (depth, size) = LOOPS[self.state], before.shape
        apart = self.ahead or hasattr(state, "point")  # positions from points

        def update(number: Any, carry: _Carry) -> _Carry:
            state, points, point, kept = carry
            indices = None if self.in_order else _at(inputs.indices, number)
            gradient = self.gradient(point, indices, data)
            if self.tamed:
                gradient = _tamed(gradient, _at(inputs.ahead, number)[2])
            if self.owned:
                gradient = gradient + product(inputs.linear, _point(state))
            noise, row = _at(inputs.noise, number), _at(inputs.coefficients, number)
            noise = noise[0] if noise.shape[0] == 1 else noise
            state = loop.step(state, (), gradient, noise, tuple(row[k] for k in range(row.shape[0])))
            momentum, sent = getattr(state, "momentum", None), _point(state)
            if self.ahead:
                kept_share, drift, _ = _at(inputs.ahead, number)
                sent = _rounded(kept_share * sent, inputs.zero) + _rounded(drift * momentum, inputs.zero)
            kept = _Kept(
                _put(kept.positions, state[0], number) if apart else None, _put(kept.gradients, gradient, number),
                None if momentum is None else _put(kept.momenta, momentum, number),
            )  # fmt: skip
            points = _put(points, sent, number + np.uint32(depth))
            return _Carry(state, points, _at(points, _at(inputs.read_next, number)), kept)

        room = jax.numpy.zeros((inputs.read_next.shape[0], size), before.dtype)
        kept = _Kept(room if apart else None, room, None if getattr(state, "momentum", None) is None else room)
        points = jax.numpy.concatenate([before, room])
        result: _Carry = lax.fori_loop(np.uint32(0), updates, update, _Carry(state, points, point, kept))
        return result


def _tamed(gradient: Any, s: Any) -> Any:
    """As :func:`stalegrad.protocol.foresight.tamed`."""
    push = jax.numpy.clip(s * gradient, -1e9, 1e9)
    return push / jax.numpy.sqrt(1 + push * push) / s


def _program_or_none(form: _Form, potential: Potential, chain: Chain, traced: Traced, length: int) -> Any:
    """The program, which is compiled when it is first called; None if JAX cannot follow the formula of the kernel."""
    program = jax.jit(form.run)
    rows, _ = chain.coefficient_rows(1)
    linear, _ = chain.foresight_rows(1)
    vector, dtype = (potential.size,), potential.dtype
    state = type(chain.state)(*(None if array is None else array[0] for array in chain.state))
    inputs = _Inputs(
        read_next=np.zeros(length, np.uint32),
        indices=None if form.in_order else np.zeros((length, potential.batch_size), np.int32),
        noise=np.zeros((length, chain.kernel.n_normals, *vector), dtype),
        coefficients=np.zeros((length, rows.shape[1]), dtype), ahead=np.zeros((length, 3), dtype), linear=linear,
        zero=np.zeros((), f"i{dtype.itemsize}"),
    )  # fmt: skip
    try:
        before = np.zeros((_LEAST_RING, *vector), dtype)
        jax.eval_shape(program, np.uint32(0), state, before, before[0], inputs, traced.data)
    except Exception:  # whatever a formula makes of arrays that have no values yet
        return None
    return program


def _length(potential: Potential, kernel: Kernel, momentum: bool) -> int | None:
    """How many updates a call makes at most, a power of two; None if it is too few to be worth it."""
    numbers = (kernel.n_normals + 2 + momentum) * potential.size
    fit = _BYTES // (numbers * potential.dtype.itemsize + 4 * potential.batch_size)
    return None if fit < _SHORTEST else min(_LONGEST, 1 << (fit.bit_length() - 1))


def _last_versions(version: int, depth: int) -> IntArray:
    """The last ``depth`` versions up to this one, in order. Those before 0 are nobody's."""
    return version - depth + 1 + np.arange(depth)


def _point(state: Any) -> Any:
    """Where the kernel wants its gradient, as ``Kernel.point`` has it."""
    return getattr(state, "point", state[0])


def _at(array: Any, number: Any) -> Any:
    return lax.dynamic_index_in_dim(array, number, keepdims=False)


def _put(array: Any, entry: Any, number: Any) -> Any:
    return lax.dynamic_update_index_in_dim(array, entry, number, 0)


def _rounded(values: Any, zero: Any) -> Any:
    """The values, rounded: a sum with them cannot become a fused multiply-add, because the compiler cannot see through.

    The point that is sent ahead is computed anew, outside, where a chain goes on from a store: it must be the same.
    """
    bits = lax.bitcast_convert_type(values, zero.dtype)
    return lax.bitcast_convert_type(bits ^ zero, values.dtype)


def _first_bad(gradients: Array) -> int:
    """The number of the first gradient that has NaN or infinity; how many there are if none has."""
    with np.errstate(all="ignore"):
        if np.isfinite(gradients.sum()):  # a quick look: they do not cancel
            return len(gradients)
    bad = np.flatnonzero(~np.isfinite(gradients).all(axis=1))
    return int(bad[0]) if len(bad) else len(gradients)
