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

Nobody knows the p_w of an asynchronous run beforehand, but a server sees them: 1/p_w is the mean number of updates from
one gradient of worker w to its next, m_w. Its estimate starts at W, as if all were equally fast, and each gap moves it,

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
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np

from stalegrad.checks import whole_number
from stalegrad.errors import ArgumentError
from stalegrad.jit import compiled
from stalegrad.potentials.base import Potential, Whose
from stalegrad.potentials.minibatches import Minibatches
from stalegrad.potentials.wrapper import Wrapper
from stalegrad.types import Array, IntArray

_BELIEF = 2  # gaps of length W that are thought to have been seen
_MEMORY = 1000  # gaps that the mean is about, in the long run
_LONGEST = 10.0  # means that a gap counts for at most
_REMEDY = "Give True for shards of equal size, or the size of each worker's, which sum to the number of data."


def shard_sizes(shard: Any, n_data: int, workers: int) -> tuple[int, ...] | None:
    """The sizes that ``shard`` asks for: None for no shards, as equal as can be, or those given.

    Args:
        shard: False, True, or one size for each worker.
        n_data: N.
        workers: W.

    >>> shard_sizes(True, n_data=10, workers=4)
    (3, 3, 2, 2)
    """
    if shard is None or shard is False:
        return None
    if shard is True:
        each, more = divmod(n_data, workers)
        if each == 0:
            raise ArgumentError(
                "shard", shard, f"leaves some of {workers} workers without any of {n_data} data", _REMEDY
            )
        return (each + 1,) * more + (each,) * (workers - more)
    sizes = given_sizes(shard)
    if len(sizes) != workers:
        raise ArgumentError("shard", shard, f"has {len(sizes)} sizes for {workers} workers", _REMEDY)
    if sum(sizes) != n_data:
        raise ArgumentError("shard", shard, f"sums to {sum(sizes)}, but there are {n_data} data", _REMEDY)
    return sizes


def given_sizes(shard: Any) -> tuple[int, ...]:
    """Sizes that somebody has written down, each at least 1."""
    if not isinstance(shard, Sequence | np.ndarray) or isinstance(shard, str | bytes):
        raise ArgumentError("shard", shard, "is neither true, false nor a list of sizes", _REMEDY)
    return tuple(whole_number(f"shard[{w}]", size, least=1) for w, size in enumerate(shard))


