"""Free staleness: what is left of it when the server owns the linear part, or sends the point where the chain will be.

:mod:`~stalegrad.experiments.free_staleness.experiment` makes all sections and their picture.
"""
