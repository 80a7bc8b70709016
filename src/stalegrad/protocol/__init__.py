"""The core of the system, without input or output, clock or threads: who may update a chain, and with what.

Events go in, instructions come out, and the order of events is the trace. Real servers, simulated clusters and replays
all go through the files here; who carries messages, keeps draws or looks at them lives above.
"""

import lazy_loader as _lazy

__getattr__, __dir__, __all__ = _lazy.attach(__name__, submodules=["architectures"])
