"""A chain that knows part of its future: it adds the linear force of the present, and sends the point of its arrival.

And one that does not trust all that comes late: a gradient may push a coordinate only so far.

See :class:`stalegrad.protocol.architectures.StaleGradients`, whose options these are.
"""

from collections.abc import Mapping
from math import sqrt
from typing import Any, Literal

import numpy as np

from stalegrad._internal.jit import compiled
from stalegrad._internal.types import Array
from stalegrad.kernels.base import Kernel
from stalegrad.kernels.fused import Split, whole
from stalegrad.protocol.chain import Chain, Record
from stalegrad.protocol.linear_part import LinearBound, LinearPart, add_linear
from stalegrad.theory import turned

Course = Literal["straight", "expected", "turning"]
COURSES: tuple[Course, ...] = ("straight", "expected", "turning")
"""How to look ahead, see :class:`stalegrad.protocol.architectures.StaleGradients`."""


def point_ahead(kernel: Kernel, h: float, updates: float, linear: LinearPart, course: Course) -> tuple[float, float]:
    """α and c of the point α θ + c q; 1 and 0 where nothing is looked ahead or no momentum carries the chain on.

    Args:
        kernel: the sampler.
        h: step size.
        updates: τ.
        linear: A, which the server owns. Only a multiple of the identity is allowed for in an expected course.
        course: ``"straight"`` for c = τh, ``"expected"`` for how far the momentum is expected to carry the chain,
            ``"turning"`` for :func:`stalegrad.theory.turned`, straight where the friction is not a fixed number.
    """
    expected = kernel.drift_ahead(h, updates, linear.number or 0.0) if updates else None
    if expected is None:
        return 1.0, 0.0
    if course == "expected":
        return 1.0, expected
    if course == "turning" and linear.number and kernel.fixed_friction is not None:
        return turned(linear.number, kernel.fixed_friction, updates * h)
    return 1.0, updates * h


def taming(kernel: Kernel, h: float, tame: float) -> float:
    """s = h/(p√T) of the tamed gradient g/√(1 + (s g)²), which pushes a momentum by at most p√T; 0 for p = 0."""
    return h / (tame * sqrt(kernel.temperature)) if tame else 0.0


