"""Jobs described in TOML files: what to sample, how, on which engine, and where to keep it.

``job.py`` reads and writes a file, ``model.py`` finds the model that it names. Settings are checked by the same classes
as those given in Python, so that errors are the same.
"""

from stalegrad.runs.jobs.job import JobFile
from stalegrad.runs.jobs.model import ModelFunction

__all__ = ["JobFile", "ModelFunction"]
