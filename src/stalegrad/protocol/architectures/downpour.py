"""Downpour: workers sample on copies of their own and push what they have changed (Dean et al., NeurIPS 2012)."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from stalegrad._internal.errors import ArgumentError
from stalegrad._internal.types import Array
from stalegrad._internal.validation import whole_number
from stalegrad.kernels.base import Kernel
from stalegrad.kernels.push import Push
from stalegrad.potentials.base import Potential
from stalegrad.protocol.architectures.base import ALL, Architecture, Cost, Place, RunShape, constant_step, refuse_memory
from stalegrad.protocol.architectures.local_steps import LocalSteps
from stalegrad.protocol.chain import Chain
from stalegrad.protocol.chain_trace import ChainTrace
from stalegrad.protocol.draws import Thinning


@dataclass(frozen=True)
class Downpour(Architecture):
    """Workers make n_push steps of the sampler on a copy of θ, then push the change Δ; the server adds it to θ.

    The server makes no noise and no gradient steps of its own: θ ← θ + Δ. The sum of all pushes is the sum of all
    steps that anybody has made, each with a gradient and noise of its own, so θ is a chain of the sampler with
    structured staleness: of the steps that are in θ when a push lands, a local step has seen its own worker's, and
    those of others up to the fetch. Counted in steps, a gradient misses about n_push (W − 1) of them, where sending
    each gradient misses W − 1. So the error that staleness makes grows with n_push, and the number of messages falls.

    ``steps`` of a run, its draws, its trace and its staleness count pushes: one is n_push steps of the sampler.

    With a momentum, each push is a trajectory that starts from a fresh momentum, as in HMC; all that is pushed is the
    change of θ. The law is the same; but a trajectory that is short compared with 1/friction turns back early, so that
    θ diffuses more slowly than a chain that keeps its momentum. Euler's momentum has its law only up to an error of
    order h, which fresh momenta carry over to θ: use ``integrator="splitting"``. Samplers that have to remember more,
    SGNHT and pSGLD, are refused, and so are step sizes that change.

    With n_fetch > n_push, a worker goes on from its own copy after a push, and fetches θ after every n_fetch steps:
    fewer messages, older copies. The server keeps the copies, too, so that a worker that is replaced goes on with the
    copy of the one before, and a replay finds it. Our engines send the copy along with the work, so that workers need
    no memory: they move as much as with n_fetch = n_push, and :meth:`cost` does not count it. The trace's staleness
    counts from when the work was handed out; a copy that was fetched before is older.

    Args:
        n_push: local steps between pushes.
        n_fetch: local steps between fetches, a multiple of n_push; None for n_push.

    >>> from stalegrad import Trace
    >>> Downpour(n_push=5).cost(Trace.constant_staleness(0, steps=100).chains)
    Cost(gradients=500, messages=200)
    """

    n_push: int = 1
    n_fetch: int | None = None

    def __post_init__(self) -> None:
        whole_number("n_push", self.n_push, least=1)
        if self.n_fetch is not None and whole_number("n_fetch", self.n_fetch, least=1) % self.n_push:
            problem = f"is not a multiple of n_push = {self.n_push}"
            raise ArgumentError("n_fetch", self.n_fetch, problem, "A copy is exchanged when it has been pushed.")

    @property
    def pushes(self) -> int:
        """How many pushes a worker makes between two fetches, n_fetch/n_push."""
        return (self.n_fetch or self.n_push) // self.n_push

    @property
    def fixed_workers(self) -> bool:  # type: ignore[override]
        """Copies are kept for as many workers as there are."""
        return self.pushes > 1

    def refuse(self, run: RunShape, potential: Potential, kernels: Sequence[Kernel], *, even: bool = True) -> None:
        """What local steps cannot do."""
        for kernel in kernels:
            constant_step(kernel)
            refuse_memory(kernel)

    def work(self, potential: Potential, kernels: Sequence[Kernel], workers: int) -> Potential:
        """A model whose answer is the change Δ that n_push local steps make."""
        return LocalSteps(potential, kernels, self.n_push)

    def chain(self, kernel: Kernel, place: Place, workers: int) -> Chain:
        """θ to which pushes are added."""
        push = Push(step_size=kernel.step_size, temperature=kernel.temperature)
        return (
            Chain(push, *place) if self.pushes == 1 else CopiesChain(push, *place, workers=workers, pushes=self.pushes)
        )

    def cost(self, chains: Sequence[ChainTrace], *, seed: int = 0, thinning: Thinning = ALL) -> Cost:
        """A push is a message, and so is a fetch, which every worker makes for itself."""
        pushes = sum(len(chain) for chain in chains)
        return Cost(self.n_push * pushes, pushes + sum(map(self._fetches, chains)))

    def _fetches(self, chain: ChainTrace) -> int:
        """How many fetches the pushes of a chain have begun with, as :class:`CopiesChain` makes them."""
        fetches, landed = 0, dict[int, int]()
        for block in chain.blocks():
            for worker in np.unique(block.worker).tolist():
                accepted = block.accepted[block.worker == worker]
                before = landed.get(worker, 0) + np.cumsum(accepted) - accepted
                fetches += int(np.count_nonzero(before % self.pushes == 0))
                landed[worker] = landed.get(worker, 0) + int(np.count_nonzero(accepted))
        return fetches


class CopiesChain(Chain):
    """A chain that knows the copies of its workers, which these fetch after every so many pushes.

    A push Δ changes the copy of the worker that has made it and the chain alike.

    Args:
        *place, **named: as for :class:`Chain`.
        workers: W.
        pushes: for every fetch.
    """

    per_worker_points = True

    def __init__(self, *place: Any, workers: int, pushes: int, **named: Any) -> None:
        super().__init__(*place, **named)
        self._pushes = pushes
        self._copies = np.repeat(self.position[None], workers, axis=0)
        self._landed = np.zeros(workers, np.int64)

    def point_for(self, worker: int, current: Array) -> Array:
        """The worker's copy, which is fetched afresh when it is time."""
        copy: Array = self._copies[worker]
        if self._landed[worker] % self._pushes == 0:
            copy[...] = current
        return copy

    def advance(self, gradient: Array, step_size: float | None = None, worker: int = 0) -> float:
        """Add a push to θ and to the worker's copy."""
        self._copies[worker] += gradient
        self._landed[worker] += 1
        return super().advance(gradient, step_size, worker)

    def _arrays(self) -> dict[str, Array]:
        return {**super()._arrays(), "copies": self._copies, "landed": self._landed}

    def _arguments(self) -> dict[str, Any]:
        return {**super()._arguments(), "workers": len(self._copies), "pushes": self._pushes}
