"""Distributed SGLD: chains that visit the workers who own the data (Ahn, Shahbaba and Welling, ICML 2014)."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from stalegrad._internal.errors import ArgumentError
from stalegrad._internal.types import Array
from stalegrad._internal.validation import whole_number
from stalegrad.kernels.base import Kernel
from stalegrad.kernels.noise import MAX_WORKERS
from stalegrad.kernels.push import Push
from stalegrad.potentials.address import GradientAddress
from stalegrad.potentials.base import Potential
from stalegrad.potentials.minibatches.scheme import Minibatches
from stalegrad.potentials.minibatches.shards import given_sizes, shard_sizes
from stalegrad.protocol.architectures.base import ALL, Architecture, Cost, Place, RunShape, constant_step, refuse_memory
from stalegrad.protocol.architectures.chain_shards import shards_of
from stalegrad.protocol.architectures.local_steps import LocalSteps
from stalegrad.protocol.chain import Chain
from stalegrad.protocol.chain_trace import ChainTrace
from stalegrad.protocol.draws import Thinning

_VISITS = MAX_WORKERS - 2  # whose minibatches are the order of visits; no worker has this number


@dataclass(frozen=True)
class VisitingShards(Architecture):
    """S chains at V ≥ S shards: each stays for a trajectory of n_v steps at shard v, then moves on to another.

    In round k chain s is at shard σ_k(s), where σ_k is a random permutation of the shards, the same for all chains: a
    shard has one chain at a time, and data do not travel. A trajectory is n_v steps of the sampler with minibatches
    of that shard alone, and one update of the run: ``steps`` counts trajectories. Shards may differ in size, and n_v
    may be chosen by the speed of the worker that owns shard v, so that all trajectories take equally long.

    Of all steps the share q_v = n_v/Σn is made at shard v. A gradient there estimates that of a posterior in which
    shard v stands for all data, and is weighed by

        β_v = (N_v/N) / q_v,        so that  Σ_v q_v β_v E g̃_v = Σ_v (N_v/N) E g̃_v = ∇U :

    over the steps of a chain the estimate is unbiased. Within a trajectory it is not: the chain drifts towards what its
    shard says, by an amount of order h n_v, which is an error like that of a larger step. With n_v in proportion to N_v
    all weights are 1.

    A trajectory needs one message, from one worker to the next. On our engines the chain is at its server in between,
    which makes it two. ``workers`` is 1: the worker of chain s reads the shard of that round.

    Args:
        shards: V, or the sizes of the shards.
        lengths: n_v, a number for all or one for each.

    >>> visiting = VisitingShards(shards=(100, 300), lengths=(10, 30))
    >>> visiting.weights(400)
    (1.0, 1.0)
    >>> [visiting.shard(seed=0, chain=0, trajectory=k) for k in range(6)]
    [0, 1, 1, 1, 0, 1]
    """

    shards: int | Sequence[int]
    lengths: int | Sequence[int] = 10

    def __post_init__(self) -> None:
        if isinstance(self.shards, Sequence | np.ndarray):
            object.__setattr__(self, "shards", given_sizes(self.shards))
        else:
            whole_number("shards", self.shards, least=1)
        if isinstance(self.lengths, Sequence | np.ndarray):
            object.__setattr__(
                self, "lengths", tuple(whole_number(f"lengths[{v}]", n, least=1) for v, n in enumerate(self.lengths))
            )
            if len(self.each_length) != self.count:
                problem = f"has {len(self.each_length)} entries for {self.count} shards"
                raise ArgumentError("lengths", self.lengths, problem, "Give a number for all, or one for each shard.")
        else:
            whole_number("lengths", self.lengths, least=1)

    @property
    def count(self) -> int:
        """V, the number of shards, given or counted from their sizes."""
        return self.shards if isinstance(self.shards, int) else len(self.shards)

    @property
    def each_length(self) -> tuple[int, ...]:
        """n_v, the steps of a trajectory on each shard."""
        return (self.lengths,) * self.count if isinstance(self.lengths, int) else tuple(self.lengths)

    def sizes(self, n_data: int) -> tuple[int, ...]:
        """N_v, the number of data in each shard; they add up to N."""
        return shard_sizes(None if isinstance(self.shards, int) else self.shards, n_data, self.count)

    def weights(self, n_data: int) -> tuple[float, ...]:
        """β_v, the factor of each shard's gradient that makes up for unequal lengths and sizes."""
        lengths, sizes = self.each_length, self.sizes(n_data)
        return tuple(size / n_data * sum(lengths) / n for size, n in zip(sizes, lengths, strict=True))

    def shard(self, seed: int, chain: int, trajectory: int) -> int:
        """σ_k(s): where a chain is in a round. Repetitions of a run share their rounds, as they share their trace."""
        if self.count == 1:
            return 0
        order = Minibatches(self.count, 1, "reshuffle")  # an epoch is a permutation
        return int(order.draw(seed, 0, _VISITS, trajectory * self.count + chain)[0])

    def refuse(self, run: RunShape, potential: Potential, kernels: Sequence[Kernel], *, even: bool = True) -> None:
        """More chains than shards, more workers than one, and what local steps cannot do."""
        if run.servers > self.count:
            problem = f"is more than the {self.count} shards, each of which has one chain at a time"
            raise ArgumentError("servers", run.servers, problem, f"Give a number from 1 to {self.count}.")
        if run.workers != 1:
            problem = "does not go with chains that visit shards: each is at one place at a time"
            raise ArgumentError("workers", run.workers, problem, "Give workers=1, and a server for every chain.")
        for kernel in kernels:
            constant_step(kernel)
            refuse_memory(kernel)
        self.work(potential, kernels, 1)

    def work(self, potential: Potential, kernels: Sequence[Kernel], workers: int) -> Potential:
        """A model whose answer is the change of θ over a trajectory."""
        return Trajectories(potential, kernels, self)

    def chain(self, kernel: Kernel, place: Place, workers: int) -> Chain:
        """θ, to which the change of each trajectory is added."""
        return Chain(Push(step_size=kernel.step_size, temperature=kernel.temperature), *place)

    def cost(self, chains: Sequence[ChainTrace], *, seed: int = 0, thinning: Thinning = ALL) -> Cost:
        """A trajectory is n_v gradients, and a message."""
        gradients = sum(
            self.each_length[self.shard(seed, s, int(k))]
            for s, chain in enumerate(chains)
            for block in chain.blocks()
            for k in block.count
        )
        return Cost(gradients, sum(len(chain) for chain in chains))


class Trajectories(LocalSteps):
    """A model whose answers are trajectories of n_v steps at the shard that the chain visits.

    Args:
        potential: the model.
        kernels: the sampler of each chain.
        visiting: where chains are, and for how long.
    """

    def __init__(self, potential: Potential, kernels: Sequence[Kernel], visiting: VisitingShards) -> None:
        super().__init__(potential, kernels, max(visiting.each_length))
        self._visiting = visiting
        self._shards = shards_of(potential, visiting.sizes(potential.n_data))
        self._weights = [potential.dtype.type(weight) for weight in visiting.weights(potential.n_data)]

    def gradient_numbers(self, seed: int, chain: int, worker: int, count: int) -> range:
        """As many minibatches as the shard's trajectories are long."""
        shard = self._visiting.shard(seed, chain, count)
        first = count * self.steps
        return range(first, first + self._visiting.each_length[shard])

    def local_gradient(self, points: Array, address: GradientAddress, answer: int, out: Array) -> None:
        """β_v g̃ on a minibatch of the shard."""
        shard = self._visiting.shard(address.seed, address.chain, answer)
        self.potential.gradients(points, self._shards.draw_from(shard, address, len(points)), out)
        out *= self._weights[shard]
