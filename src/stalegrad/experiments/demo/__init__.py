"""The demonstration: a real posterior of a real data set, sampled with stale gradients, with pictures and a report."""

from stalegrad.experiments.demo.demonstration import demonstrate
from stalegrad.experiments.demo.task import Settings, digits

__all__ = ["Settings", "demonstrate", "digits"]
