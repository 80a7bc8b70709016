"""A model whose workers answer with rounded gradients, which travel in fewer bytes."""

from stalegrad._internal.types import Array
from stalegrad.potentials.address import GradientAddress
from stalegrad.potentials.base import Potential
from stalegrad.potentials.wire.formats import Counter, WireFormat
from stalegrad.potentials.wrappers.base import Wrapper


class Rounded(Wrapper):
    """A model whose workers answer with r(g), E r(g) = g: see :mod:`stalegrad.potentials.wire.rounding`.

    Args:
        potential: the model as workers would see it else.
        wire: how their messages travel.
    """

    addressed = True

    def __init__(self, potential: Potential, wire: WireFormat) -> None:
        super().__init__(potential)
        self.wire, self.epoch = wire, potential.epoch

    def answer(self, points: Array, address: GradientAddress, out: Array) -> None:
        """Whatever the model within answers, rounded by the address of the answer."""
        self.potential.answer(points, address, out)
        self.wire.gradient.round(out, out, address.seed, Counter.of_gradient(address))

    def gradient_numbers(self, seed: int, chain: int, worker: int, count: int) -> range:
        """Those of the model within."""
        return self.potential.gradient_numbers(seed, chain, worker, count)

    def for_worker(self) -> "Rounded":
        """With the model within for one worker."""
        return Rounded(self.potential.for_worker(), self.wire)
