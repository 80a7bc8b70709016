"""Which updates of a chain become draws, and what is noted beside each of them."""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from stalegrad._internal.errors import ArgumentError
from stalegrad._internal.jit import compiled, inlined, jitable
from stalegrad._internal.types import Array, IntArray
from stalegrad._internal.validation import whole_number

LANES = 64
"""Sums side by side in a sum of squares."""


@jitable
def sampled(updates: int, cycle: int, explore: int) -> int:
    """How many of so many updates sample, if the first ``explore`` of every ``cycle`` do not."""
    if explore == 0:
        return updates
    return updates // cycle * (cycle - explore) + max(0, updates % cycle - explore)


@dataclass(frozen=True)
class Thinning:
    """Which updates become draws: after the first ``burn_in``, every ``thin``-th.

    Where a run goes in cycles, the first ``explore`` updates of each do not sample. They are never kept, and ``thin``
    counts the others.

    >>> thinning = Thinning(burn_in=10, thin=5)
    >>> thinning.draws(24), [thinning.index(update) for update in (9, 13, 14, 19)]
    (2, [None, None, 0, 1])
    >>> Thinning(cycle=10, explore=7).updates(20)
    array([ 7,  8,  9, 17, 18, 19])
    """

    burn_in: int = 0
    thin: int = 1
    cycle: int = 0
    explore: int = 0

    def __post_init__(self) -> None:
        whole_number("burn_in", self.burn_in)
        whole_number("thin", self.thin, least=1)
        whole_number("cycle", self.cycle)
        if whole_number("explore", self.explore) and self.explore >= self.cycle:
            problem = f"leaves nothing of a cycle of {self.cycle} updates"
            raise ArgumentError("explore", self.explore, problem, "Give fewer updates than those of a cycle.")

    def draws(self, steps: int) -> int:
        """How many draws so many updates leave."""
        return max(0, self._counted(steps)) // self.thin

    def index(self, update: int) -> int | None:
        """Which draw the update number ``update``, counted from 0, becomes; None if it is not kept."""
        if self.cycle and update % self.cycle < self.explore:
            return None
        index, rest = divmod(self._counted(update + 1), self.thin)
        return index - 1 if rest == 0 and index > 0 else None

    def update(self, draw: int) -> int:
        """Which update, counted from 0, becomes draw number ``draw``: the inverse of :meth:`index`."""
        return int(self.updates_of(np.array([draw]))[0])

    def updates(self, steps: int, since: int = 0) -> IntArray:
        """Which of so many updates became draws; those from ``since`` on."""
        return self.updates_of(np.arange(self.draws(since), self.draws(steps)))

    def updates_of(self, draws: IntArray) -> IntArray:
        """:meth:`update` of each of many draws."""
        number = sampled(self.burn_in, self.cycle, self.explore) + (draws + 1) * self.thin - 1  # of those that sample
        if not self.explore:
            return number
        cycles, rest = np.divmod(number, self.cycle - self.explore)
        return cycles * self.cycle + self.explore + rest

    def _counted(self, steps: int) -> int:
        """How many of so many updates sample, after the burn-in."""
        return int(sampled(steps, self.cycle, self.explore) - sampled(self.burn_in, self.cycle, self.explore))

    def refuse_unless_some(self, steps: int) -> None:
        """Refuse a run that would keep nothing."""
        if self.draws(steps) == 0:
            problem = f"and thin={self.thin} leave no draw of {steps} steps"
            raise ArgumentError("burn_in", self.burn_in, problem, "Keep at least one: burn_in + thin ≤ steps.")


class DrawStats(NamedTuple):
    """What is noted beside each draw, arrays with an entry a draw."""

    gradient_norm: Array
    """‖g̃‖ of the gradient, stale and of a minibatch, that made the draw."""
    kinetic_temperature: Array
    """qᵀq/n of the draw's momentum, which is T on average where h is small enough. NaN for kernels without momentum."""


class Window(NamedTuple):
    """Where the draws of many updates in a row go: R repetitions of them, from entry ``entry`` on."""

    burn_in: int
    thin: int
    cycle: int
    explore: int
    draws: Array
    """(R, draw, parameter)"""
    norms: Array
    """(R, draw), as the next."""
    temperatures: Array
    entry: int

    @classmethod
    def of(cls, thinning: Thinning, draws: Array, norms: Array, temperatures: Array, entry: int) -> "Window":
        """The window of draws that are kept by this rule."""
        rule = thinning.burn_in, thinning.thin, thinning.cycle, thinning.explore
        return cls(*rule, draws, norms, temperatures, entry)


@compiled
def keep(draws, norms, temperatures, index, position, gradient, momentum):  # type: ignore[no-untyped-def]
    """Write down draws (R, n) of R repetitions and their :class:`DrawStats` as entry ``index`` of arrays (R, draw)."""
    for r in range(position.shape[0]):
        draw, own = draws[r, index], position[r]
        for i in range(own.size):  # an assignment of whole arrays would bring its messages along: seconds to compile
            draw[i] = own[i]
        forces, momenta = np.zeros(LANES), np.zeros(LANES)
        add_squares(forces, gradient[r])
        if momentum is not None:
            add_squares(momenta, momentum[r])
        keep_stats(norms, temperatures, r, index, forces, momenta, momentum, position.shape[1])


@compiled
def keep_many(draws, norms, temperatures, index, positions, gradients, momenta):  # type: ignore[no-untyped-def]
    """The same of many draws in a row, arrays (draw, R, n), from entry ``index`` on."""
    for k in range(positions.shape[0]):
        momentum = None if momenta is None else momenta[k]
        keep(draws, norms, temperatures, index + k, positions[k], gradients[k], momentum)


@inlined
def add_squares(sums, values):  # type: ignore[no-untyped-def]
    """Add the squares of a stretch of a vector to :data:`LANES` sums: one alone would wait for itself at every term.

    Stretches that follow each other and begin at multiples of :data:`LANES` give the same bits as the whole vector.
    """
    for first in range(0, values.size, LANES):
        block = values[first : first + LANES]
        for lane in range(block.size):
            sums[lane] += np.float64(block[lane]) ** 2


@inlined
def keep_stats(norms, temperatures, r, index, forces, momenta, momentum, n):  # type: ignore[no-untyped-def]
    """Write down the :class:`DrawStats` of repetition ``r`` from the sums of squares of its gradient and momentum."""
    norms[r, index] = np.sqrt(forces.sum())
    if momentum is not None:
        temperatures[r, index] = momenta.sum() / n
