"""Data that are cut into shards, one a worker: which minibatches a worker then draws, and from which rows."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from stalegrad._internal.errors import ArgumentError
from stalegrad._internal.types import IntArray
from stalegrad._internal.validation import whole_number
from stalegrad.potentials.address import GradientAddress
from stalegrad.potentials.minibatches.scheme import Minibatches

_REMEDY = "Leave the sizes out for shards of equal size, or give one for each, which sum to the number of data."


def shard_sizes(given: Sequence[int] | None, n_data: int, shards: int) -> tuple[int, ...]:
    """The sizes of shards: those given, or as equal as can be.

    Args:
        given: one size for each, or None.
        n_data: N.
        shards: how many there are.

    >>> shard_sizes(None, n_data=10, shards=4)
    (3, 3, 2, 2)
    """
    if given is None:
        each, more = divmod(n_data, shards)
        if each == 0:
            problem = f"leave some of {shards} without any of {n_data} data"
            raise ArgumentError("shards", shards, problem, "Give at most as many as there are data.")
        return (each + 1,) * more + (each,) * (shards - more)
    sizes = given_sizes(given)
    if len(sizes) != shards:
        raise ArgumentError("sizes", given, f"has {len(sizes)} entries for {shards} shards", _REMEDY)
    if sum(sizes) != n_data:
        raise ArgumentError("sizes", given, f"sums to {sum(sizes)}, but there are {n_data} data", _REMEDY)
    return sizes


def given_sizes(sizes: Any) -> tuple[int, ...]:
    """Sizes as the user gave them, each at least 1."""
    if not isinstance(sizes, Sequence | np.ndarray) or isinstance(sizes, str | bytes):
        raise ArgumentError("sizes", sizes, "is not a list of sizes", _REMEDY)
    return tuple(whole_number(f"sizes[{w}]", size, least=1) for w, size in enumerate(sizes))


@dataclass(frozen=True)
class ShardedMinibatches(Minibatches):
    """Minibatches of J data of a worker's own shard.

    Worker w's data are those with the indices N_0 + … + N_{w−1} and the N_w − 1 that follow; see :meth:`rows`.
    Minibatches outside a run, such as those of a diagnosis, are drawn from all data.

    Args:
        sizes: N_0, …, N_{W−1}, each at least J.

    >>> batches = ShardedMinibatches(n_data=1000, batch_size=4, sizes=(100, 900))
    >>> batches.draw(seed=1, chain=0, worker=0, count=7)
    array([10, 75, 61, 33])
    """

    sizes: tuple[int, ...] = ()
    _parts: tuple[Minibatches, ...] = field(init=False, repr=False, compare=False)
    _starts: tuple[int, ...] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        super().__post_init__()
        sizes = shard_sizes(self.sizes, self.n_data, len(self.sizes))
        if self.batch_size > min(sizes):
            problem = f"is more than the {min(sizes)} data of the smallest of {len(sizes)} shards"
            remedy = f"Give the model a batch_size from 1 to {min(sizes)}, or fewer workers."
            raise ArgumentError("batch_size", self.batch_size, problem, remedy)
        object.__setattr__(self, "_parts", tuple(Minibatches(size, self.batch_size, self.scheme) for size in sizes))
        object.__setattr__(self, "_starts", tuple((np.cumsum(sizes) - sizes).tolist()))

    def rows(self, worker: int) -> slice:
        """The data of a worker: no other is read for it."""
        start = self._starts[worker]
        return slice(start, start + self.sizes[worker])

    def draw_from(self, shard: int, address: GradientAddress, repeats: int) -> IntArray:
        """The indices, (R, J) int64 among all data, of R repetitions of a minibatch of one shard."""
        seed, chain, worker, count, first = address
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
