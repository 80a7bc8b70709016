"""Before a run: where the posterior is, in which coordinates to sample it, with which steps, and from where.

``options.py`` is what a user may steer, ``record.py`` what is remembered of it, ``warm_up.py`` puts the parts together;
every other file is one of them. Nothing here is random beyond the run's seed: the same call finds the same numbers.
"""
