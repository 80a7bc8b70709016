"""Hands draws on as they come and keeps no more of them than asked for: the recorder of averages without a store."""

from pathlib import Path

import numpy as np

from stalegrad._internal.errors import StalegradError
from stalegrad._internal.types import Array
from stalegrad.potentials import Potential
from stalegrad.potentials.coordinates import Coordinates
from stalegrad.protocol.chain import Chain, Record
from stalegrad.protocol.collector import DrawBlock, DrawCollector
from stalegrad.protocol.draws import DrawStats, Window, keep
from stalegrad.protocol.settings import Settings
from stalegrad.runs.averages import Averages
from stalegrad.runs.store.writer import Writer

_BLOCK_BYTES = 1 << 20
_MOST_ROWS = 256


class StreamRecorder:
    """Draws in blocks of about a megabyte, one a chain, each of which is evaluated by another thread and forgotten.

    Args:
        settings: of the run, whose ``keep`` says what is not forgotten.
        potential: the model, for the size and type of a draw.
        coordinates: in which the chains run, if they are not those of the draws.
        averages: what is evaluated, or None.
    """

    rows = 1

    def __init__(
        self, settings: Settings, potential: Potential, coordinates: Coordinates | None, averages: Averages | None
    ) -> None:
        self._settings, self._coordinates, self._averages = settings, coordinates, averages
        self._size, self._dtype = potential.size, potential.dtype
        self._worker = Writer(Path("averages"), "stop")
        self._chains = [
            ChainStream(server, settings, potential, coordinates, averages, self._worker)
            for server in range(settings.servers)
        ]

    @property
    def draws(self) -> Array:
        """The draws that are kept and that all chains have, (chain, draw, parameter)."""
        kept = self.chain_draws
        return np.stack([draws[: min(map(len, kept))] for draws in kept])

    @property
    def chain_draws(self) -> tuple[Array, ...]:
        """The draws that are kept of each chain, (draw, parameter)."""
        return tuple(chain.kept_draws for chain in self._chains)

    @property
    def stats(self) -> DrawStats:
        """What was noted beside each draw that is kept."""
        common = min(chain.made for chain in self._chains)
        kept = self._settings.kept(common)
        columns = [chain.columns for chain in self._chains]
        return DrawStats(*(np.stack([own[k][kept] for own in columns]) for k in range(2)))

    def commits(self) -> list[int]:
        """How often each chain has been saved: never."""
        return [0] * len(self._chains)

    def draws_in_memory(self, server: int, ended: bool = False) -> tuple[int, Array]:
        """The draws of a chain that have not been handed on, see :data:`stalegrad.runs.progress.DrawsInMemory`."""
        return self._chains[server].in_memory

    def of(self, server: int) -> Record:
        """The recorder of one server."""
        return self._chains[server]

    def hurry(self) -> None:
        """Nothing is waited for but the evaluation of a few draws."""

    def settle(self) -> StalegradError | None:
        """Wait until all draws have been evaluated; why they could not be."""
        try:
            for chain in self._chains:
                chain.hand_on()
        except StalegradError:
            pass  # it is the failure below
        self._worker.close()
        return self._worker.failure

    def arrays(self, server: int) -> tuple[Array, ...]:
        """Nothing: runs of several processes have a store."""
        return ()

    def reserve(self, server: int, kept: int) -> tuple[Array, ...]:
        """Nothing: no draws come from ranks of MPI without a store."""
        return ()

    def collector(self) -> DrawCollector:
        """What keeps the draws of a chain in another process."""
        return DrawCollector(self._settings.thinning, self._size, self._dtype, self._coordinates)

    def collect(self, server: int, block: DrawBlock) -> None:
        """Evaluate draws that such a collector has kept."""
        self._chains[server].collect(block)