class ForesightChain(Chain):
    """A chain whose workers answer with r = g − Aθ, at the point α θ + c q, and which tames what they answer.

    Args:
        kernel: the sampler.
        position: θ_0, (R, n).
        seed: the run's seed.
        chain: which chain of the run this is.
        first_repeat: number of the first repetition.
        split: how the coordinates of an update are given to threads.
        linear: A, 0 for none.
        updates_ahead: τ, how many updates to look ahead; 0 for none.
        course: how far that is.
        tame: p, how far an answer may push the momentum of a coordinate, in units of √T; 0 for any distance.
    """

    def __init__(
        self,
        kernel: Kernel,
        position: Array,
        seed: int,
        chain: int,
        first_repeat: int = 0,
        split: Split = whole,
        *,
        linear: float | LinearPart = 0.0,
        updates_ahead: float = 0.0,
        course: Course = "straight",
        tame: float = 0.0,
    ) -> None:
        super().__init__(kernel, position, seed, chain, first_repeat, split)
        self._linear, self._updates_ahead, self._course = LinearPart.of(linear), updates_ahead, course
        self._tame = tame
        self._given_step: float | None = None
        self._push: tuple[float, Any] | None = None  # h, and what number and taming make of an answer then
        self._ahead_of: tuple[float, tuple[Any, Any]] | None = None
        self._owned = self._linear.bound(self.position.dtype) if self._linear else None
        self._matrix = self._owned if self._linear.number is None else None
        self._present = self.point  # where the kernel wants its gradient
        self._momentum = kernel.momentum(self.state) if self._ahead(1e-6)[1] else None
        self._used = np.empty_like(self.point)
        if self._momentum is not None:
            self.point = np.empty_like(self.point)
            self._look_ahead()

    def _arguments(self) -> dict[str, Any]:
        foresight = {"linear": self._linear, "updates_ahead": self._updates_ahead, "course": self._course}
        return {**super()._arguments(), **foresight, "tame": self._tame}

    def restore(self, version: int, arrays: Mapping[str, Array]) -> None:
        """Also look ahead again, from where the chain then is."""
        super().restore(version, arrays)
        self._look_ahead()

    def apply(self, gradient: Array, worker: int, record: Record, step_size: float | None = None) -> float:
        """The same with the answer's step size at hand, which taming depends on."""
        self._given_step = step_size
        return super().apply(gradient, worker, record, step_size)

    def weighted(self, gradient: Array, worker: int) -> Array:
        """r, tamed, + A θ, of the present θ."""
        if self._owned is None and not self._tame:
            return gradient
        number, s = self._pushed()
        make_used(self._used, gradient, self._present, number, s)
        if self._matrix is not None:
            add_linear(self._used, self._matrix, self._present, 1)
        return self._used

    def _pushed(self) -> Any:
        """a, if A is a number, and s of the next update, in the type of θ; remembered for the next one."""
        h = self._step_sizes(self._given_step)[0] if self._tame else 0.0
        if self._push is None or self._push[0] != h:
            number = self.position.dtype.type
            self._push = h, (number(self._linear.number or 0.0), number(taming(self.kernel, h, self._tame)))
        return self._push[1]

    def advance(self, gradient: Array, step_size: float | None = None, worker: int = 0) -> float:
        """One update, and where the next ones are expected to lead."""
        h = super().advance(gradient, step_size, worker)
        self._look_ahead()
        return h

    def foresight_rows(self, updates: int, step_sizes: Array | None = None) -> tuple[LinearBound | None, Array]:
        """A, and (α, c, s) of the next updates, a row each, or one if they are all the same."""
        constant, given = self._constant, step_sizes
        if constant is not None and (not self._tame or given is None or bool(np.all(given == constant))):
            pairs = [(constant, constant)]
        else:
            schedule = [float(self.kernel.schedule(self.version + k)) for k in range(updates + 1)]
            pairs = list(zip(schedule[:-1] if given is None else given.tolist(), schedule[1:], strict=True))
        rows = [(*self._ahead(after), taming(self.kernel, now, self._tame)) for now, after in pairs]
        return self._owned, np.array(rows, self.position.dtype)

    @property
    def runs_in_blocks(self) -> bool:
        """Whether this is the class itself, all of which a block does."""
        return type(self) is ForesightChain

    @property
    def present_point(self) -> Array:
        """Where the kernel wants its gradient now."""
        return self._present

    def _look_ahead(self) -> None:
        if self._momentum is None:
            return
        h = self._constant if self._constant is not None else float(self.kernel.schedule(self.version))
        look_ahead(self.point, self._present, self._momentum, *self._ahead(h))

    def _ahead(self, h: float) -> tuple[Any, Any]:
        """α and c for steps of this size, in the type of θ; remembered for the next one."""
        if self._ahead_of is None or self._ahead_of[0] != h:
            kept, drift = point_ahead(self.kernel, h, self._updates_ahead, self._linear, self._course)
            self._ahead_of = h, (self.position.dtype.type(kept), self.position.dtype.type(drift))
        return self._ahead_of[1]


@compiled
def tamed(g, s, one, most):  # type: ignore[no-untyped-def]
    """g/√(1 + (s g)²), which is never more than 1/s: g itself but for an error of second order in s."""
    push = min(max(s * g, -most), most)  # its square is finite
    return push / np.sqrt(one + push * push) / s


@compiled
def make_used(out, residual, theta, number, s):  # type: ignore[no-untyped-def]
    """out ← r, tamed, + a θ of every row."""
    one, most = residual.dtype.type(1), residual.dtype.type(1e9)
    for r in range(out.shape[0]):
        row, given, point = out[r], residual[r], theta[r]
        if s == 0:
            for i in range(row.shape[0]):
                row[i] = given[i] + number * point[i]
        else:
            for i in range(row.shape[0]):
                row[i] = tamed(given[i], s, one, most) + number * point[i]


@compiled
def tame(residual, s):  # type: ignore[no-untyped-def]
    """r ← r, tamed, of every row."""
    one, most = residual.dtype.type(1), residual.dtype.type(1e9)
    for r in range(residual.shape[0]):
        row = residual[r]
        for i in range(row.shape[0]):
            row[i] = tamed(row[i], s, one, most)


@compiled
def look_ahead(out, theta, momentum, kept, drift):  # type: ignore[no-untyped-def]
    """out ← α θ + c q of every row."""
    for r in range(out.shape[0]):
        row, point, q = out[r], theta[r], momentum[r]
        for i in range(row.shape[0]):
            row[i] = kept * point[i] + drift * q[i]
