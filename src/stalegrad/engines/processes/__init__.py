"""The processes engine: workers are processes of this machine, points and gradients lie in memory that all share.

| file | what it owns |
|---|---|
| `engine.py` | :class:`Processes`, its settings |
| `pool.py` | what a run holds, and gives back at its end: the host, the memory, the thread that reads reports |
| `host.py` | the process that forks workers; `reports.py`: what it tells the run |
| `shared.py`, `ordering.py` | the memory between servers and workers, and in which order others see what is written |
| `link.py`, `slot_worker.py` | a server's and a worker's side of it; `hostile.py`: both, over a hostile network |
"""

from stalegrad.engines.processes.engine import Processes

__all__ = ["Processes"]
