"""A control: momentum at the workers, as in the authors' public code.

Each worker keeps v_w ← m v_w + lr ḡ of its own gradients and sends v_w; the server makes θ ← θ − v_w. The noise of that
code is added to a buffer that is never read, so θ never sees any. It is therefore SGD with W momenta, each of which
sees every W-th gradient, and so remembers W times as many updates as one momentum at the server does.

Who sent an answer is known where it lands, so the server may as well keep the W momenta: the numbers are the same.
"""

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from stalegrad._internal.types import Array
from stalegrad.kernels.base import Kernel
from stalegrad.protocol.architectures import Architecture
from stalegrad.protocol.architectures.base import Place
from stalegrad.protocol.chain import Chain


@dataclass(frozen=True)
class WorkerMomentum(Architecture):
    """Workers that send their momentum, for a kernel that makes plain steps.

    Args:
        momentum: m.
    """

    momentum: float = 0.9

    fixed_workers: ClassVar[bool] = True

    def chain(self, kernel: Kernel, place: Place, workers: int) -> Chain:
        """θ and the momentum of every worker."""
        return WorkerMomentumChain(kernel, *place, momentum=self.momentum, workers=workers)


class WorkerMomentumChain(Chain):
    """A chain that is moved by the momenta of its workers.

    Args:
        *place, **named: as for :class:`Chain`.
        momentum: m.
        workers: W.
    """

    def __init__(self, *place: Any, momentum: float, workers: int, **named: Any) -> None:
        super().__init__(*place, **named)
        self._momentum = self.position.dtype.type(momentum)
        self._velocities = np.zeros((workers, *self.position.shape), self.position.dtype)

    def weighted(self, gradient: Array, worker: int) -> Array:
        """The worker's v_w, in units of the step."""
        velocity: Array = self._velocities[worker]
        velocity *= self._momentum
        velocity += gradient
        return velocity

    def _arrays(self) -> dict[str, Array]:
        return {**super()._arrays(), "velocities": self._velocities}

    def _arguments(self) -> dict[str, Any]:
        return {**super()._arguments(), "momentum": float(self._momentum), "workers": len(self._velocities)}
