"""Which draws of a run are kept, where, and what is noted beside each of them."""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from stalegrad.chain import Chain
from stalegrad.checks import whole_number
from stalegrad.errors import ArgumentError, StalegradError
from stalegrad.jit import compiled, inlined
from stalegrad.noise import MAX_REPEATS
from stalegrad.potentials import Potential
from stalegrad.server import Record
from stalegrad.types import Array


@dataclass(frozen=True)
class Thinning:
    """Which updates become draws: after the first ``burn_in``, every ``thin``-th.

    >>> thinning = Thinning(burn_in=10, thin=5)
    >>> thinning.draws(24), [thinning.index(update) for update in (9, 13, 14, 19)]
    (2, [None, None, 0, 1])
    """

    burn_in: int = 0
    thin: int = 1

    def __post_init__(self) -> None:
        whole_number("burn_in", self.burn_in)
        whole_number("thin", self.thin, least=1)

    def draws(self, steps: int) -> int:
        """How many draws so many updates leave."""
        return max(0, steps - self.burn_in) // self.thin

    def index(self, update: int) -> int | None:
        """Which draw the update number ``update``, counted from 0, becomes; None if it is not kept."""
        index, rest = divmod(update + 1 - self.burn_in, self.thin)
        return index - 1 if rest == 0 and index > 0 else None

    def updates(self, steps: int) -> slice:
        """Which of so many updates became draws."""
        return slice(self.burn_in + self.thin - 1, self.burn_in + self.draws(steps) * self.thin, self.thin)

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


class Recorder:
    """Keeps the draws of all chains in one array that is allocated before the run starts.

    Args:
        repeats: R, or None for a single run.
        servers: S.
        steps: L.
        thinning: which updates are kept.
        potential: the model, for the size and type of a draw.
    """

    def __init__(self, repeats: int | None, servers: int, steps: int, thinning: Thinning, potential: Potential) -> None:
        thinning.refuse_unless_some(steps)
        self.rows = 1 if repeats is None else whole_number("repeats", repeats, least=1, most=MAX_REPEATS)
        self._thinning = thinning
        shape = (self.rows, servers, thinning.draws(steps))
        self._draws = np.empty((*shape, potential.size), potential.dtype)
        self._stats = DrawStats(np.empty(shape), np.full(shape, np.nan))
        self._kept = [0] * servers
        self._squeeze = repeats is None

    @property
    def draws(self) -> Array:
        """The draws that all chains have: (chain, draw, parameter), after repetitions where they were asked for."""
        return self._common(self._draws)

    @property
    def stats(self) -> DrawStats:
        """What was noted beside those draws: (chain, draw), after repetitions where they were asked for."""
        return DrawStats(*map(self._common, self._stats))

    @property
    def chain_draws(self) -> tuple[Array, ...]:
        """All draws of each chain: (draw, parameter), with repetitions first where they were asked for."""
        chains = [self._draws[:, s, :kept] for s, kept in enumerate(self._kept)]
        return tuple(chain[0] if self._squeeze else chain for chain in chains)

    def latest(self, server: int) -> tuple[int, Array] | None:
        """The number and a copy of a chain's latest draw, while the run goes on; None before the first."""
        kept = self._kept[server]
        return (kept, self._draws[0, server, kept - 1].copy()) if kept else None

    def of(self, server: int) -> Record:
        """The recorder of one server."""
        draws, room = self._draws[:, server], self._draws.shape[2]
        norms, temperatures = (column[:, server] for column in self._stats)
        burn_in, thin = self._thinning.burn_in, self._thinning.thin

        def record(update: int, chain: Chain, gradient: Array) -> None:
            index, rest = divmod(update + 1 - burn_in, thin)  # as Thinning.index, without the call: once an update
            if rest == 0 and 0 < index <= room:
                keep(
                    draws, norms, temperatures, index - 1, chain.position, gradient, chain.kernel.momentum(chain.state)
                )
                self._kept[server] = index

        return record

    def settle(self) -> StalegradError | None:
        """What is in memory is as safe as it gets."""
        return None

    def arrays(self, server: int) -> tuple[Array, ...]:
        """The draws of a chain and what was noted beside each of them, as they lie in memory."""
        return tuple(column[0, server, : self._kept[server]] for column in (self._draws, *self._stats))

    def reserve(self, server: int, kept: int) -> tuple[Array, ...]:
        """The same arrays, for somebody to fill with so many draws."""
        self._kept[server] = kept
        return self.arrays(server)

    def _common(self, array: Array) -> Array:
        shared = array[:, :, : min(self._kept)]
        return shared[0] if self._squeeze else shared


@compiled
def keep(draws, norms, temperatures, index, position, gradient, momentum):  # type: ignore[no-untyped-def]
    """Write down draws (R, n) of R repetitions and their :class:`DrawStats` as entry ``index`` of arrays (R, draw)."""
    for r in range(position.shape[0]):
        draws[r, index, :] = position[r]
        norms[r, index] = np.sqrt(_sum_of_squares(gradient[r]))
        if momentum is not None:
            temperatures[r, index] = _sum_of_squares(momentum[r]) / position.shape[1]


@inlined
def _sum_of_squares(values):  # type: ignore[no-untyped-def]
    """Σ x², in many sums side by side: one sum alone would wait for itself at every term."""
    sums = np.zeros(64)
    for first in range(0, values.size, 64):
        block = values[first : first + 64]
        for lane in range(block.size):
            sums[lane] += np.float64(block[lane]) ** 2
    return sums.sum()
