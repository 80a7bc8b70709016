"""A chain that knows part of its future: it adds the linear force of the present, and sends the point of its arrival.

See :class:`stalegrad.protocol.architectures.StaleGradients`, whose options these are.
"""

from collections.abc import Mapping
from typing import Any, Literal

import numpy as np

from stalegrad._internal.jit import compiled
from stalegrad._internal.types import Array
from stalegrad.kernels.base import Kernel
from stalegrad.kernels.fused import Split, whole
from stalegrad.protocol.chain import Chain
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


class ForesightChain(Chain):
    """A chain whose workers answer with r = g − Aθ, at the point α θ + c q.

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
    ) -> None:
        super().__init__(kernel, position, seed, chain, first_repeat, split)
        self._linear, self._updates_ahead, self._course = LinearPart.of(linear), updates_ahead, course
        self._ahead_of: tuple[float, tuple[float, float]] | None = None
        self._owned = self._linear.bound(self.position.dtype) if self._linear else None
        self._present = self.point  # where the kernel wants its gradient
        self._momentum = kernel.momentum(self.state) if self._ahead(1e-6)[1] else None
        self._used = np.empty_like(self.point)
        if self._momentum is not None:
            self.point = np.empty_like(self.point)
            self._look_ahead()

    def _arguments(self) -> dict[str, Any]:
        foresight = {"linear": self._linear, "updates_ahead": self._updates_ahead, "course": self._course}
        return {**super()._arguments(), **foresight}

    def restore(self, version: int, arrays: Mapping[str, Array]) -> None:
        """Also look ahead again, from where the chain then is."""
        super().restore(version, arrays)
        self._look_ahead()

    def weighted(self, gradient: Array, worker: int) -> Array:
        """r + A θ, of the present θ."""
        if self._owned is None:
            return gradient
        np.copyto(self._used, gradient)
        add_linear(self._used, self._owned, self._present, 1)
        return self._used

    def advance(self, gradient: Array, step_size: float | None = None, worker: int = 0) -> float:
        """One update, and where the next ones are expected to lead."""
        h = super().advance(gradient, step_size, worker)
        self._look_ahead()
        return h

    def foresight_rows(self, updates: int) -> tuple[LinearBound | None, Array]:
        """A, and (α, c) after each of the next updates, (updates, 2), or (1, 2) if they are always the same."""
        if self._momentum is None:
            return self._owned, super().foresight_rows(updates)[1]
        constant = self._constant
        after = [constant] if constant is not None else [
            float(self.kernel.schedule(self.version + k + 1)) for k in range(updates)
        ]  # fmt: skip
        return self._owned, np.array([self._ahead(h) for h in after], self.position.dtype)

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
        kept, drift = (self.position.dtype.type(part) for part in self._ahead(h))
        look_ahead(self.point, self._present, self._momentum, kept, drift)

    def _ahead(self, h: float) -> tuple[float, float]:
        """α and c for steps of this size, remembered for the next one."""
        if self._ahead_of is None or self._ahead_of[0] != h:
            self._ahead_of = h, point_ahead(self.kernel, h, self._updates_ahead, self._linear, self._course)
        return self._ahead_of[1]


@compiled
def look_ahead(out, theta, momentum, kept, drift):  # type: ignore[no-untyped-def]
    """out ← α θ + c q of every row."""
    for r in range(out.shape[0]):
        row, point, q = out[r], theta[r], momentum[r]
        for i in range(row.shape[0]):
            row[i] = kept * point[i] + drift * q[i]
