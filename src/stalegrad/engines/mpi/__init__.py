"""The MPI engine: servers and workers are ranks of an ``mpiexec`` or ``srun``, on as many machines as there are.

| file | what it owns |
|---|---|
| `engine.py` | :class:`MPI`, its settings, and which part of a run this rank has |
| `layout.py` | which rank is which server or worker |
| `ranks.py` | the ranks of a run: synchronizing, following the leader, ending |
| `rank_server.py` | a server's rank: its loop, and the messages between servers and the leader |
| `link.py`, `connection.py`, `packet.py` | a server's link to its workers, one connection of it, and its buffers |
| `rank_worker.py` | a worker's rank |
| `elastic_link.py`, `joining_worker.py`, `heartbeats.py` | workers that come and go: the server's side, and theirs |
| `join_folder.py`, `join_port.py`, `join_search.py`, `join_handshake.py` | how they find a server, and are let in |
| `transfers.py`, `socket_channel.py` | what carries messages, and the TCP connections of workers that have joined |
| `channel.py` | the one file that imports mpi4py |
"""

from stalegrad.engines.mpi.engine import MPI

__all__ = ["MPI"]
