"""Data in shards: each worker of a chain draws its minibatches from a part of the data that is its own.

The N data are cut into W consecutive parts of N_0, …, N_{W−1} data, and worker w sees part w only. Its gradient

    g̃_w(θ) = −∇log p(θ) − (N/J) Σ_{i ∈ batch of shard w} ∇log p(d_i | θ)

then estimates the gradient of a posterior of its own, in which shard w stands for all data. Of the updates of a chain
let the share p_w come from worker w. On average an update is made with Σ_w p_w E g̃_w, and that is ∇U if each gradient
is weighed by

    β_w = N_w / (N p_w),        since  Σ_w p_w β_w E g̃_w = Σ_w (N_w/N) E g̃_w = ∇U:

the likelihood of every datum counts once, and of the prior Σ_w N_w/N = 1. (Ahn, Shahbaba and Welling (2014),
Distributed stochastic gradient MCMC, ICML, have the same weights, N_w/p_w before the mean over the minibatch.) With
equal shards and workers of equal speed all weights are 1 and the scale is the usual N/J. With shards in proportion to
the speeds they are 1 as well, and that is the better choice for workers of unequal speed: a worker that is slow for its
shard makes few and large steps, and needs a smaller step size for it.

The p_w of an asynchronous run are not known beforehand, but a server sees them: 1/p_w is m_w, the mean number of
updates from a gradient of worker w to its next. Its estimate starts at W, as if all were equally fast, and
each gap moves it,

    m̂_w ← m̂_w + ρ (min(gap, 10 m̂_w) − m̂_w),        ρ = max(1/(k + 2), 1/1000) at the worker's k-th gap,

so that it is the mean of the gaps, at first together with two of length W, and later follows machines that become
slower or faster. A gap that is far longer than all others, because a worker was replaced, does not count in full, or a
single gradient would be taken for thousands. Then β̂_w = (N_w/N) m̂_w. The weights are a function of who made the
updates until then, which is what a trace is: a replay computes the same bits, and a run that goes on after it was
stopped finds them again.

What follows: no gradient may be dropped, for then the shards of slow workers would be missing; a chain begins when all
its workers are there; and a worker that is lost takes its shard with it, so that the run has to end. Data that are
sorted should be shuffled before: gradients of shards that differ a lot differ a lot from ∇U, which costs precision as
any gradient noise does.

The options of :class:`~stalegrad.protocol.architectures.StaleGradients` go with shards. Where the server owns A,
workers answer with r_w = g̃_w(θ_old) − A θ_old and the update uses β̂_w r_w + A θ_now. Since Σ_w p_w β_w = 1 that is ∇U
on average, and the linear part is neither stale nor weighed now more and now less. What is tamed is β̂_w r_w.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np

from stalegrad._internal.errors import ArgumentError
from stalegrad._internal.jit import compiled
from stalegrad._internal.types import Array, IntArray
from stalegrad.kernels.base import Kernel
from stalegrad.potentials.base import Potential
from stalegrad.potentials.minibatches.shards import ShardedMinibatches, given_sizes, shard_sizes
from stalegrad.potentials.wrappers.base import Wrapper
from stalegrad.protocol.architectures.base import Place, RunShape
from stalegrad.protocol.architectures.stale_gradients import Compensated
from stalegrad.protocol.chain import Chain
from stalegrad.protocol.foresight import ForesightChain

_BELIEF = 2  # gaps of length W that are thought to have been seen
_MEMORY = 1000  # gaps that the mean is about, in the long run
_LONGEST = 10.0  # means that a gap counts for at most


@dataclass(frozen=True)
class Shards(Compensated):
    """Each worker draws its minibatches from a part of the data that is its own; the posterior is the same.

    Worker w needs the data of shard w and no others. The server weighs each gradient by N_w over the worker's share of
    all updates, see :mod:`stalegrad.protocol.architectures.shards`; there are as many shards as workers.

    Args:
        sizes: N_0, …, N_{W−1}, which sum to N; None cuts the data into W consecutive parts, as equal as can be.
        linear, look_ahead, course, tame: as in :class:`~stalegrad.protocol.architectures.StaleGradients`.

    >>> from stalegrad.testing import small_model
    >>> Shards().fitted(small_model(), workers=3).sizes
    (14, 13, 13)
    """

    sizes: Sequence[int] | None = None

    fixed_workers = True

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.sizes is not None:
            object.__setattr__(self, "sizes", given_sizes(self.sizes))

    def fitted(self, potential: Potential, workers: int) -> Self:
        """With the size of every worker's shard."""
        return replace(self, sizes=shard_sizes(self.sizes, potential.n_data, workers))

    def refuse(self, run: RunShape, potential: Potential, kernels: Sequence[Kernel], *, even: bool = True) -> None:
        """Every shard must count: nothing may be dropped, and every server needs a worker for each."""
        super().refuse(run, potential, kernels, even=even)
        if potential.addressed:
            problem = f"does not go with {type(potential).__name__}, whose workers do more than draw minibatches"
            raise ArgumentError("architecture", self, problem, "Give architecture=None.")
        self.work(potential, kernels, run.workers)  # refuses minibatches that are larger than a shard
        if run.max_staleness is not None and run.policy == "drop":
            problem = "does not go with shards: what slow workers send would be dropped, and their data with it"
            raise ArgumentError("policy", run.policy, problem, "Give policy='wait', or no max_staleness.")
        if not even:
            problem = "needs as many workers at every server, from the start to the end"
            remedy = "Start a multiple of the number of servers as workers, none of which come and go."
            raise ArgumentError("architecture", self, problem, remedy)

    def work(self, potential: Potential, kernels: Sequence[Kernel], workers: int) -> Potential:
        """Gradients on minibatches of the worker's shard."""
        return super().work(Sharded(potential, shard_sizes(self.sizes, potential.n_data, workers)), kernels, workers)

    def chain(self, kernel: Kernel, place: Place, workers: int) -> Chain:
        """A chain that weighs gradients by whose they are."""
        assert self.sizes is not None, "fitted() has filled it in"
        return ShardedChain(kernel, *place, sizes=self.sizes, **self.foresight(workers))


