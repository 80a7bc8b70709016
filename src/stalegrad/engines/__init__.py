"""Engines: how gradients travel. All execute the same :class:`Job` and none contains sampling logic."""

from stalegrad.engines.base import Engine, Job
from stalegrad.engines.inline import Inline

__all__ = ["Engine", "Inline", "Job"]
