"""The Ray engine: servers and workers on the nodes of a Ray cluster, or of one that is started here for the run.

| file | what it owns |
|---|---|
| `engine.py` | :class:`Ray`, its settings |
| `security.py` | which clusters may be used |
| `connection.py` | the connection to a cluster, or to a Ray that is started for the run |
| `watching.py` | the run's own process: starts servers, follows them, replaces them |
| `serving.py` | a server: an actor |
| `working.py` | a worker: a task |
| `packing.py` | what is sent between them |

Ray is imported when a run starts: by all of these files but the first two.

How servers and workers talk, and what the run knows of a server elsewhere, has nothing to do with Ray: see
:mod:`stalegrad.engines.desk`, :mod:`stalegrad.engines.caller` and :mod:`stalegrad.engines.far`.
"""

from stalegrad.engines.ray.engine import Ray

__all__ = ["Ray"]
