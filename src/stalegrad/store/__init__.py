"""Runs on disk: draws, trace and checkpoints that survive whatever happens to the process that writes them."""

from stalegrad.store.folder import Info, inspect

__all__ = ["Info", "inspect"]
