"""What draws say, and how far to trust them: estimates, diagnostics, plots and the report.

Works on draws and traces, from memory or disk, and never on how they came about: it does not import runs or stores.
"""

import lazy_loader as _lazy

__getattr__, __dir__, __all__ = _lazy.attach(__name__, submodules=["diagnostics", "estimates", "plots", "report"])
