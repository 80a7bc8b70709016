"""From a formula to an update: one compiled loop with the noise in it, or whole arrays of any library.

A kernel writes down what happens to one coordinate, and :class:`Update` says whose formula it is. All else follows:

* :meth:`Loop.advance`, in place, tile by tile, noise included, in ranges of coordinates that threads may share;
* :func:`update`, the same for compiled callers, which choose it by the type of the state;
* the former with normals that :func:`fill_noise` has made before: the noise of an update depends on its number alone,
  so that it can be made while its gradient is still computed, and the update itself is then memory traffic;
* :meth:`Loop.step`, the formula applied to whole arrays of NumPy, JAX or torch.

The loop is written out as source text for each formula, with one variable an array: compilers vectorise that, and
numba finds it on disk again, because it stands in the formula's own file as far as numba can tell.
"""

import hashlib
import inspect
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numba.extending import overload

from stalegrad._internal.jit import compiled, inlined
from stalegrad._internal.parts import PART
from stalegrad._internal.types import Array
from stalegrad.kernels.noise import TILE, Stream, fill, fill_tile, scratch

Part = Callable[[int, int], None]
"""Updates the coordinates from ``start``, a multiple of TILE, to before ``stop``."""

Split = Callable[[Part, int], None]
"""Calls a part for disjoint ranges that make up all n coordinates, and returns when all are done."""

STREAMS = (Stream.UPDATE, Stream.UPDATE_2, Stream.UPDATE_3, Stream.UPDATE_4)
"""Of the first, second, … normal that an update takes for a coordinate."""


_STREAMS = np.array([int(stream) for stream in STREAMS])


@compiled
def fill_noise(noise, seed, chain, first_repeat, number):  # type: ignore[no-untyped-def]
    """Make the normals of update ``number`` in advance: ``noise`` is (normals, R, n), see :func:`room_for_noise`."""
    for k in range(noise.shape[0]):
        fill(noise[k], seed, _STREAMS[k], chain, first_repeat, number, np.int64(0), noise.shape[2])  # as all callers do


def whole(part: Part, n: int) -> None:
    """The :data:`Split` of one thread: a single part with all n coordinates."""
    part(0, n)


@dataclass(frozen=True, eq=False)
class Update:
    """The formula by which one kind of state is updated.

    Args:
        state: the state's class, a NamedTuple of arrays (R, n).
        formula: from one entry of each array of the state, of each further array, of the gradient and of the normals,
            followed by all coefficients, to the new entries of the state's arrays. It is compiled and is also given
            whole arrays, so it is made of arithmetic and of functions marked :func:`stalegrad.kernels.jitable`.
        further: how many arrays the formula takes besides the state's, see ``Kernel.further``.
        row: the name of an array (R, 1), one number a repetition. The formula takes it and does not return it.
        settle: what becomes of that number after all coordinates, from itself, a mean square and the coefficients.
        squared: whose mean square over the coordinates that is; None for 0.
    """

    state: type
    formula: Callable[..., Any]
    further: int = 0
    row: str | None = None
    settle: Callable[..., Any] | None = None
    squared: str | None = None


