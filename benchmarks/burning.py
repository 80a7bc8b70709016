"""A model whose gradient burns a given amount of CPU time, whatever else the machine does, and nothing else."""

import time
from typing import Any

import numpy as np

from stalegrad.potentials import Minibatches, Potential


class Burning(Potential):
    """A gradient of 0.01 in every coordinate that takes ``seconds`` of this thread's CPU time.

    Args:
        size: n.
        seconds: CPU seconds of one gradient; 0 gives it for free.
    """

    fork_safe = True

    def __init__(self, size: int, seconds: float) -> None:
        super().__init__(size, Minibatches(1, 1), np.dtype(np.float32))
        self.seconds = seconds

    def gradient(self, theta: Any, indices: Any) -> Any:
        """As :meth:`gradients`, for one point."""
        out = np.empty((1, self.size), self.dtype)
        self.gradients(theta[None], indices[None], out)
        return out[0]

    def gradients(self, theta: Any, indices: Any, out: Any) -> None:
        """Fill ``out``, then burn the rest of the time."""
        begun = time.thread_time() if self.seconds else 0.0
        out.fill(0.01)
        while self.seconds and time.thread_time() - begun < self.seconds:
            pass