class ChainStream(Record):
    """The present block of one chain.

    Args:
        server: which chain.
        settings: of the run.
        potential: the model.
        coordinates: in which the chain runs.
        averages: what is evaluated.
        worker: the thread that evaluates.
    """

    def __init__(
        self,
        server: int,
        settings: Settings,
        potential: Potential,
        coordinates: Coordinates | None,
        averages: Averages | None,
        worker: Writer,
    ) -> None:
        self._server, self._thinning, self._coordinates = server, settings.thinning, coordinates
        self._averages, self._worker, self._keep = averages, worker, settings.keep
        self._size, self._dtype = potential.size, potential.dtype
        row = potential.size * np.dtype(potential.dtype).itemsize
        self._room = max(1, min(_MOST_ROWS, _BLOCK_BYTES // row))
        total = settings.thinning.draws(settings.steps)
        self._norms, self._temperatures = np.empty((1, total)), np.full((1, total), np.nan)
        self._all = np.empty((1, total if settings.keep == "all" else 0, potential.size), potential.dtype)
        self._last: Array | None = None
        self.made = 0
        """Draws so far."""
        self._first = 0
        self._block = self._renewed()

    @property
    def kept_draws(self) -> Array:
        """What is kept of them, (draw, n)."""
        if self._keep == "all":
            return self._all[0, : self.made]
        if self._keep == "none" or self._last is None:
            return np.empty((0, self._size), self._dtype)
        return np.array(self._last)[None]

    @property
    def columns(self) -> tuple[Array, Array]:
        """What was noted beside each."""
        return self._norms[0, : self.made], self._temperatures[0, : self.made]

    @property
    def in_memory(self) -> tuple[int, Array]:
        """The first draw of the present block, and its draws."""
        first = self._first
        return first, self._block[0, : max(0, self.made - first)]

    def __call__(self, update: int, chain: Chain, gradient: Array) -> None:
        """Update number ``update`` has been made."""
        if self._thinning.index(update) is not None:
            filled, momentum = self.made - self._first, chain.kernel.momentum(chain.state)
            norms, temperatures = self._norms[:, self._first :], self._temperatures[:, self._first :]
            keep(self._block, norms, temperatures, filled, chain.position, gradient, momentum)
            self._added(1)

    def window(self, version: int, updates: int) -> tuple[Window, int]:
        """Where the draws of so many updates go, and for how many of these there is room."""
        filled, thinning = self.made - self._first, self._thinning
        norms, temperatures = self._norms[:, self._first :], self._temperatures[:, self._first :]
        room = (self._room - filled) * thinning.thin
        return Window.of(thinning, self._block, norms, temperatures, filled), min(updates, room)

    def filled(self, version: int) -> None:
        """The updates up to ``version`` have been made."""
        if (draws := self._thinning.draws(version) - self.made) > 0:
            self._added(draws)

    def collect(self, block: DrawBlock) -> None:
        """Take over draws from elsewhere, which are draws of θ."""
        taken = 0
        while taken < len(block.draws):
            filled = self.made - self._first
            count = min(self._room - filled, len(block.draws) - taken)
            rows = slice(taken, taken + count)
            self._block[0, filled : filled + count] = block.draws[rows]
            for own, given in ((self._norms, block.gradient_norm), (self._temperatures, block.kinetic_temperature)):
                own[0, self.made : self.made + count] = given[rows]
            self.made, taken = self.made + count, taken + count
            if self.made - self._first == self._room:
                self.hand_on()

    def _added(self, draws: int) -> None:
        filled = self.made - self._first
        if self._coordinates is not None:
            new = self._block[:, filled : filled + draws]
            new[...] = self._coordinates.original(new)
        self.made += draws
        if self.made - self._first == self._room:
            self.hand_on()

    def hand_on(self) -> None:
        """Have the draws of the block evaluated, and go on with a new one."""
        first, filled = self._first, self.made - self._first
        if not filled:
            return
        draws = self._block[0, :filled]
        self._last = draws[-1]
        self._first = self.made
        self._block = self._renewed()
        averages = self._averages
        if averages is not None:
            self._worker.put(lambda: averages.add(self._server, first, draws), draws.nbytes)

    def _renewed(self) -> Array:
        """Room for a block; of draws that are kept, where they stay."""
        if self._keep == "all":
            return self._all[:, self._first : self._first + self._room]
        return np.empty((1, self._room, self._size), self._dtype)
