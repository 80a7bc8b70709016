"""The MPI engine: servers and workers are ranks of an ``mpiexec`` or ``srun``, on as many machines as there are.

| file | what it owns |
|---|---|
| `engine.py` | :class:`MPI`, its settings, and which part of a run this rank has |
| `layout.py` | which rank is which server or worker |
| `crew.py` | the ranks of a run: meeting, following the leader, leaving |
| `serving.py` | a server's rank: its service, and what servers and the leader tell each other |
| `link.py` | a server's lines to its workers |
| `working.py` | a worker's rank |
| `elastic.py`, `joining.py`, `pulse.py` | workers that come and go: the server's side, theirs, and signs of life |
| `packet.py` | what travels on a line |
| `channel.py` | the one file that imports mpi4py |
"""

from stalegrad.engines.mpi.engine import MPI

__all__ = ["MPI"]
