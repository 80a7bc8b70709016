"""Which draws of a run are kept, where, and what is noted beside each of them."""

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from stalegrad.chain import Chain
from stalegrad.checks import whole_number
from stalegrad.engines.base import DrawBlock
from stalegrad.errors import ArgumentError
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

    def collect(self, server: int, block: DrawBlock) -> None:
        """Add draws that were made elsewhere to those of a server."""
        first = self._kept[server]
        last = first + len(block.draws)
        for own, given in zip((self._draws, *self._stats), block, strict=True):
            own[0, server, first:last] = given
        self._kept[server] = last

    def _common(self, array: Array) -> Array:
        shared = array[:, :, : min(self._kept)]
        return shared[0] if self._squeeze else shared


class DrawCollector:
    """Keeps the draws of one chain, in another process than the run's, until somebody takes them.

    Args:
        thinning: which updates are kept.
        size, dtype: of a draw.
    """

    def __init__(self, thinning: Thinning, size: int, dtype: np.dtype[Any]) -> None:
        self._thinning, self._size, self._dtype = thinning, size, dtype
        self._filled = 0
        self._block = self._room(0)

    @property
    def bytes(self) -> int:
        """How much it holds."""
        return self._filled * self._size * self._dtype.itemsize

    def record(self, update: int, chain: Chain, gradient: Array) -> None:
        """Keep the chain's position if the update is one of those."""
        if self._thinning.index(update) is not None:
            if self._filled == len(self._block.draws):
                larger = self._room(2 * self._filled)
                for old, new in zip(self._block, larger, strict=True):
                    new[: self._filled] = old
                self._block = larger
            draws, norms, temperatures = (part[None] for part in self._block)
            momentum = chain.kernel.momentum(chain.state)
            keep(draws, norms, temperatures, self._filled, chain.position, gradient, momentum)
            self._filled += 1

    def take(self) -> DrawBlock:
        """The draws since the last time; from now on they are the caller's."""
        taken = DrawBlock(*(part[: self._filled] for part in self._block))
        self._filled = 0
        self._block = self._room(0)
        return taken

    def _room(self, rows: int) -> DrawBlock:
        rows = max(rows, 16)
        return DrawBlock(np.empty((rows, self._size), self._dtype), np.empty(rows), np.full(rows, np.nan))


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
