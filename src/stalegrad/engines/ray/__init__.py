"""The Ray engine: servers and workers on the nodes of a Ray cluster, or of one that is started here for the run.

| file | what it owns |
|---|---|
| `engine.py` | :class:`Ray`, its settings |
| `security.py` | which clusters may be used |
| `cluster.py` | the one file that imports Ray: the connection, servers as actors, workers as tasks |

How servers and workers talk, and what the run knows of a server elsewhere, has nothing to do with Ray: see
:mod:`stalegrad.engines.desk`, :mod:`stalegrad.engines.caller` and :mod:`stalegrad.engines.far`.
"""

from stalegrad.engines.ray.engine import Ray

__all__ = ["Ray"]
