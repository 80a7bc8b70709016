"""stalegrad: asynchronous, distributed stochastic-gradient MCMC with stale gradients.

The names are listed in ``__init__.pyi``, where type checkers and editors read them, and each is imported when it is
first used: a program that only asks for the version, and a worker that needs a few modules, do not wait for all.
"""

import lazy_loader as _lazy

from stalegrad._internal.version import VERSION as _VERSION

__version__ = _VERSION

__getattr__, __dir__, __all__ = _lazy.attach_stub(__name__, __file__)
