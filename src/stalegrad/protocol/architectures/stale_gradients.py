"""The paper's architecture, and two ways to keep its gradients from being stale."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from stalegrad._internal.errors import ArgumentError
from stalegrad._internal.types import Array, IntArray
from stalegrad._internal.validation import one_of, real_number
from stalegrad.kernels.base import Kernel
from stalegrad.potentials.address import GradientAddress
from stalegrad.potentials.base import Potential
from stalegrad.potentials.compiled import gradient_of, gradient_with
from stalegrad.potentials.traced import Traced, TracedGradient
from stalegrad.potentials.wrappers.base import Wrapper
from stalegrad.protocol.architectures.base import Architecture, Place, RunShape
from stalegrad.protocol.chain import Chain
from stalegrad.protocol.foresight import COURSES, Course, ForesightChain, point_ahead
from stalegrad.protocol.linear_part import LinearPart, LowRank, add_linear, add_multiple, product


@dataclass(frozen=True, kw_only=True)
class Compensated(Architecture):
    """Workers send gradients that are stale, and the server makes up for it: the options of :class:`StaleGradients`.

    Args:
        linear: A, the curvature that the server owns.
        look_ahead: how many updates to look ahead.
        course: on which course.
        tame: how far an answer may push a momentum.
    """

    linear: float | LinearPart | LowRank | Sequence[Any] | Array = 0.0
    look_ahead: float | str = 0.0
    course: Course = "straight"
    tame: float = 0.0

    stale_gradients = True

    def __post_init__(self) -> None:
        part = LinearPart.of(self.linear)
        object.__setattr__(self, "linear", part if part.number is None else part.number)
        one_of("course", self.course, COURSES)
        real_number("tame", self.tame, least=0)
        if self.course == "turning" and not part.number:
            problem = "needs a well to turn in: linear must be a number above 0"
            raise ArgumentError("course", self.course, problem, "Give linear=1.0 in coordinates of unit scale.")
        if self.look_ahead != "auto":
            remedy = "Give a number of updates, or 'auto' for as many as gradients are old on average."
            if isinstance(self.look_ahead, str):
                raise ArgumentError("look_ahead", self.look_ahead, "is neither a number nor 'auto'", remedy)
            real_number("look_ahead", self.look_ahead, least=0)

    @property
    def _part(self) -> LinearPart:
        return LinearPart.of(self.linear)

    def owned_along(self, direction: Array) -> float:
        """vᵀ A v: how much of the curvature along v is never stale."""
        part = self._part
        return part.along(direction) if part else 0.0

    def residual(self, potential: Potential) -> Potential | None:
        """The model U(θ) − θᵀAθ/2, whose gradient is what workers answer with."""
        return Residual(potential, self._part) if self._part else None

    def updates_ahead(self, workers: int) -> float:
        """τ, as far as workers are sent ahead."""
        return float(workers - 1 if self.look_ahead == "auto" else self.look_ahead)

    def point_ahead(self, kernel: Kernel, h: float, workers: int) -> tuple[float, float]:
        """α and c of the point α θ + c q; 1 and 0 where nothing is looked ahead or no momentum carries the chain on."""
        return point_ahead(kernel, h, self.updates_ahead(workers), self._part, self.course)

    def refuse(self, run: RunShape, potential: Potential, kernels: Sequence[Kernel], *, even: bool = True) -> None:
        """A of another size than the model; looking ahead without a momentum, or with one whose way is not known."""
        size = self._part.size
        if size not in (None, potential.size):
            problem = f"is for {size} parameters, and the model has {potential.size}"
            raise ArgumentError(
                "linear", self.linear, problem, f"Give {potential.size} by {potential.size}, or a number."
            )
        for kernel in kernels:
            if self.look_ahead not in (0, "auto") and kernel.drift_ahead(1e-6, 1.0) is None:
                raise ArgumentError(
                    "look_ahead", self.look_ahead, f"does not go with {type(kernel).__name__}, which has no momentum "
                    "whose way could be foreseen", "Give look_ahead=0, or a kernel such as SGHMC.",
                )  # fmt: skip
            if self.tame and (not kernel.inertial or kernel.heat is not None or kernel.temperature == 0):
                raise ArgumentError(
                    "tame", self.tame, f"does not go with {type(kernel).__name__} at temperature "
                    f"{kernel.temperature}: it is measured by the momentum's warmth",
                    "Give tame=0, or a kernel with a momentum, such as SGHMC, at one temperature above 0.",
                )  # fmt: skip

    def work(self, potential: Potential, kernels: Sequence[Kernel], workers: int) -> Potential:
        """The model, or its residual after the part that the server owns."""
        return self.residual(potential) or potential

    def foresight(self, workers: int) -> dict[str, Any]:
        """What a :class:`ForesightChain` is made with."""
        ahead = self.updates_ahead(workers)
        return {"linear": self._part, "updates_ahead": ahead, "course": self.course, "tame": self.tame}


@dataclass(frozen=True, kw_only=True)
class StaleGradients(Compensated):
    """The paper's, and the default: a worker answers with the gradient at the point it was sent, however old it is.

    An old gradient is wrong by what the chain has moved since. Most of that is known at the server, in two ways.

    **The server owns the linear part.** With ``linear=A`` a worker answers with the residual r = g(θ_old) − A θ_old,
    and the server uses r + A θ_now. The part A of the curvature is then never stale: with A = ∇²U the chain on a
    Gaussian *is* the chain with fresh gradients, whatever the staleness. In coordinates in which all curvatures are
    about 1, such as those of ``Whitened``, A = 1 is nearly everything, and costs a multiplication and an addition a
    parameter at each end; so does a diagonal. A dense A costs n² of them, k directions 2kn.

    **Workers are sent a point ahead of the chain.** A momentum moves the chain on while a worker computes.
    ``look_ahead=τ`` sends θ + c q instead of θ, with no need to know a curvature. On a ``"straight"`` course c = τh,
    which takes away the whole error of first order that gradients of mean age τ make in the law of θ. On the
    ``"expected"`` one c = h(m + m² + … + m^τ), m the share that an update keeps of the momentum: that is where the
    chain will be on average. It leaves the error λ(τh − c)/B in a variance, but is stable at somewhat longer steps
    where τ is large beside 1/(1 − m).

    **Both together**, in coordinates in which the posterior has about mean 0 and variance T/a, as those of the warm-up:
    on a ``"turning"`` course workers are sent α θ + c q with the law of θ itself, for which the residual's staleness
    changes neither mean nor variance to first order in the residual, however long τh is
    (:func:`stalegrad.theory.turned`).

    **A late gradient is not believed without limit.** With ``tame=p`` the answer of a worker pushes the momentum of no
    coordinate by more than p√T in one update: g/√(1 + (hg/(p√T))²). The law is changed by an error of second order in
    h, :func:`stalegrad.theory.taming_error`, and chains whose gradients are too old for their step size, as those of
    networks at large learning rates, do not blow up: p = 0.1 let nine workers train LeNet at ten times the usual rate.

    All are functions of what the trace has: runs with them replay bit for bit. docs/free-staleness.md derives them.

    Args:
        linear: A, the curvature that the server owns: a number a ≥ 0 for a I, a vector for a diagonal, a symmetric
            matrix, or :class:`LowRank`; 0 for none.
        look_ahead: how many updates to look ahead; ``"auto"`` for W − 1, which is how old the gradients of W workers
            are on average, however different they are; 0 to send the chain's own point.
        course: ``"straight"``, ``"expected"``, or ``"turning"``, which needs ``linear`` to be a number above 0.
        tame: p; 0 to take gradients as they are. Needs a kernel with a momentum, at a temperature above 0.

    >>> StaleGradients(linear=1.0).owned_along(np.array([0.6, 0.8]))
    1.0
    >>> StaleGradients(linear=[1.0, 9.0]).linear
    LinearPart(diagonal (2,))
    """

    def chain(self, kernel: Kernel, place: Place, workers: int) -> Chain:
        """A chain that adds what it owns, and says where it will be."""
        if not self._part and not self.point_ahead(kernel, 1e-6, workers)[1] and not self.tame:
            return Chain(kernel, *place)
        return ForesightChain(kernel, *place, **self.foresight(workers))


class Residual(Wrapper):
    """A model whose workers answer with r = g(θ) − A θ.

    Args:
        potential: the model.
        linear: A.
    """

    def __init__(self, potential: Potential, linear: LinearPart) -> None:
        super().__init__(potential)
        self.addressed, self.epoch = potential.addressed, potential.epoch
        self._linear, self._owned = linear, linear.bound(potential.dtype)
        self._multiple = None if linear.number is None else -potential.dtype.type(linear.number)
        if potential.bound is not None:
            self.bound = ResidualBound(potential.bound, self._owned)

    def gradients(self, theta: Array, indices: IntArray, out: Array) -> None:
        """r for R repetitions at once."""
        self.potential.gradients(theta, indices, out)
        self._take_off(out, theta)

    @property
    def traced(self) -> Traced | None:
        """The same of a model that JAX can follow."""
        inner = self.potential.traced
        return None if inner is None else Traced(
            _TracedResidual(inner.gradient), (inner.data, self._owned), inner.programs
        )  # fmt: skip

    def gradient(self, theta: Array, indices: IntArray) -> Array:
        """r = g̃(θ) − Aθ at one θ."""
        out = np.empty((1, self.size), self.dtype)
        self.gradients(np.ascontiguousarray(theta, self.dtype)[None], np.asarray(indices, np.int64)[None], out)
        row: Array = out[0]
        return row

    def answer(self, points: Array, address: GradientAddress, out: Array) -> None:
        """r, from whatever the model within answers."""
        self.potential.answer(points, address, out)
        self._take_off(out, points)

    def _take_off(self, out: Array, theta: Array) -> None:
        """A θ, from gradients."""
        if self._multiple is not None:
            add_multiple(out, theta, self._multiple)
        else:
            add_linear(out, self._owned, theta, -1)

    def full_gradient(self, theta: Array) -> Array:
        """∇U(θ) − Aθ, on all data."""
        return np.asarray(self.potential.full_gradient(theta) - self._linear.times(theta).astype(self.dtype))

    def gradient_numbers(self, seed: int, chain: int, worker: int, count: int) -> range:
        """Those of the model within."""
        return self.potential.gradient_numbers(seed, chain, worker, count)

    def for_worker(self) -> "Residual":
        """With the model within for one worker."""
        return Residual(self.potential.for_worker(), self._linear)


@dataclass(frozen=True)
class _TracedResidual:
    """r of a model's g̃, for JAX."""

    inner: TracedGradient

    def __call__(self, theta: Any, indices: Any, data: Any) -> Any:
        within, linear = data
        return self.inner(theta, indices, within) - product(linear, theta)


class ResidualBound(NamedTuple):
    """What compiled callers need of a residual whose model is compiled too."""

    inner: Any
    linear: Any


@gradient_with(ResidualBound)
def _bound_residual(bound, theta, indices, out):  # type: ignore[no-untyped-def]
    """The compiled gradient, less A θ."""
    inner, linear = bound
    if not gradient_of(inner, theta, indices, out):  # type: ignore[no-untyped-call]
        return False
    add_linear(out, linear, theta, -1)
    return True
