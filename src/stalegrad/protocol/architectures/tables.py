"""Architectures as plain tables, see :mod:`stalegrad._internal.tables`: ``{"name": "Downpour", "n_push": 5}``."""

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from stalegrad._internal.errors import ArgumentError
from stalegrad._internal.tables import OPAQUE, Registry, Table
from stalegrad.kernels.base import Kernel
from stalegrad.potentials.base import Potential
from stalegrad.protocol.architectures.base import Architecture, RunShape
from stalegrad.protocol.architectures.consensus import Consensus
from stalegrad.protocol.architectures.downpour import Downpour
from stalegrad.protocol.architectures.elastic import Elastic
from stalegrad.protocol.architectures.shards import Shards
from stalegrad.protocol.architectures.stale_gradients import StaleGradients
from stalegrad.protocol.architectures.visiting_shards import VisitingShards
from stalegrad.protocol.architectures.worker_noise import WorkerNoise
from stalegrad.protocol.linear_part import LinearForm

ARCHITECTURES: Registry[Architecture] = Registry(
    "architecture",
    {
        member.__name__: member
        for member in (StaleGradients, Shards, Downpour, Elastic, WorkerNoise, VisitingShards, Consensus)
    },
    {"linear": LinearForm()},
    base=Architecture,
)


@dataclass(frozen=True)
class UnknownArchitecture(Architecture):
    """Stands for an architecture of the user's own, of which a file has a name, so that the rest can be read.

    Args:
        words: what it was.
        table: its table, from which :func:`known_architecture` makes it; None if it has none.
    """

    words: str
    table: Table | None = field(default=None, hash=False)

    def refuse(self, run: RunShape, potential: Potential, kernels: Sequence[Kernel], *, even: bool = True) -> None:
        """Every run: its class is not known here."""
        raise _not_at_hand(self.words)


def _not_at_hand(words: str, why: str = "") -> ArgumentError:
    problem = f"is one of your own, which cannot be made from what was stored{why}"
    remedy = "Put its module on Python's path, or give it: sg.replay(..., architecture=...)."
    return ArgumentError("architecture", words, problem, remedy)


def architecture_table(architecture: Architecture) -> Table | None:
    """The plain table of an architecture; None for the default.

    >>> architecture_table(Downpour(n_push=5))
    {'name': 'Downpour', 'n_push': 5}
    """
    if isinstance(architecture, UnknownArchitecture):
        return {OPAQUE: architecture.words} if architecture.table is None else dict(architecture.table)
    return None if architecture == StaleGradients() else ARCHITECTURES.write(architecture)


def remembered_architecture(table: Mapping[str, Any] | None, *, path: str = "architecture") -> Architecture:
    """As :func:`architecture_from_table`, for what a trace or a store says, which may be anybody's.

    To look at a run is not to run its code: a module that it names is not imported. A class of a module that this
    process has not imported itself is an :class:`UnknownArchitecture`, until a run is made with it.
    """
    name = table.get("name") if isinstance(table, Mapping) else None
    if isinstance(name, str) and ":" in name:
        try:
            if name.partition(":")[0] in sys.modules:
                return architecture_from_table(table, path=path)
        except ArgumentError:  # it has changed since
            pass
        return UnknownArchitecture(name, dict(table or {}))
    return architecture_from_table(table, path=path)


def known_architecture(architecture: Architecture) -> Architecture:
    """The same one, to make a run with: now what a trace or a store has only named is imported."""
    if not isinstance(architecture, UnknownArchitecture) or architecture.table is None:
        return architecture
    try:
        return architecture_from_table(architecture.table)
    except ArgumentError as error:
        raise _not_at_hand(architecture.words, f" ({error})") from error


def architecture_from_table(table: Mapping[str, Any] | None, *, path: str = "architecture") -> Architecture:
    """The architecture that a table describes; ``path`` says where the table stands, for messages.

    >>> architecture_from_table({"name": "Elastic", "rho": 2.0}).alpha
    1.0
    """
    if isinstance(table, Mapping) and set(table) == {OPAQUE}:
        return UnknownArchitecture(str(table[OPAQUE]))
    return StaleGradients() if table is None else ARCHITECTURES.read(table, path)


def as_architecture(value: Any) -> Architecture:
    """What a user has given: an architecture, or None for the default.

    >>> as_architecture(None) == StaleGradients()
    True
    """
    if value is None:
        return StaleGradients()
    if not isinstance(value, Architecture):
        problem = f"is a {type(value).__name__}, not an architecture"
        remedy = "Give one, such as sg.Downpour(n_push=5), or None."
        raise ArgumentError("architecture", value, problem, remedy)
    return value