class Sharded(Wrapper):
    """A model whose workers draw from shards of the data, as they see it: gradients that are yet to be weighed.

    Args:
        potential: the model.
        sizes: of the shards, one a worker.
    """

    def __init__(self, potential: Potential, sizes: tuple[int, ...]) -> None:
        batches = potential.minibatches
        super().__init__(potential, ShardedMinibatches(batches.n_data, batches.batch_size, batches.scheme, sizes=sizes))


class ShardedChain(ForesightChain):
    """A chain whose gradients come from shards of the data and are weighed by β̂.

    Args:
        *place, **named: as for :class:`ForesightChain`.
        sizes: of the shards.
    """

    needs_all = True

    def __init__(self, *place: Any, sizes: Sequence[int], **named: Any) -> None:
        super().__init__(*place, **named)
        self._weights = ShardWeights(sizes)

    def weighted(self, gradient: Array, worker: int) -> Array:
        """β̂_w times the answer, a copy, since what came may be read-only; tamed, and A θ added."""
        (weight,) = self._weights.of([worker], self.version)
        return super().weighted(gradient * weight.astype(gradient.dtype), worker)

    def _arrays(self) -> dict[str, Array]:
        return {**super()._arrays(), **self._weights.arrays()}

    def _arguments(self) -> dict[str, Any]:
        return {**super()._arguments(), "sizes": self._weights.sizes}


class ShardWeights:
    """β̂ of the gradients of one chain, in the order of its updates.

    Args:
        sizes: of the shards.

    >>> weights = ShardWeights((100, 900))
    >>> weights.of([0, 1, 0, 1], update=0).round(2)  # workers by turns: twice the share of the data
    array([0.2, 1.8, 0.2, 1.8])
    """

    def __init__(self, sizes: Sequence[int]) -> None:
        workers = len(sizes)
        self.sizes = tuple(sizes)
        self._shares = np.array(sizes) / sum(sizes)
        self._last = np.full(workers, -1, np.int64)  # the update that each has made last
        self._gaps = np.zeros(workers, np.int64)  # how many have been seen
        self._means = np.full(workers, float(workers))

    def of(self, workers: Sequence[int] | IntArray, update: int) -> Array:
        """The weights of the updates from number ``update`` on, which these workers make."""
        workers = np.asarray(workers, np.int64)
        if workers.size and workers.max() >= len(self._shares):
            problem = f"has only {len(self._shares)} sizes, but there was a worker {workers.max()}"
            raise ArgumentError("architecture", f"Shards({list(self.sizes)})", problem, "Give a size for each worker.")
        weights = np.empty(len(workers))
        _weigh(workers, update, self._shares, self._last, self._gaps, self._means, weights)
        return weights

    def arrays(self) -> dict[str, Array]:
        """All that they remember, by name."""
        return {"shard_last": self._last, "shard_gaps": self._gaps, "shard_means": self._means}


@compiled
def _weigh(workers, update, shares, last, gaps, means, out):  # type: ignore[no-untyped-def]
    for i in range(workers.shape[0]):
        worker = workers[i]
        if last[worker] >= 0:
            gaps[worker] += 1
            gap = min(float(update + i - last[worker]), _LONGEST * means[worker])
            means[worker] += max(1.0 / (gaps[worker] + _BELIEF), 1.0 / _MEMORY) * (gap - means[worker])
        last[worker] = update + i
        out[i] = shares[worker] * means[worker]
