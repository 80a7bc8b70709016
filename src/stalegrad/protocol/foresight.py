"""A chain that knows part of its future: it adds the linear force of the present, and sends the point of its arrival.

See :class:`stalegrad.protocol.architectures.StaleGradients`, whose options these are.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np

from stalegrad._internal.jit import compiled
from stalegrad._internal.types import Array
from stalegrad.kernels.base import Kernel
from stalegrad.kernels.fused import Split, whole
from stalegrad.protocol.chain import Chain


class ForesightChain(Chain):
    """A chain whose workers answer with r = g − aθ, at the point θ + c q.

    Args:
        kernel: the sampler.
        position: θ_0, (R, n).
        seed: the run's seed.
        chain: which chain of the run this is.
        first_repeat: number of the first repetition.
        split: how the coordinates of an update are given to threads.
        linear: a, 0 for none.
        updates_ahead: τ, how many updates to look ahead; 0 for none.
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
        linear: float = 0.0,
        updates_ahead: float = 0.0,
    ) -> None:
        super().__init__(kernel, position, seed, chain, first_repeat, split)
        self._linear, self._updates_ahead = linear, updates_ahead
        self._present = self.point  # where the kernel wants its gradient
        self._momentum = kernel.momentum(self.state) if kernel.drift_ahead(1e-6, updates_ahead, linear) else None
        self._used = np.empty_like(self.point)
        self._ahead_of: tuple[float, float] | None = None
        if self._momentum is not None:
            self.point = np.empty_like(self.point)
            self._look_ahead()

    def _arguments(self) -> dict[str, Any]:
        return {**super()._arguments(), "linear": self._linear, "updates_ahead": self._updates_ahead}

    def restore(self, version: int, arrays: Mapping[str, Array]) -> None:
        """Also look ahead again, from where the chain then is."""
        super().restore(version, arrays)
        self._look_ahead()

    def weighted(self, gradient: Array, worker: int) -> Array:
        """r + a θ, of the present θ."""
        if not self._linear:
            return gradient
        np.copyto(self._used, gradient)
        add_linear(self._used, self.position.dtype.type(self._linear), self._present)
        return self._used

    def advance(self, gradient: Array, step_size: float | None = None, worker: int = 0) -> float:
        """One update, and where the next ones are expected to lead."""
        h = super().advance(gradient, step_size, worker)
        self._look_ahead()
        return h

    def foresight_rows(self, updates: int) -> tuple[float, Array]:
        """a, and c after each of the next updates, (updates,), or (1,) if it is always the same; 0 for no foresight."""
        dtype = self.position.dtype
        if self._momentum is None:
            return dtype.type(self._linear), np.zeros(1, dtype)
        constant = self._constant
        after = [constant] if constant is not None else [
            float(self.kernel.schedule(self.version + k + 1)) for k in range(updates)
        ]  # fmt: skip
        return dtype.type(self._linear), np.array([self._drift(h) for h in after], dtype)

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
        look_ahead(self.point, self._present, self._momentum, self.position.dtype.type(self._drift(h)))

    def _drift(self, h: float) -> float:
        """c for steps of this size, remembered for the next one."""
        if self._ahead_of is None or self._ahead_of[0] != h:
            self._ahead_of = h, self.kernel.drift_ahead(h, self._updates_ahead, self._linear) or 0.0
        return self._ahead_of[1]


@compiled
def subtract_linear(gradient, linear, theta):  # type: ignore[no-untyped-def]
    """g ← g − aθ of every row."""
    for r in range(gradient.shape[0]):
        row, point = gradient[r], theta[r]
        for i in range(row.shape[0]):
            row[i] -= linear * point[i]


@compiled
def add_linear(residual, linear, theta):  # type: ignore[no-untyped-def]
    """r ← r + aθ of every row."""
    for r in range(residual.shape[0]):
        row, point = residual[r], theta[r]
        for i in range(row.shape[0]):
            row[i] += linear * point[i]


@compiled
def look_ahead(out, theta, momentum, drift):  # type: ignore[no-untyped-def]
    """out ← θ + c q of every row."""
    for r in range(out.shape[0]):
        row, point, q = out[r], theta[r], momentum[r]
        for i in range(row.shape[0]):
            row[i] = point[i] + drift * q[i]
