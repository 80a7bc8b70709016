"""One run from its settings to its result: :func:`sample`, :func:`resume`, :func:`load` and :func:`replay`.

Here are what a run is prepared from, what keeps its draws (in memory or in ``store/``), its progress, its job file and
its result. What a run means is worked out in ``analysis``; how gradients travel is up to ``engines``.
"""

import lazy_loader as _lazy

__getattr__, __dir__, __all__ = _lazy.attach(__name__, submodules=["store", "jobs", "observers"])
