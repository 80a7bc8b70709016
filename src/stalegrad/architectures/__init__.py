"""Who samples and who sends what: one file an architecture, all with the same engines, traces and replay."""

from stalegrad.architectures.base import Architecture, Cost, StaleGradients
from stalegrad.architectures.consensus import Consensus
from stalegrad.architectures.downpour import Downpour
from stalegrad.architectures.elastic import Elastic
from stalegrad.architectures.tables import architecture_from_table, architecture_table, as_architecture, cost
from stalegrad.architectures.visiting_shards import VisitingShards
from stalegrad.architectures.worker_noise import WorkerNoise

__all__ = [
    "Architecture",
    "Consensus",
    "Cost",
    "Downpour",
    "Elastic",
    "StaleGradients",
    "VisitingShards",
    "WorkerNoise",
    "architecture_from_table",
    "architecture_table",
    "as_architecture",
    "cost",
]
