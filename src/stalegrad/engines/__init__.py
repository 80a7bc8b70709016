"""Engines: how gradients travel. All execute the same :class:`Job` and none contains sampling logic."""

from stalegrad.engines.base import Engine, Event, Job, Outcome, Timing, available_cores
from stalegrad.engines.inline import Inline
from stalegrad.engines.mpi import MPI
from stalegrad.engines.processes import Processes
from stalegrad.engines.ray import Ray
from stalegrad.engines.tables import engine_from_table, engine_table
from stalegrad.engines.threads import Threads

__all__ = [
    "MPI",
    "Engine",
    "Event",
    "Inline",
    "Job",
    "Outcome",
    "Processes",
    "Ray",
    "Threads",
    "Timing",
    "available_cores",
    "engine_from_table",
    "engine_table",
]
