"""All architectures side by side: error against gradients, against messages and against time with a straggler.

``contenders.py`` has the architectures with their settings and times, ``targets.py`` the posteriors, ``comparison.py``
the runs. The architectures themselves are in ``protocol/architectures``.
"""

from stalegrad.experiments.architectures.comparison import Settings, reproduce, save

__all__ = ["Settings", "reproduce", "save"]
