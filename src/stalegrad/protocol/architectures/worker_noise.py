"""Noise made by the workers: the server's update is then a few operations a parameter."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from stalegrad._internal.types import Array
from stalegrad.kernels.base import Address, Kernel
from stalegrad.kernels.noise import Stream, normals
from stalegrad.kernels.quiet import Quiet
from stalegrad.potentials.address import GradientAddress
from stalegrad.potentials.base import Potential
from stalegrad.potentials.wrappers.base import Wrapper
from stalegrad.protocol.architectures.base import Architecture, Place, RunShape, constant_step
from stalegrad.protocol.chain import Chain


@dataclass(frozen=True)
class WorkerNoise(Architecture):
    """Workers answer with g − (σ/h) ζ, the server updates without noise: −h (g − (σ/h) ζ) = −h g + σ ζ.

    The chain has the law that it has when the server makes the noise: each update has normals of its own.
    The server's update becomes several times cheaper, and with it the number of workers that a server can keep
    busy larger. Workers pay for it, each a share: worth it where the server is the bottleneck, which is many workers
    with cheap gradients of a large model.

    For samplers in whose formula gradient and noise stand side by side, SGLD, SGHMC and SGNHT, with a constant step
    size. A gradient that is dropped takes its noise with it, which is as good as any other. The norms that a run notes
    beside its draws are those of what was sent, noise included.

    >>> import stalegrad as sg
    >>> model, settings = sg.testing.small_model(), {"workers": 2, "engine": "inline", "progress": False}
    >>> run = sg.sample(model, sg.SGLD(step_size=1e-3), steps=100, architecture=WorkerNoise(), **settings)
    >>> run.draws.shape
    (1, 100, 5)
    """

    stale_gradients = True

    def refuse(self, run: RunShape, potential: Potential, kernels: Sequence[Kernel], *, even: bool = True) -> None:
        """Noise that depends on what the server knows."""
        for kernel in kernels:
            constant_step(kernel)
            Quiet.of(kernel)

    def work(self, potential: Potential, kernels: Sequence[Kernel], workers: int) -> Potential:
        """A model that answers with g − (σ/h) ζ in place of g."""
        return NoisyGradients(potential, kernels)

    def chain(self, kernel: Kernel, place: Place, workers: int) -> Chain:
        """A chain whose updates have none."""
        return Chain(Quiet.of(kernel), *place)


class NoisyGradients(Wrapper):
    """A model whose workers answer with g − (σ/h) ζ.

    Args:
        potential: the model.
        kernels: the sampler of each chain, whose noise it is.
    """

    addressed = True

    def __init__(self, potential: Potential, kernels: Sequence[Kernel]) -> None:
        super().__init__(potential)
        self._scales = [potential.dtype.type(_scale(kernel)) for kernel in kernels]

    def answer(self, points: Array, address: GradientAddress, out: Array) -> None:
        """Write g − (σ/h) ζ to ``out``, ζ from the address of the gradient."""
        self.potential.answer(points, address, out)
        seed, chain, update, first = Address.of_worker(*address)
        noise = normals(np.empty_like(out), seed, Stream.UPDATE, chain, update, first_repeat=first)
        noise *= self._scales[address.chain]
        out -= noise


def _scale(kernel: Kernel) -> float:
    h = constant_step(kernel)
    assert kernel.noise_coefficient is not None, "Quiet.of has refused it"
    return kernel.coefficients(h, h)[kernel.noise_coefficient] / h
