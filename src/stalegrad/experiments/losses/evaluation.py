"""When φ is looked at on the way of a chain, and φ̂, the average over *all* its updates that follows.

φ̂_L = Σ_l h_l φ(θ_l) / Σ_l h_l is over all L = W·L̄ updates, of which only some can be looked at. Between two of them φ
is taken to be linear: what is averaged are L values, of which the places looked at are exact. They are every iteration
at first, when the loss falls fast, and then a fixed number for each factor e of L̄. Stale gradients make networks
oscillate now and then, nine workers LeNet up to twentyfold with a period of some 27 updates: for these, places are no
further apart than a third of that. So the average no longer depends on how many there are (``grid_error`` says how much
it does), and a longer chain is looked at where a shorter one was.
"""

from collections.abc import Iterator

import numpy as np

from stalegrad._internal.errors import ArgumentError
from stalegrad._internal.types import Array, IntArray

ROUND = (1, 2, 3, 5)
"""Times powers of ten: the iterations at which averaged predictions are kept, and where a chain may end."""


def places(last: int, density: int, apart: int | None = None) -> IntArray:
    """Iterations L̄ of each worker after which φ is looked at, up to ``last``; those of a smaller ``last`` come first.

    Args:
        last: the most iterations.
        density: every iteration up to twice this one, and then about so many for each factor e.
        apart: and all multiples of this.

    >>> places(20, density=4).tolist()
    [1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 15, 18, 20]
    >>> places(20, density=4, apart=2).tolist()
    [1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 14, 15, 16, 18, 20]
    """
    found, here = [], 0
    while here < last:
        here += max(1, here // density)
        found.append(here)
    chosen = np.union1d(found, [*rounded(last), *range(apart or last, last + 1, apart or last)])
    return np.asarray(chosen[chosen <= last], np.int64)


def rounded(last: int) -> Iterator[int]:
    """1, 2, 3, 5, 10, 20, …, up to ``last``.

    >>> list(rounded(30))
    [1, 2, 3, 5, 10, 20, 30]
    """
    power = 1
    while power <= last:
        yield from (lead * power for lead in ROUND if lead * power <= last)
        power *= 10


def refuse_unless_a_place(iterations: int, density: int) -> None:
    """Refuse a number of iterations at whose end φ is not looked at."""
    near = places(2 * iterations, density)
    if iterations not in near:
        below, above = near[near < iterations][-1], near[near > iterations][0]
        problem = "is not one of the places where the loss is looked at"
        raise ArgumentError("iterations", iterations, problem, f"Give {below} or {above}, or a round number.")


def running_average(first: float, loss: Array, at: IntArray, weights: Array) -> Array:
    """φ̂ at each place: the average over all updates up to there, with φ linear between the places.

    Args:
        first: φ(θ_0), which the average leaves out.
        loss: φ at each place.
        at: the number of updates made there, increasing.
        weights: h_l of every update, (L,) or longer.

    >>> running_average(9.0, np.array([4.0, 1.0]), np.array([1, 3]), np.ones(3))
    array([4. , 2.5])
    """
    updates = np.arange(1, at[-1] + 1)
    phi = np.interp(updates, [0, *at], [first, *loss])
    weight = weights[: len(updates)]
    return np.asarray((np.cumsum(weight * phi) / np.cumsum(weight))[at - 1])


def grid_error(first: float, loss: Array, at: IntArray, weights: Array) -> float:
    """By how much φ̂ at the end changes, relative to itself, if every other place is left out."""
    half = half_of(np.arange(len(at)))
    ends = [running_average(first, loss[kept], at[kept], weights)[-1] for kept in (slice(None), half)]
    return float(abs(ends[1] / ends[0] - 1))


def half_of(grid: IntArray) -> IntArray:
    """Every other place of a grid, and its last.

    >>> half_of(np.array([1, 2, 5, 9])), half_of(np.array([1, 2, 5]))
    (array([2, 9]), array([1, 5]))
    """
    return grid[::-1][::2][::-1]
