"""Which data a gradient sees: a pure function of (seed, chain, worker, count).

``scheme.py`` is what a model holds, ``draws.py`` the compiled drawing behind it, ``shards.py`` data that are cut among
workers. Nothing here depends on what the data are.
"""

from stalegrad.potentials.minibatches.scheme import Minibatches

__all__ = ["Minibatches"]