@dataclass(frozen=True)
class ShardedMinibatches(Minibatches):
    """Minibatches of J data of a worker's own shard.

    Worker w's data are those with the indices N_0 + … + N_{w−1} and the N_w − 1 that follow; see :meth:`rows`.
    Whoever is no worker, such as a diagnosis, draws from all data.

    Args:
        sizes: N_0, …, N_{W−1}, each at least J.

    >>> batches = ShardedMinibatches(n_data=1000, batch_size=4, sizes=(100, 900))
    >>> batches.draw(seed=1, chain=0, worker=0, count=7)
    array([10, 75, 61, 33])
    """

    sizes: tuple[int, ...] = ()
    _parts: tuple[Minibatches, ...] = field(init=False, repr=False, compare=False)
    _starts: tuple[int, ...] = field(init=False, repr=False, compare=False)

    sharded: ClassVar[bool] = True

    def __post_init__(self) -> None:
        super().__post_init__()
        sizes = shard_sizes(self.sizes, self.n_data, len(self.sizes)) or ()
        if self.batch_size > min(sizes):
            problem = f"is more than the {min(sizes)} data of the smallest of {len(sizes)} shards"
            remedy = f"Give the model a batch_size from 1 to {min(sizes)}, or fewer workers."
            raise ArgumentError("batch_size", self.batch_size, problem, remedy)
        object.__setattr__(self, "_parts", tuple(Minibatches(size, self.batch_size, self.scheme) for size in sizes))
        object.__setattr__(self, "_starts", tuple((np.cumsum(sizes) - sizes).tolist()))

    def rows(self, worker: int) -> slice:
        """The data of a worker: all that it ever asks for."""
        start = self._starts[worker]
        return slice(start, start + self.sizes[worker])

    def draw_from(self, shard: int, whose: Whose, repeats: int) -> IntArray:
        """The indices, (R, J) int64 among all data, of R repetitions of a minibatch of one shard, whoever asks."""
        seed, chain, worker, count, first = whose
        within = self._parts[shard].draw_many(seed, chain, [worker], [count], repeats, first)[0]
        return np.asarray(within + self._starts[shard])

    def draw(self, seed: int, chain: int, worker: int, count: int, repeat: int = 0) -> IntArray:
        """The indices, (J,) int64, among all data."""
        if worker >= len(self.sizes):
            return super().draw(seed, chain, worker, count, repeat)
        return self._parts[worker].draw(seed, chain, worker, count, repeat) + self._starts[worker]

    def draw_many(
        self, seed: int, chain: int, workers: Any, counts: Any, repeats: int, first_repeat: int = 0
    ) -> IntArray:
        """As :meth:`Minibatches.draw_many`, worker by worker."""
        workers, counts = np.asarray(workers), np.asarray(counts)
        out = np.empty((workers.size, repeats, self.batch_size), np.int64)
        for worker in np.unique(workers):
            mine = workers == worker
            within = worker < len(self.sizes)
            batches: Any = self._parts[worker] if within else super()
            drawn = batches.draw_many(seed, chain, workers[mine], counts[mine], repeats, first_repeat)
            out[mine] = drawn + (self._starts[worker] if within else 0)
        return out


class Sharded(Wrapper):
    """A model whose data are in shards, as workers see it; the server weighs its gradients.

    ``sg.sample(..., shard=True)`` makes it.

    Args:
        potential: the model.
        sizes: of the shards, one a worker.
    """

    def __init__(self, potential: Potential, sizes: tuple[int, ...]) -> None:
        batches = potential.minibatches
        super().__init__(potential, ShardedMinibatches(batches.n_data, batches.batch_size, batches.scheme, sizes=sizes))


class ShardWeights:
    """β̂ of the gradients of one chain, in the order of its updates.

    Args:
        sizes: of the shards.

    >>> weights = ShardWeights((100, 900))
    >>> weights.next([0, 1, 0, 1]).round(2)  # workers by turns: twice the share of the data
    array([0.2, 1.8, 0.2, 1.8])
    """

    def __init__(self, sizes: tuple[int, ...]) -> None:
        workers = len(sizes)
        self._shares = np.array(sizes) / sum(sizes)
        self._last = np.full(workers, -1, np.int64)  # the update that each has made last
        self._gaps = np.zeros(workers, np.int64)  # how many have been seen
        self._means = np.full(workers, float(workers))
        self._update = 0

    def next(self, workers: Any) -> Array:
        """The weights of the next updates, which these workers make."""
        workers = np.asarray(workers, np.int64)
        if workers.size and workers.max() >= len(self._shares):
            problem = f"has only {len(self._shares)} sizes, but there was a worker {workers.max()}"
            raise ArgumentError("shard", len(self._shares), problem, "Give a size for each worker.")
        weights = np.empty(len(workers))
        _weigh(workers, self._update, self._shares, self._last, self._gaps, self._means, weights)
        self._update += len(workers)
        return weights

    def next_of(self, worker: int) -> np.float64:
        """The weight of the next update, which this worker makes."""
        weight: np.float64 = self.next([worker])[0]
        return weight


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


def shard_weights(batches: Minibatches | None, past: Any = None) -> ShardWeights | None:
    """The weights of a chain's gradients after updates by the workers ``past``; None unless data are in shards."""
    if not isinstance(batches, ShardedMinibatches):
        return None
    weights = ShardWeights(batches.sizes)
    weights.next([] if past is None else past)
    return weights
