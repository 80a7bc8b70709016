"""The paper's architecture, and two ways to keep its gradients from being stale."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from stalegrad._internal.errors import ArgumentError
from stalegrad._internal.types import Array, IntArray
from stalegrad._internal.validation import real_number
from stalegrad.kernels.base import Kernel
from stalegrad.potentials.address import GradientAddress
from stalegrad.potentials.base import Potential
from stalegrad.potentials.compiled import gradient_of, gradient_with
from stalegrad.potentials.wrappers.base import Wrapper
from stalegrad.protocol.architectures.base import Architecture, Place, RunShape
from stalegrad.protocol.chain import Chain
from stalegrad.protocol.foresight import ForesightChain, subtract_linear


@dataclass(frozen=True)
class StaleGradients(Architecture):
    """The paper's, and the default: a worker answers with the gradient at the point it was sent, however old it is.

    An old gradient is wrong by what the chain has moved since. Most of that is known at the server, in two ways.

    **The server owns the linear part.** With ``linear=a`` a worker answers with the residual r = g(θ_old) − a θ_old,
    and the server uses r + a θ_now. The part a of every curvature is then never stale. In coordinates in which all
    curvatures are about 1, such as those of ``Whitened``, that is nearly everything: with a = 1 the chain on a Gaussian
    *is* the chain with fresh gradients, whatever the staleness. It costs a multiplication and an addition a parameter
    at each end.

    **Workers are sent the point where the chain will be.** A momentum moves the chain on while a worker computes, and
    most of that way is known: ``look_ahead=τ`` sends θ + c q, where c q is how far the momentum is expected to carry it
    in τ updates, c = h(m + m² + … + m^τ) with m the share that an update keeps of it. It needs no curvature.

    Both are functions of what the trace has: runs with them replay bit for bit.

    Args:
        linear: a ≥ 0, the curvature that the server owns; 0 for none.
        look_ahead: how many updates to look ahead; ``"auto"`` for W − 1, which is how old the gradients of W workers
            are on average, however different they are; 0 to send the chain's own point.

    >>> StaleGradients(linear=1.0).owned_curvature
    1.0
    """

    linear: float = 0.0
    look_ahead: float | str = 0.0

    stale_gradients = True

    def __post_init__(self) -> None:
        real_number("linear", self.linear, least=0)
        if self.look_ahead != "auto":
            remedy = "Give a number of updates, or 'auto' for as many as gradients are old on average."
            if isinstance(self.look_ahead, str):
                raise ArgumentError("look_ahead", self.look_ahead, "is neither a number nor 'auto'", remedy)
            real_number("look_ahead", self.look_ahead, least=0)

    @property
    def owned_curvature(self) -> float:
        """The ``linear`` part of the gradient, which is never stale."""
        return self.linear

    def updates_ahead(self, workers: int) -> float:
        """τ, as far as workers are sent ahead."""
        return float(workers - 1 if self.look_ahead == "auto" else self.look_ahead)

    def drift_ahead(self, kernel: Kernel, h: float, workers: int) -> float:
        """c of the point θ + c q, 0 where nothing is looked ahead or no momentum carries the chain on."""
        updates = self.updates_ahead(workers)
        return (kernel.drift_ahead(h, updates, self.linear) or 0.0) if updates else 0.0

    def refuse(self, run: RunShape, potential: Potential, kernels: Sequence[Kernel], *, even: bool = True) -> None:
        """Looking ahead without a momentum, or with one whose way is not known."""
        for kernel in kernels:
            if self.look_ahead not in (0, "auto") and kernel.drift_ahead(1e-6, 1.0) is None:
                raise ArgumentError(
                    "look_ahead", self.look_ahead, f"does not go with {type(kernel).__name__}, which has no momentum "
                    "whose way could be foreseen", "Give look_ahead=0, or a kernel such as SGHMC.",
                )  # fmt: skip

    def work(self, potential: Potential, kernels: Sequence[Kernel], workers: int) -> Potential:
        """The model, or its residual after the part that the server owns."""
        return Residual(potential, self.linear) if self.linear else potential

    def chain(self, kernel: Kernel, place: Place, workers: int) -> Chain:
        """A chain that adds what it owns, and says where it will be."""
        if not self.linear and not self.drift_ahead(kernel, 1e-6, workers):
            return Chain(kernel, *place)
        return ForesightChain(kernel, *place, linear=self.linear, updates_ahead=self.updates_ahead(workers))


class Residual(Wrapper):
    """A model whose workers answer with r = g(θ) − a θ.

    Args:
        potential: the model.
        linear: a.
    """

    def __init__(self, potential: Potential, linear: float) -> None:
        super().__init__(potential)
        self.addressed, self.epoch = potential.addressed, potential.epoch
        self._linear = potential.dtype.type(linear)
        if potential.bound is not None:
            self.bound = ResidualBound(potential.bound, self._linear)

    def gradients(self, theta: Array, indices: IntArray, out: Array) -> None:
        """r for R repetitions at once."""
        self.potential.gradients(theta, indices, out)
        subtract_linear(out, self._linear, theta)

    def gradient(self, theta: Array, indices: IntArray) -> Array:
        """r = g̃(θ) − aθ at one θ."""
        out = np.empty((1, self.size), self.dtype)
        self.gradients(np.ascontiguousarray(theta, self.dtype)[None], np.asarray(indices, np.int64)[None], out)
        row: Array = out[0]
        return row

    def answer(self, points: Array, address: GradientAddress, out: Array) -> None:
        """r, from whatever the model within answers."""
        self.potential.answer(points, address, out)
        subtract_linear(out, self._linear, points)

    def full_gradient(self, theta: Array) -> Array:
        """∇U(θ) − aθ, on all data."""
        return np.asarray(self.potential.full_gradient(theta) - self._linear * np.asarray(theta, self.dtype))

    def gradient_numbers(self, seed: int, chain: int, worker: int, count: int) -> range:
        """Those of the model within."""
        return self.potential.gradient_numbers(seed, chain, worker, count)

    def for_worker(self) -> "Residual":
        """With the model within for one worker."""
        return Residual(self.potential.for_worker(), float(self._linear))


class ResidualBound(NamedTuple):
    """What compiled callers need of a residual whose model is compiled too."""

    inner: Any
    linear: Any


@gradient_with(ResidualBound)
def _bound_residual(bound, theta, indices, out):  # type: ignore[no-untyped-def]
    """The compiled gradient, less a θ."""
    inner, linear = bound
    if not gradient_of(inner, theta, indices, out):  # type: ignore[no-untyped-call]
        return False
    subtract_linear(out, linear, theta)
    return True
