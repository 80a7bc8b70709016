"""Architectures as plain tables, see :mod:`stalegrad.plain`: ``{"name": "Downpour", "n_push": 5}``."""

from collections.abc import Mapping
from typing import Any

from stalegrad.architectures.base import Architecture, Cost, StaleGradients
from stalegrad.architectures.consensus import Consensus
from stalegrad.architectures.downpour import Downpour
from stalegrad.architectures.elastic import Elastic
from stalegrad.architectures.visiting_shards import VisitingShards
from stalegrad.architectures.worker_noise import WorkerNoise
from stalegrad.errors import ArgumentError
from stalegrad.plain import Family, Table
from stalegrad.trace import Trace

ARCHITECTURES: Family[Architecture] = Family(
    "architecture",
    {member.__name__: member for member in (StaleGradients, Downpour, Elastic, WorkerNoise, VisitingShards, Consensus)},
)


def architecture_table(architecture: Architecture) -> Table | None:
    """The plain table of an architecture; None for the default.

    >>> architecture_table(Downpour(n_push=5))
    {'name': 'Downpour', 'n_push': 5}
    """
    return None if architecture == StaleGradients() else ARCHITECTURES.write(architecture)


def architecture_from_table(table: Mapping[str, Any] | None, *, path: str = "architecture") -> Architecture:
    """The architecture that a table describes; ``path`` says where the table stands, for messages.

    >>> architecture_from_table({"name": "Elastic", "rho": 2.0}).alpha
    1.0
    """
    return StaleGradients() if table is None else ARCHITECTURES.read(table, path)


def as_architecture(value: Any) -> Architecture:
    """What a user has given: an architecture, or None for the default."""
    if value is None:
        return StaleGradients()
    if not isinstance(value, Architecture):
        problem = f"is a {type(value).__name__}, not an architecture"
        remedy = "Give one, such as sg.Downpour(n_push=5), or None."
        raise ArgumentError("architecture", value, problem, remedy)
    return value


def cost(trace: Trace) -> Cost:
    """What a run with this trace has spent, in gradients and in messages.

    >>> cost(Trace.constant_staleness(2, steps=100))
    Cost(gradients=100, messages=200)
    """
    return architecture_from_table(trace.about.get("architecture")).cost(trace)
