"""Where a gradient stands in a run: what names its minibatch, and whatever else is random about it."""

from typing import NamedTuple


class GradientAddress(NamedTuple):
    """The address of a gradient, which names its minibatch and whatever else is random about it.

    Args:
        seed: of the run.
        chain: the chain that it is for.
        worker: who computes it.
        count: k, if it is the worker's k-th.
        first_repeat: number of the first of R repetitions.
    """

    seed: int
    chain: int
    worker: int
    count: int  # type: ignore[assignment]  # not tuple.count
    first_repeat: int = 0
