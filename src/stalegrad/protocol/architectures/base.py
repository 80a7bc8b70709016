"""What an architecture is: what workers make of a point, what the server makes of their answers, who is sent what.

A message is a vector of n numbers. A worker is sent a point and answers; the server updates its chain with the answer,
the moment it comes, and writes down who sent it. That much is the same for all: engines, traces, replay, stores and the
staleness protocol know nothing else. An architecture fills it in:

* :meth:`Architecture.work`: what a worker answers, as the ``answer`` of a :class:`~stalegrad.potentials.Potential`;
* :meth:`Architecture.chain`: what the server carries, does with an answer, and sends to whom, a
  :class:`~stalegrad.protocol.chain.Chain`;
* :meth:`Architecture.fitted` and :meth:`Architecture.refuse`: what it takes from the model, which runs it cannot make;
* :meth:`Architecture.cost`: the gradients and messages of a run.

Everything random in it is a function of an address, as everywhere, so that a trace still determines every bit.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, NamedTuple, Protocol, Self

from stalegrad._internal.errors import ArgumentError
from stalegrad._internal.types import Array
from stalegrad.kernels.base import Kernel
from stalegrad.kernels.fused import Split, whole
from stalegrad.kernels.schedules import Constant
from stalegrad.potentials.base import Potential
from stalegrad.protocol.chain import Chain
from stalegrad.protocol.chain_trace import ChainTrace
from stalegrad.protocol.draws import Thinning

ALL = Thinning()
"""Every update is kept."""


class RunShape(Protocol):
    """What an architecture looks at of a run's settings, see :class:`stalegrad.protocol.settings.Settings`."""

    @property
    def servers(self) -> int:
        """S, the number of chains."""
        ...

    @property
    def workers(self) -> int:
        """W, the number of workers of each chain."""
        ...

    @property
    def max_staleness(self) -> int | None:
        """The bound on τ; None for no bound."""
        ...

    @property
    def policy(self) -> str:
        """What happens at the bound: ``"drop"`` or ``"wait"``."""
        ...


class Place(NamedTuple):
    """Where a chain of a run begins: see :class:`stalegrad.protocol.chain.Chain`."""

    position: Array
    seed: int
    chain: int
    first_repeat: int = 0
    split: Split = whole


class Cost(NamedTuple):
    """What a run has spent.

    Args:
        gradients: on minibatches.
        messages: vectors of n numbers that the architecture has to send. Where our engines send more, it says so.
    """

    gradients: int
    messages: int


@dataclass(frozen=True)
class Architecture:
    """The base of all: workers send gradients, the server samples."""

    fixed_workers: ClassVar[bool] = False
    """Whether a run must go on with the number of workers that it began with."""

    stale_gradients: ClassVar[bool] = False
    """Whether an update is one step with one stale gradient, so that what is known of these can be checked."""

    one_law: ClassVar[bool] = True
    """Whether all chains sample the same law."""

    def fitted(self, potential: Potential, workers: int) -> Self:
        """The same architecture with what it leaves to the model filled in, as a trace or a store keeps it."""
        return self

    def refuse(self, run: RunShape, potential: Potential, kernels: Sequence[Kernel], *, even: bool = True) -> None:
        """Raise :class:`ArgumentError` where this architecture cannot make the run.

        Args:
            run: how many servers and workers, and the bound on staleness.
            potential: the model.
            kernels: the sampler of each chain.
            even: whether every server has W workers from the start to the end.
        """

    def work(self, potential: Potential, kernels: Sequence[Kernel], workers: int) -> Potential:
        """The model as workers see it."""
        return potential

    def chain(self, kernel: Kernel, place: Place, workers: int) -> Chain:
        """A server's chain before its first update."""
        return Chain(kernel, *place)

    def owned_along(self, direction: Array) -> float:
        """vᵀ A v, A being the part of the curvature that is the server's own and therefore never stale."""
        return 0.0

    def residual(self, potential: Potential) -> Potential | None:
        """The model less A, as workers answer with it; None if the server owns nothing."""
        return None

    def point_ahead(self, kernel: Kernel, h: float, workers: int) -> tuple[float, float]:
        """α and c of the point α θ + c q that workers are sent, ahead of the chain by the time they take; 1 and 0."""
        return 1.0, 0.0

    def cost(self, chains: Sequence[ChainTrace], *, seed: int = 0, thinning: Thinning = ALL) -> Cost:
        """Of a run with these traces: every gradient needs a point and is sent back.

        Args:
            chains: the trace of each chain.
            seed: of the run.
            thinning: which updates it kept.
        """
        answers = sum(len(chain) for chain in chains)
        return Cost(answers, 2 * answers)


def constant_step(kernel: Kernel) -> float:
    """h of a kernel whose steps workers make, who cannot know how far the chain is."""
    if kernel.heat is not None:
        raise ArgumentError(
            "temperature", kernel.temperature, "changes with the chain's version, which workers do not know",
            "Give a number, or leave sampling to the server (architecture=None).",
        )  # fmt: skip
    if not isinstance(kernel.schedule, Constant):
        raise ArgumentError(
            "step_size", kernel.step_size, "changes with the chain's version, which workers do not know",
            "Give a number, or leave sampling to the server (architecture=None).",
        )  # fmt: skip
    return kernel.schedule.value


def refuse_memory(kernel: Kernel) -> None:
    """Refuse a sampler that has to remember more than θ from one update to the next."""
    if kernel.remembers:
        raise ArgumentError(
            "kernel", kernel, "carries variables that must not start afresh whenever a worker does",
            "Use SGLD or SGHMC, or leave sampling to the server (architecture=None).",
        )  # fmt: skip
