"""What an architecture is: what workers make of a point, what the server makes of their answers, who is sent what.

A message is a vector of n numbers. A worker is sent a point and answers; the server updates its chain with the answer,
the moment it comes, and writes down who sent it. That much is the same for all: engines, traces, replay, stores and the
staleness protocol know nothing else. An architecture fills it in:

* :meth:`Architecture.work`: what a worker answers, as the ``answer`` of a :class:`~stalegrad.potentials.Potential`;
* :meth:`Architecture.chain`: what the server carries, does with an answer, and sends to whom, a
  :class:`~stalegrad.chain.Chain`;
* :meth:`Architecture.refuse`: which runs it cannot make;
* :meth:`Architecture.cost`: the gradients and messages of a run.

Everything random in it is a function of an address, as everywhere, so that a trace still determines every bit.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

from stalegrad.chain import Chain
from stalegrad.errors import ArgumentError
from stalegrad.kernels.base import Kernel, Split, whole
from stalegrad.potentials.base import Potential
from stalegrad.schedules import Constant
from stalegrad.trace import Trace
from stalegrad.types import Array


class Setting(NamedTuple):
    """The run that an architecture is for.

    Args:
        potential: the model.
        kernels: the sampler of each chain.
        servers: S.
        workers: W.
        max_staleness: the bound on staleness.
        even: whether every server has W workers from the start to the end.
    """

    potential: Potential
    kernels: Sequence[Kernel]
    servers: int
    workers: int
    max_staleness: int | None
    even: bool


class Place(NamedTuple):
    """Where a chain of a run begins: see :class:`stalegrad.chain.Chain`."""

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

    def refuse(self, setting: Setting) -> None:
        """Raise :class:`ArgumentError` where this architecture cannot make the run."""

    def work(self, potential: Potential, kernels: Sequence[Kernel], workers: int) -> Potential:
        """The model as workers see it."""
        return potential

    def chain(self, kernel: Kernel, place: Place, workers: int) -> Chain:
        """A server's chain before its first update."""
        return Chain(kernel, *place)

    def cost(self, trace: Trace) -> Cost:
        """Of a run with this trace: every gradient needs a point and is sent back."""
        answers = sum(len(chain) for chain in trace.chains)
        return Cost(answers, 2 * answers)


@dataclass(frozen=True)
class StaleGradients(Architecture):
    """The paper's, and the default: a worker answers with the gradient at the point it was sent, however old it is."""

    stale_gradients = True


def constant_step(kernel: Kernel) -> float:
    """h of a kernel whose steps workers make, who cannot know how far the chain is."""
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
