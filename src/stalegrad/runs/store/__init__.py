"""Runs on disk: draws, trace and checkpoints that survive whatever happens to the process that writes them.

``folder.py`` is the layout, ``arrays.py`` arrays that grow, ``checkpoint.py`` commits, ``writer.py`` the thread that
writes, ``lock.py`` the one writer, ``draws.py`` reading. Nothing here knows kernels or models.
"""

from stalegrad.runs.store.folder import Info, inspect

__all__ = ["Info", "inspect"]
