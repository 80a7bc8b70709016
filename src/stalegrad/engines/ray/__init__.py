"""The Ray engine: servers and workers on the nodes of a Ray cluster, or of one that is started here for the run.

| file | what it owns |
|---|---|
| `engine.py` | :class:`Ray`, its settings |
| `security.py` | which clusters may be used |
| `connection.py` | the connection to a cluster, or to a Ray that is started for the run |
| `supervisor.py` | the run's own process: starts servers, follows and replaces them |
| `server_actor.py` | a server: an actor |
| `worker_task.py` | a worker: a task |
| `packing.py` | what is sent between them |

Ray is imported when a run starts: by all of these files but the first two.

How servers and workers exchange calls, and what the run knows of a server elsewhere, has nothing to do with Ray: see
:mod:`stalegrad.engines.ray.call_link`, :mod:`~stalegrad.engines.ray.call_worker`, :mod:`~stalegrad.engines.ray.lanes`,
:mod:`~stalegrad.engines.ray.envelope` (how calls travel), :mod:`~stalegrad.engines.ray.reliable_calls` (made until they
are answered), :mod:`~stalegrad.engines.ray.hostile` and :mod:`~stalegrad.engines.ray.remote_server`.
"""

from stalegrad.engines.ray.engine import Ray

__all__ = ["Ray"]
