"""The demonstration: what the package claims, shown on the machine at hand in about a minute, on one page.

``speed.py``: workers help. ``staleness.py``: old gradients can be had for nothing. ``survival.py``: a worker and then
the whole run are killed, the run goes on, and is repeated bit for bit. ``task.py`` is what is sampled, ``compiling.py``
what is done before any clock runs, ``pictures.py``, ``page.py`` and ``terminal.py`` show it, and ``demonstration.py``
puts them together.
"""

from stalegrad.experiments.demo.demonstration import demonstrate
from stalegrad.experiments.demo.task import Settings

__all__ = ["Settings", "demonstrate"]
