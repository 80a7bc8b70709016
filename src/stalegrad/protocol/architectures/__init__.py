"""Who samples and who sends what: one file an architecture, all with the same engines, traces and replay.

``base.py`` is the contract, ``tables.py`` the registry for job files and stores. An architecture says what workers
answer and what the server does with it; it does not know how messages travel.
"""

from stalegrad.protocol.architectures.base import Architecture, Cost
from stalegrad.protocol.architectures.consensus import Consensus
from stalegrad.protocol.architectures.downpour import Downpour
from stalegrad.protocol.architectures.elastic import Elastic
from stalegrad.protocol.architectures.shards import Shards
from stalegrad.protocol.architectures.stale_gradients import StaleGradients
from stalegrad.protocol.architectures.tables import architecture_from_table, architecture_table, as_architecture
from stalegrad.protocol.architectures.visiting_shards import VisitingShards
from stalegrad.protocol.architectures.worker_noise import WorkerNoise
from stalegrad.protocol.linear_part import LowRank

__all__ = [
    "Architecture",
    "Consensus",
    "Cost",
    "Downpour",
    "Elastic",
    "LowRank",
    "Shards",
    "StaleGradients",
    "VisitingShards",
    "WorkerNoise",
    "architecture_from_table",
    "architecture_table",
    "as_architecture",
]
