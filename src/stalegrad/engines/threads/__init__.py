"""The threads engine, which has two ways from a gradient to its update.

In the first, workers send gradients to a server's thread: ``link.py``. In the second, for compiled models, they update
the chain themselves under a lock, without Python: ``compiled_server.py`` starts them, ``compiled_worker.py`` is their
loop, ``shared.py`` what they share, ``flights.py`` the protocol among them, and ``segment.py`` what is laid out in
advance for them.
"""

from stalegrad.engines.threads.engine import Threads

__all__ = ["Threads"]
