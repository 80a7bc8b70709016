"""Jobs described in TOML files: what to sample, how, on which engine, and where to keep it."""

from stalegrad.jobs.job import JobFile
from stalegrad.jobs.model import ModelFunction

__all__ = ["JobFile", "ModelFunction"]
