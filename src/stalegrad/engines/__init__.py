"""Engines: how gradients travel. All execute the same :class:`Job` and none contains sampling logic.

| names | what they are |
|---|---|
| :class:`Inline`, :class:`Threads`, :class:`Processes`, :class:`MPI`, :class:`Ray` | the engines |
| :class:`Engine`, :class:`Job`, :class:`Outcome` | what an engine is, what it is given and what it returns |
| :class:`Link`, :class:`Ready`, :class:`Delivery`, :class:`Failure`, :func:`run_servers` | a server's end of it |
| :class:`WorkerLink`, :class:`Work`, :func:`run_worker` | a worker's end of it |
| :class:`FaultPolicy`, :class:`Lifecycle` | what becomes of workers that fail |

An engine of your own is a transport: a :class:`Link`, a :class:`WorkerLink`, and ``run_servers`` and ``run_worker``
between them, see ``examples/own_engine.py``.
"""

from stalegrad.engines import simulation
from stalegrad.engines.base import Engine, Event, Job, Outcome, Timing
from stalegrad.engines.inline import Inline
from stalegrad.engines.lifecycle import FaultPolicy, Lifecycle
from stalegrad.engines.link import Arrival, Delivery, Failure, LastSeen, Link, Ready
from stalegrad.engines.local_servers import run_servers
from stalegrad.engines.mpi import MPI
from stalegrad.engines.processes import Processes
from stalegrad.engines.ray import Ray
from stalegrad.engines.server_loop import ServerLoop, WorkersLost
from stalegrad.engines.tables import engine_from_table, engine_table
from stalegrad.engines.team import Team, available_cores
from stalegrad.engines.threads import Threads
from stalegrad.engines.worker_loop import Work, WorkerLink, run_worker
from stalegrad.protocol.admission import Assignment
from stalegrad.protocol.server import Gradient
from stalegrad.protocol.worker import Worker

__all__ = [
    "MPI",
    "Arrival",
    "Assignment",
    "Delivery",
    "Engine",
    "Event",
    "Failure",
    "FaultPolicy",
    "Gradient",
    "Inline",
    "Job",
    "LastSeen",
    "Lifecycle",
    "Link",
    "Outcome",
    "Processes",
    "Ray",
    "Ready",
    "ServerLoop",
    "Team",
    "Threads",
    "Timing",
    "Work",
    "Worker",
    "WorkerLink",
    "WorkersLost",
    "available_cores",
    "engine_from_table",
    "engine_table",
    "run_servers",
    "run_worker",
    "simulation",
]
