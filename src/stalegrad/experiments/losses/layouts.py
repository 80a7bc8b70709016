"""Which servers and workers each figure compares, the chains that they are made of, and how far these are to get."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, NamedTuple

from stalegrad.experiments.losses.chain import ChainName


@dataclass(frozen=True, order=True)
class Layout:
    """S servers with W workers each.

    Args:
        servers: S.
        workers: W.
        control: what is different, one of :data:`CONTROLS`; nothing if empty.
    """

    servers: int
    workers: int
    control: str = ""

    def chains(self, seed: int, **common: Any) -> list[ChainName]:
        """Its chains in repetition ``seed``."""
        changes = CONTROLS[self.control].changes if self.control else {}
        return [
            ChainName(workers=self.workers, chain=s, seed=seed, **{**common, **changes}) for s in range(self.servers)
        ]

    def __str__(self) -> str:
        return f"{self.servers} × {self.workers}" + (f", {self.control}" if self.control else "")


class Control(NamedTuple):
    """What is left out, to see what it does."""

    changes: dict[str, Any]
    """Of a chain."""
    workers: tuple[int, ...]
    """For which numbers of workers it is made."""
    meaning: str


CONTROLS = {
    "fresh": Control({"fresh": True}, (9,), "one worker makes as many updates as nine: no gradient is stale"),
    "cold": Control({"temperature": 0.0}, (4, 6, 9), "temperature 0: no noise, SGD with momentum"),
    "worker-momentum": Control(
        {"momentum": "workers", "temperature": 0.0}, (4, 6, 9),
        "a momentum at each worker and noise that never reaches θ, as in the authors' public code",
    ),
}  # fmt: skip
"""By name."""

FIGURES = {
    "fig3": [Layout(1, workers) for workers in (1, 2, 4, 6, 9)],
    "fig4": [Layout(servers, 2) for servers in (1, 3, 5, 7)],
    "supplement": [Layout(1, workers) for workers in range(1, 10)]
    + [Layout(servers, workers) for workers in (1, 2, 4, 6) for servers in (3, 5, 7)],
}
"""Figure 3 has more and more workers at one server; figure 4 more and more servers; the supplement all of both."""


class Goal(NamedTuple):
    """How far chains are to get, and how many repetitions of them."""

    iterations: int
    seeds: int


GOALS = {
    ("fig3", "a9a"): [Goal(20_000, 30)],
    ("fig4", "a9a"): [Goal(20_000, 30)],
    ("supplement", "a9a"): [Goal(20_000, 30)],
    ("fig3", "mnist"): [Goal(100, 3), Goal(300, 3), Goal(1_000, 3), Goal(5_000, 3), Goal(20_000, 1)],
    ("fig4", "mnist"): [Goal(100, 4), Goal(300, 4), Goal(1_000, 4)],
    ("fig3", "cifar10"): [Goal(50, 3), Goal(200, 3), Goal(500, 3), Goal(2_000, 1)],
    ("fig4", "cifar10"): [Goal(50, 3), Goal(200, 3), Goal(500, 3), Goal(2_000, 1)],
    ("supplement", "mnist"): [Goal(100, 1), Goal(300, 3)],
    ("supplement", "cifar10"): [Goal(50, 1), Goal(100, 3)],
}
"""One after the other. What a budget leaves out is made by the next call in the same folder."""


def with_controls(layouts: list[Layout], controls: Iterable[str]) -> list[Layout]:
    """The layouts and, for their numbers of workers, the controls."""
    there = {layout.workers for layout in layouts}
    added = [Layout(1, w, name) for name in controls for w in CONTROLS[name].workers if w in there]
    return [*layouts, *added]
