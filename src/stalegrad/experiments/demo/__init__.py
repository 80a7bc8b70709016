"""The demonstration: a real posterior of a real data set, sampled with stale gradients, with pictures and a report.

``demonstration.py`` puts together the task, its analysis, its pictures and its page. The data set is in
``datasets``.
"""

from stalegrad.datasets.digits import digits
from stalegrad.experiments.demo.demonstration import demonstrate
from stalegrad.experiments.demo.task import Settings

__all__ = ["Settings", "demonstrate", "digits"]
