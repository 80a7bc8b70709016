"""A worker: a point in, its answer out, which is a gradient by default. No I/O, no clock, no randomness of its own."""

from stalegrad._internal.types import Array
from stalegrad.potentials.address import GradientAddress
from stalegrad.potentials.base import Potential


class Worker:
    """Computes the gradients of one worker of one chain.

    Args:
        potential: the model.
        seed: the run's seed.
        chain: the chain that this worker serves.
        worker: its number within the chain.

    >>> import numpy as np
    >>> import stalegrad as sg
    >>> worker = Worker(sg.testing.small_model(), seed=0, chain=0, worker=2)
    >>> point, first, again = np.zeros((3, 1, 5), worker.potential.dtype)
    >>> worker.compute(point, 7, first)
    >>> worker.compute(point, 7, again)
    >>> bool((first == again).all())  # minibatch number 7 of worker 2, whenever it is asked for
    True
    """

    def __init__(self, potential: Potential, seed: int, chain: int, worker: int) -> None:
        self.potential = potential.for_worker()
        self.seed, self.chain, self.worker = seed, chain, worker

    def compute(self, point: Array, count: int, out: Array) -> None:
        """What the worker answers to ``point`` (1, n) as its number ``count``, into ``out`` (1, n)."""
        self.potential.answer(point, GradientAddress(self.seed, self.chain, self.worker, count), out)

    def rehearse(self) -> None:
        """Compute one gradient, so that whatever compiles on first use has done so before anybody waits for it."""
        point = self.potential.initial()[None]
        self.compute(point, 0, point.copy())
