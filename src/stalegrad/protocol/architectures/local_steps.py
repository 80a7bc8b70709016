"""Steps of a sampler that a worker makes on a copy of its own, before it answers with what they have changed."""

from collections.abc import Sequence

import numpy as np

from stalegrad._internal.types import Array
from stalegrad.kernels.base import Address, Kernel
from stalegrad.potentials.address import GradientAddress
from stalegrad.potentials.base import Potential
from stalegrad.potentials.wrappers.base import Wrapper
from stalegrad.protocol.architectures.base import constant_step


class LocalSteps(Wrapper):
    """A model whose workers answer with Δ, the sum of n steps of the sampler that begin at the point they were sent.

    Answer number k of a worker is made of its minibatches kn to kn + n − 1, and of noise with the addresses of these.
    A momentum starts from its stationary law at each answer, and is forgotten at its end.

    Args:
        potential: the model.
        kernels: the sampler of each chain.
        steps: n.
        scale: of the gradients.
    """

    addressed = True

    def __init__(self, potential: Potential, kernels: Sequence[Kernel], steps: int, scale: float = 1.0) -> None:
        super().__init__(potential)
        self.kernels, self.steps, self.scale = tuple(kernels), steps, scale
        sizes = [constant_step(kernel) for kernel in kernels]
        self._coefficients = [
            np.array(kernel.coefficients(h, h), potential.dtype) for kernel, h in zip(kernels, sizes, strict=True)
        ]

    def gradient_numbers(self, seed: int, chain: int, worker: int, count: int) -> range:
        """The minibatches of a worker's answer number ``count``."""
        return range(count * self.steps, (count + 1) * self.steps)

    def answer(self, points: Array, address: GradientAddress, out: Array) -> None:
        """Δ of n steps from ``points`` (R, n), into ``out`` (R, n)."""
        seed, chain, worker, count, first = address
        kernel, coefficients = self.kernels[chain], self._coefficients[chain]
        numbers = self.gradient_numbers(seed, chain, worker, count)
        state = kernel.start(points.copy(), Address.of_worker(seed, chain, worker, numbers[0], first))
        gradient = np.empty_like(points)
        with np.errstate(over="ignore", invalid="ignore"):  # what diverges is refused by the server
            for number in numbers:
                self.local_gradient(
                    kernel.point(state), GradientAddress(seed, chain, worker, number, first), count, gradient
                )
                kernel.advance(state, gradient, coefficients, Address.of_worker(seed, chain, worker, number, first))
            np.subtract(state[0], points, out=out)

    def local_gradient(self, points: Array, address: GradientAddress, answer: int, out: Array) -> None:
        """g̃ of one local step, on minibatch ``address.count``, for answer number ``answer``."""
        self.potential.answer(points, address, out)
        if self.scale != 1:
            out *= out.dtype.type(self.scale)
