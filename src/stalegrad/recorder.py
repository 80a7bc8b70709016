"""Which draws of a run are kept, and where."""

import numpy as np

from stalegrad.checks import whole_number
from stalegrad.errors import ArgumentError
from stalegrad.noise import MAX_REPEATS
from stalegrad.potentials import Potential
from stalegrad.server import Record
from stalegrad.types import Array


class Recorder:
    """Keeps the draws of all chains in one array that is allocated before the run starts.

    Args:
        repeats: R, or None for a single run.
        servers: S.
        steps: L.
        burn_in: updates that are not kept.
        thin: after those, every thin-th is kept.
        potential: the model, for the size and type of a draw.
    """

    def __init__(
        self, repeats: int | None, servers: int, steps: int, burn_in: int, thin: int, potential: Potential
    ) -> None:
        self.burn_in = whole_number("burn_in", burn_in)
        self.thin = whole_number("thin", thin, least=1)
        self.rows = 1 if repeats is None else whole_number("repeats", repeats, least=1, most=MAX_REPEATS)
        kept = max(0, steps - self.burn_in) // self.thin
        if kept == 0:
            problem = f"and thin={thin} leave no draw of {steps} steps"
            raise ArgumentError("burn_in", burn_in, problem, "Keep at least one: burn_in + thin ≤ steps.")
        self._draws = np.empty((self.rows, servers, kept, potential.size), potential.dtype)
        self._kept = [0] * servers
        self._squeeze = repeats is None

    @property
    def draws(self) -> Array:
        """The draws that all chains have: (chain, draw, parameter), after repetitions where they were asked for."""
        draws = self._draws[:, :, : min(self._kept)]
        return draws[0] if self._squeeze else draws

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
        draws, burn_in, thin, room = self._draws[:, server], self.burn_in, self.thin, self._draws.shape[2]

        def record(update: int, position: Array) -> None:
            index, rest = divmod(update + 1 - burn_in, thin)
            if rest == 0 and 0 < index <= room:
                draws[:, index - 1] = position
                self._kept[server] = index

        return record
