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
