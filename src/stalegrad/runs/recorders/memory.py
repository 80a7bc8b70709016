"""Keeps the draws of a run in memory."""

import numpy as np

from stalegrad._internal.errors import StalegradError
from stalegrad._internal.types import Array
from stalegrad._internal.validation import whole_number
from stalegrad.kernels.noise import MAX_REPEATS
from stalegrad.potentials import Potential
from stalegrad.potentials.coordinates import Coordinates
from stalegrad.protocol.chain import Chain, Record
from stalegrad.protocol.collector import DrawBlock, DrawCollector
from stalegrad.protocol.draws import DrawStats, Thinning, Window, keep


class Recorder:
    """Keeps the draws of all chains in one array that is allocated before the run starts.

    Args:
        repeats: R, or None for a single run.
        servers: S.
        steps: L.
        thinning: which updates are kept.
        potential: the model, for the size and type of a draw.
        coordinates: in which the chains run, if they are not those of the draws.
    """

    def __init__(
        self,
        repeats: int | None,
        servers: int,
        steps: int,
        thinning: Thinning,
        potential: Potential,
        coordinates: Coordinates | None = None,
    ) -> None:
        thinning.refuse_unless_some(steps)
        self.rows = 1 if repeats is None else whole_number("repeats", repeats, least=1, most=MAX_REPEATS)
        self._thinning, self._coordinates = thinning, coordinates
        shape = (self.rows, servers, thinning.draws(steps))
        self._draws = np.empty((*shape, potential.size), potential.dtype)
        self._stats = DrawStats(np.empty(shape), np.full(shape, np.nan))
        self._kept = [0] * servers
        self._reserved: set[int] = set()  # chains whose draws are on their way from another process
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

    def commits(self) -> list[int]:
        """How often each chain has been saved: never."""
        return [0] * len(self._kept)

    def draws_in_memory(self, server: int, ended: bool = False) -> tuple[int, Array]:
        """0 and a chain's draws so far, (draw, n), of repetition 0: :data:`~stalegrad.runs.progress.DrawsInMemory`."""
        kept = self._kept[server] if ended or server not in self._reserved else 0
        return 0, self._draws[0, server, :kept]

    def of(self, server: int) -> Record:
        """The recorder of one server."""
        columns = (self._draws, *self._stats)
        draws, norms, temperatures = (column[:, server] for column in columns)
        return ChainRecorder(server, self._thinning, self._kept, draws, norms, temperatures, self._coordinates)

    def hurry(self) -> None:
        """Nothing is ever waited for."""

    def settle(self) -> StalegradError | None:
        """What is in memory is as safe as it gets."""
        return None

    def arrays(self, server: int) -> tuple[Array, ...]:
        """The draws of a chain and what was noted beside each of them, as they lie in memory."""
        return tuple(column[0, server, : self._kept[server]] for column in (self._draws, *self._stats))

    def reserve(self, server: int, kept: int) -> tuple[Array, ...]:
        """The same arrays, to be filled with so many draws."""
        self._reserved.add(server)
        self._kept[server] = kept
        return self.arrays(server)

    def collector(self) -> DrawCollector:
        """What keeps the draws of a chain in another process."""
        return DrawCollector(self._thinning, self._draws.shape[-1], self._draws.dtype, self._coordinates)

    def collect(self, server: int, block: DrawBlock) -> None:
        """Add draws that such a collector has kept to those of a chain."""
        first = self._kept[server]
        last = first + len(block.draws)
        for own, given in zip((self._draws, *self._stats), block, strict=True):
            own[0, server, first:last] = given
        self._kept[server] = last

    def _common(self, array: Array) -> Array:
        shared = array[:, :, : min(self._kept)]
        return shared[0] if self._squeeze else shared


class ChainRecorder(Record):
    """Keeps the draws of one chain: called after every update, or given a window for many updates at once.

    Args:
        server: which chain.
        thinning: which updates are kept.
        kept: how many draws each chain has; the entry of this one is kept up to date.
        draws: room for all draws, (R, draw, parameter).
        norms: room for what is noted beside them, (R, draw).
        temperatures: likewise.
        coordinates: in which the chain runs, if they are not those of the draws.
    """

    def __init__(
        self,
        server: int,
        thinning: Thinning,
        kept: list[int],
        draws: Array,
        norms: Array,
        temperatures: Array,
        coordinates: Coordinates | None = None,
    ) -> None:
        self._server, self._thinning, self._kept, self._coordinates = server, thinning, kept, coordinates
        self._room = draws.shape[1]
        self._columns = draws, norms, temperatures

    def __call__(self, update: int, chain: Chain, gradient: Array) -> None:
        """Update number ``update`` has been made."""
        index = self._thinning.index(update)
        if index is not None and index < self._room:
            keep(*self._columns, index, chain.position, gradient, chain.kernel.momentum(chain.state))
            self._add(index + 1)

    def window(self, version: int, updates: int) -> tuple[Window, int]:
        """Where the draws of so many updates after ``version`` go, and for how many of these there is room."""
        entry = self._thinning.draws(version)
        return Window.of(self._thinning, *self._columns, entry), updates

    def filled(self, version: int) -> None:
        """The updates up to ``version`` have been made and their draws written into the window."""
        self._add(self._thinning.draws(version))

    def _add(self, kept: int) -> None:
        """So many draws are there now; nobody looks at new ones before they are draws of θ."""
        new = self._columns[0][:, self._kept[self._server] : kept]
        if self._coordinates is not None and new.size:
            new[...] = self._coordinates.original(new)
        self._kept[self._server] = kept