class Loop:
    """An update as it is executed.

    Args:
        update: what it does.
        normals: how many normals a coordinate the formula takes.
        sigma: which coefficient scales them, if they are not needed where it is 0; None if they always are.
    """

    def __init__(self, update: Update, normals: int, sigma: int | None) -> None:
        self.compiles = update.further == 0 and update.squared is None
        """Whether compiled callers can make the update: nothing in it needs NumPy."""
        self.update, self.normals, self.settle = update, normals, update.settle or _as_it_is
        self.sigma = sigma
        fields: tuple[str, ...] = update.state._fields  # type: ignore[attr-defined]
        self.row = None if update.row is None else fields.index(update.row)
        self._squared = None if update.squared is None else fields.index(update.squared)
        taken = len(inspect.signature(update.formula).parameters) - len(fields) - update.further - 1 - normals
        source = _source(len(fields), update.further, normals, taken, sigma, self.row, self._squared)
        made = _define(source, update)
        self.fused, self._given = made["fused"], made.get("given", made["fused"])
        self.entry = made["entry"] if self.compiles else None

    def makes_noise(self, coefficients: Array) -> bool:
        """Whether an update with these coefficients takes normals; of several rows of them, any."""
        return self.normals > 0 and (self.sigma is None or bool(np.any(coefficients[..., self.sigma] != 0)))

    def step(self, state: Any, further: tuple[Any, ...], gradient: Any, noise: Any, c: tuple[float, ...]) -> Any:
        """The new state, of whole arrays."""
        normals = (noise,) if self.normals == 1 else tuple(noise[k] for k in range(self.normals))
        moved = self.update.formula(*state, *further, gradient, *normals, *c)
        arrays = list(moved) if isinstance(moved, tuple) else [moved]
        if self.row is not None:
            mean = 0.0
            if self._squared is not None:
                array = arrays[self._squared - (self.row < self._squared)]
                mean = (array * array).mean(axis=-1, keepdims=True)
            settled = self.settle(state[self.row], mean, c)
            arrays.insert(self.row, 0 * state[self.row] + settled if self._squared is None else settled)
        return self.update.state(*arrays)

    def advance(
        self,
        state: Any,
        further: tuple[Array, ...],
        gradient: Array,
        c: Array,
        address: Any,
        split: Split,
        noise: Array | None = None,
    ) -> None:
        """The state's arrays in place, with the ``noise`` of the address if it has been made already.

        Sums over coordinates go tile by tile, so threads cannot change them.
        """
        row, n = self.row, gradient.shape[1]
        arrays = (*state, *further, gradient)
        if noise is not None and self.makes_noise(c):
            fused, rest = self._given, (*noise, c)
        else:
            fused, rest = self.fused, (c, *address)
        sums: tuple[Array, ...] = ()
        if self._squared is not None:
            sums = (np.empty((len(gradient), -(-n // TILE))),)
        if split is whole:
            fused(*arrays, *rest, 0, n, *sums)
        else:
            split(lambda start, stop: fused(*arrays, *rest, start, stop, *sums), n)
        if sums:
            with np.errstate(over="ignore", invalid="ignore"):  # a chain that diverges is refused at its next gradient
                mean = (sums[0].sum(axis=1, keepdims=True) / n).astype(gradient.dtype)
                state[row][...] = self.settle(state[row], mean, c)
        elif row is not None:
            state[row][...] = self.settle(state[row], 0.0, c)


def _as_it_is(row: Any, mean_square: Any, c: Any) -> Any:
    return row


def _source(fields: int, further: int, normals: int, taken: int, sigma: int | None, row: int | None,
            squared: int | None) -> str:  # fmt: skip
    """The loop over repetitions, tiles and coordinates, with noise and with normals that are given, and its call from
    compiled code.
    """
    shape = (fields, further, normals, taken, sigma, row, squared)
    lines = _loop(*shape, given=False)
    if normals:
        lines += _loop(*shape, given=True)
    state = ", ".join(f"state[{k}]" for k in range(fields))
    settled = []
    if row is not None:
        settled += ["    for r in range(theta.shape[0]):"]
        settled += [f"        state[{row}][r, 0] = settle(state[{row}][r, 0], 0.0, c)"]
    address = "seed, chain, first_repeat, number"
    fused = f"fused({state}, gradient, c, seed, chain, number, first_repeat, start, stop)"
    lines += [f"def entry(state, gradient, coefficients, {address}, start, stop):"]
    return "\n".join([*lines, "    theta = state[0]; c = coefficients", f"    {fused}", *settled])


def _loop(fields: int, further: int, normals: int, taken: int, sigma: int | None, row: int | None,
          squared: int | None, *, given: bool) -> list[str]:  # fmt: skip
    """The lines of ``fused``, or of ``given``, which takes its normals as arrays instead of making them."""
    arrays = [f"s{k}" for k in range(fields)] + [f"x{k}" for k in range(further)] + ["g"]
    along = [name for k, name in enumerate(arrays) if k != row]
    entries = [f"{name}_row" if k == row else f"{name}_tile[i]" for k, name in enumerate(arrays)]
    moved = [k for k in range(fields) if k != row]
    noise = [f"z{k}" for k in range(normals)]
    drawn = [f"{name}_tile[i]" if given else f"{name}[i]" for name in noise]
    values = ", ".join([*entries, *drawn, *(f"c{k}" for k in range(taken))])
    sums = ["sums"] if squared is not None else []
    taken_from = [*noise, "c"] if given else ["c, seed, chain, update, first_repeat"]
    name = "given" if given else "fused"
    lines = [f"def {name}({', '.join([*arrays, *taken_from, 'start, stop', *sums])}):"]
    lines += [] if given else [f"    {name}, words = scratch(s0)" for name in noise]
    lines += [f"    c{k} = c[{k}]" for k in range(taken)]
    lines += ["    for r in range(s0.shape[0]):"]
    lines += [f"        s{row}_row = s{row}[r, 0]"] if row is not None else []
    lines += ["        for low in range(start, stop, TILE):", "            n = min(TILE, stop - low)"]
    if normals and not given:
        lines += [f"            if c{sigma} != 0:" if sigma is not None else "            if True:"]
        place = "chain, first_repeat + r, update, low // TILE, n"
        streams = [f"np.int64({int(stream)})" for stream in STREAMS]  # a bare number would be a type of its own
        lines += [f"                fill_tile(z{k}, words, seed, {streams[k]}, {place})" for k in range(normals)]
    tiles = along + (noise if given else [])
    lines += [f"            {name}_tile = {name}[r, low : low + n]" for name in tiles]
    lines += ["            for i in range(n):"]
    lines += [f"                {', '.join(f'v{k}' for k in moved)} = formula({values})"]
    lines += [f"                s{k}_tile[i] = v{k}" for k in moved]
    if squared is not None:
        square = f"np.float64(s{squared}_tile[i]) * np.float64(s{squared}_tile[i])"
        lines += ["            total = 0.0", "            for i in range(n):", f"                total += {square}"]
        lines += ["            sums[r, low // TILE] = total"]
    return lines


def _define(source: str, update: Update) -> dict[str, Any]:
    """Run the source as if it stood where the formula stands, with the formula at hand."""
    code, module = update.formula.__code__, update.formula.__module__
    names: dict[str, Any] = {
        "__name__": module, "np": np, "TILE": TILE, "fill_tile": fill_tile, "scratch": scratch,
        "formula": inlined(update.formula), "settle": inlined(update.settle or _as_it_is),
    }  # fmt: skip
    exec(compile("\n" * (code.co_firstlineno - 1) + source, code.co_filename, "exec"), names)
    # numba finds code on disk by the name of the function and by those of the classes of its arguments, and looks at
    # the function's own file alone: so that other files' compiled code is not taken for that of a formula that has
    # been changed since, or of another kernel whose state looks alike, the names say what they stand for.
    file = Path(code.co_filename)
    digest = hashlib.sha256(source.encode() + (file.read_bytes() if file.is_file() else code.co_code)).hexdigest()[:12]
    update.state.__name__ = f"{update.state.__module__}_{update.state.__qualname__}_{digest}".replace(".", "_")
    for name in names.keys() & {"fused", "given"}:
        names[name].__qualname__ = f"{update.state.__qualname__}.{update.formula.__qualname__}.{name}_{digest}"
        names[name] = compiled(names[name])
    return names


LOOPS: dict[type, Loop] = {}
"""By the class of the state."""


def loop_of(state: Any) -> Loop:
    """The loop that updates such a state."""
    try:
        return LOOPS[type(state)]
    except KeyError:
        problem = f"{type(state).__qualname__} is the state of no formula"
        raise TypeError(f"{problem}: give its kernel updates = Update(State, formula)") from None


def register(update: Update, normals: int, sigma: int | None) -> None:
    """Make the loop of an update, to be found by the class of its state."""
    LOOPS[update.state] = Loop(update, normals, sigma)


def has_compiled_update(state: Any) -> bool:
    """Whether :func:`update` knows the state."""
    loop = LOOPS.get(type(state))
    return loop is not None and loop.compiles


def update(  # type: ignore[no-untyped-def]
    state, gradient, coefficients, seed, chain, first_repeat, number, start, stop
):
    """For compiled callers: an update of the kernel that the state belongs to, from ``start`` to before ``stop``.

    ``start`` is a multiple of TILE. A kernel with a number a repetition is updated as a whole, from 0 to n.
    """
    raise NotImplementedError("only compiled code calls this")


@overload(update, jit_options=PART)
def _choose_update(  # type: ignore[no-untyped-def]
    state, gradient, coefficients, seed, chain, first_repeat, number, start, stop
):
    loop = LOOPS.get(getattr(state, "instance_class", None))  # type: ignore[arg-type]
    return None if loop is None else loop.entry


def room_for_noise(state: Any) -> Array:
    """Room for the normals of one update of such a state, (normals, R, n)."""
    return np.empty((loop_of(state).normals, *state[0].shape), state[0].dtype)
