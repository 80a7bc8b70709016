"""Which servers and workers each figure compares, and the units that they are made of."""

from collections.abc import Iterable
from dataclasses import dataclass

from stalegrad.experiments.losses.units import Unit


@dataclass(frozen=True, order=True)
class Layout:
    """S servers with W workers each.

    Args:
        servers: S.
        workers: W.
    """

    servers: int
    workers: int

    def units(self, seed: int, **common: object) -> list[Unit]:
        """Its chains in repetition ``seed``."""
        return [Unit(workers=self.workers, chain=s, seed=seed, **common) for s in range(self.servers)]  # type: ignore[arg-type]


FIGURES = {
    "fig3": [Layout(1, workers) for workers in (1, 2, 4, 6, 9)],
    "fig4": [Layout(servers, 2) for servers in (1, 3, 5, 7)],
    "supplement": [Layout(1, workers) for workers in range(1, 10)]
    + [Layout(servers, workers) for workers in (1, 2, 4, 6) for servers in (3, 5, 7)],
}
"""Figure 3 has more and more workers at one server; figure 4 more and more servers; the supplement all of both."""


def updates_per_iteration(layouts: Iterable[Layout]) -> int:
    """Σ of W over the chains that the layouts need: chains that several need are executed once."""
    chains = {(layout.workers, s) for layout in layouts for s in range(layout.servers)}
    return sum(workers for workers, _ in chains)


def chain_count(layouts: Iterable[Layout]) -> int:
    """How many chains the layouts need."""
    return len({(layout.workers, s) for layout in layouts for s in range(layout.servers)})
