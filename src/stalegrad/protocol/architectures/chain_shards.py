"""Data that are cut into shards by chains, and not by workers as in :mod:`stalegrad.potentials.minibatches.shards`."""

from stalegrad._internal.errors import ArgumentError
from stalegrad.potentials.base import Potential
from stalegrad.potentials.minibatches.shards import ShardedMinibatches


def shards_of(potential: Potential, sizes: tuple[int, ...]) -> ShardedMinibatches:
    """Minibatches of a model within shards of these sizes."""
    if potential.addressed:
        raise ArgumentError(
            "potential", potential, "chooses its data itself, so that they cannot be cut into shards",
            "Give the model itself.",
        )  # fmt: skip
    batches = potential.minibatches
    return ShardedMinibatches(batches.n_data, batches.batch_size, batches.scheme, sizes=sizes)
