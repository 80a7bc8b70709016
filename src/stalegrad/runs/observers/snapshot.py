"""A run at one moment, in numbers: what observers are handed."""

import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from math import isfinite, nan
from typing import Any

from stalegrad._internal.numbers_file import without_nan
from stalegrad._internal.tables import Table
from stalegrad.runs.observers.pictures import Pictures

_NOT_IN_TAGS = re.compile(r"[^A-Za-z0-9_.\-/]")


@dataclass(frozen=True)
class ChainFigures:
    """How far one chain is.

    Args:
        updates: made.
        dropped: gradients that came too late.
        refused: messages that were unusable.
        mean_staleness, max_staleness: of the gradients that were used.

    >>> ChainFigures(updates=1000, dropped=3, refused=0, mean_staleness=3.9, max_staleness=11).dropped
    3
    """

    updates: int
    dropped: int
    refused: int
    mean_staleness: float
    max_staleness: int


@dataclass(frozen=True)
class FunctionFigures:
    """What the draws so far say of one test function.

    Args:
        name: of the function, or of a parameter.
        value: φ̂, over the draws that were looked at.
        error: its Monte Carlo standard error; NaN as long as chains are on their way, or too short to tell.
        rhat: of the chains; NaN of one chain.
        ess: how many independent draws those that were looked at are worth.

    >>> figures = FunctionFigures("beta[0]", value=0.52, error=0.01, rhat=1.01, ess=410.0)
    >>> f"{figures.name} = {figures.value} ± {figures.error}"
    'beta[0] = 0.52 ± 0.01'
    """

    name: str
    value: float
    error: float
    rhat: float
    ess: float


@dataclass(frozen=True)
class Happening:
    """Something rare: the run starts or ends, a chain is saved, a worker fails.

    Args:
        kind: ``"start"``, ``"checkpoint"``, ``"fault"`` or ``"end"``.
        seconds: of the run, when it happened.
        text: in one line.
        details: a traceback, or all that is known.
        chain, worker: whom it concerns.

    >>> fault = Happening("fault", seconds=61.0, text="worker 3 of chain 0 died", chain=0, worker=3)
    >>> fault.kind, fault.worker
    ('fault', 3)
    """

    kind: str
    seconds: float
    text: str
    details: str = ""
    chain: int | None = None
    worker: int | None = None


@dataclass(frozen=True)
class Snapshot:
    """A run at one moment.

    Args:
        number: of the snapshot, from 0.
        seconds: of the run until now, those of earlier sessions included.
        state: ``"running"``, ``"finished"``, ``"interrupted"``, ``"failed"`` or ``"killed"``.
        steps: L, updates that each chain is to make.
        chains: how far each is.
        gradients_per_second: of all chains, lately.
        busy: the share of their time in which workers compute, lately; NaN if unknown.
        functions: what the draws say.
        evaluated: draws of all chains that the functions were evaluated on.
        kept: draws of all chains so far.
        delay: h·λ·(τ + ½), of the chain where it is largest; NaN while the curvature λ is unknown.
        delay_limit: what it must stay below; NaN where there is no formula for the sampler.
        loss: of a minibatch at the last draw; NaN if the model does not say.
        pictures: what pages draw.

    >>> chain = ChainFigures(updates=500, dropped=0, refused=0, mean_staleness=1.0, max_staleness=4)
    >>> now = Snapshot(number=3, seconds=12.0, state="running", steps=1000, chains=(chain, chain))
    >>> now.progress, now.updates
    (0.5, 1000)
    """

    number: int
    seconds: float
    state: str
    steps: int
    chains: tuple[ChainFigures, ...]
    gradients_per_second: float = nan
    busy: float = nan
    functions: tuple[FunctionFigures, ...] = ()
    evaluated: int = 0
    kept: int = 0
    delay: float = nan
    delay_limit: float = nan
    loss: float = nan
    pictures: Pictures = field(default_factory=Pictures, repr=False, compare=False)

    @property
    def updates(self) -> int:
        """Updates that all chains together have made."""
        return sum(chain.updates for chain in self.chains)

    @property
    def dropped(self) -> int:
        """Gradients of all chains that came too late."""
        return sum(chain.dropped for chain in self.chains)

    @property
    def mean_staleness(self) -> float:
        """Of all gradients that were used."""
        return sum(chain.mean_staleness * chain.updates for chain in self.chains) / max(self.updates, 1)

    @property
    def progress(self) -> float:
        """The share of its updates that the slowest chain has made."""
        return min((chain.updates for chain in self.chains), default=0) / max(self.steps, 1)

    def table(self) -> Table:
        """All numbers in plain types; NaN, which JSON does not know, is None."""
        plain = {name: value for name, value in vars(self).items() if name != "pictures"}
        plain["chains"] = [asdict(chain) for chain in self.chains]
        plain["functions"] = [asdict(function) for function in self.functions]
        table: Table = without_nan(plain)
        return table

    def metrics(self) -> dict[str, float]:
        """All numbers that are known, by name, flat: as tools for metrics want them.

        Names have slashes for groups, and of users' own names the characters that all tools accept.
        """
        numbers: dict[str, float] = {
            "progress": self.progress, "updates": self.updates, "dropped": self.dropped,
            "refused": sum(chain.refused for chain in self.chains), "gradients_per_second": self.gradients_per_second,
            "staleness/mean": self.mean_staleness,
            "staleness/max": max((chain.max_staleness for chain in self.chains), default=0), "busy": self.busy,
            "stability/delay": self.delay, "stability/limit": self.delay_limit, "loss": self.loss,
            "draws/kept": self.kept, "draws/evaluated": self.evaluated,
        }  # fmt: skip
        for s, chain in enumerate(self.chains):
            numbers[f"chains/{s}/updates"] = chain.updates
            numbers[f"chains/{s}/mean_staleness"] = chain.mean_staleness
        for function in self.functions:
            name = tag(function.name)
            numbers |= {
                f"estimate/{name}": function.value, f"error/{name}": function.error, f"rhat/{name}": function.rhat,
                f"ess/{name}": function.ess,
            }  # fmt: skip
        return {name: float(value) for name, value in numbers.items() if isfinite(value)}


def tag(name: str) -> str:
    """A user's name without characters that some tool refuses.

    >>> tag("weights[0, 3]")
    'weights.0._3.'
    """
    return _NOT_IN_TAGS.sub(".", name.replace(" ", "_"))


@dataclass(frozen=True)
class Recipe:
    """What the run is: as observers are told at its start.

    Args:
        name: of the run: its folder's, or its model's.
        record: what was asked for, in plain types, see :class:`stalegrad.protocol.run_record.RunRecord`.
        virtual: whether seconds are those of a simulated cluster.
        store: the folder that keeps it, if there is one.
        version: of stalegrad.
    """

    name: str
    record: Mapping[str, Any]
    virtual: bool = False
    store: str | None = None
    version: str = ""

    def parameters(self) -> dict[str, str]:
        """The settings, flat and in words, as tools for experiments want them."""
        return dict(_flat(self.record))


def _flat(table: Mapping[str, Any], path: str = "") -> list[tuple[str, str]]:
    found: list[tuple[str, str]] = []
    for key, value in table.items():
        name = f"{path}{key}"
        if isinstance(value, Mapping):
            found += _flat(value, f"{name}.")
        elif isinstance(value, list | tuple) and value and all(isinstance(entry, Mapping) for entry in value):
            for number, entry in enumerate(value):
                found += _flat(entry, f"{name}.{number}.")
        elif value is not None:
            found.append((tag(name), str(value)))
    return found
