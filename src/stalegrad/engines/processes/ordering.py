"""The order in which other processors see what is written to shared memory: a vector before its flag.

Who hands a slot over writes the vector, then :func:`fence`, then the flag; who takes it reads the flag, then
:func:`fence`, then the vector. Processors of the x86 family keep that order by themselves, so there it costs nothing;
others, such as ARM's, may show the flag first.
"""

import platform

from stalegrad._internal.atomics import fence as full_fence
from stalegrad._internal.jit import compiled


@compiled
def compiled_fence():  # type: ignore[no-untyped-def]
    """Let no read or write pass from one side of this call to the other, in either direction."""
    full_fence()


def _none() -> None:
    """Do nothing: this processor shows writes in their order, and reads in theirs."""


fence = _none if platform.machine().lower() in ("x86_64", "amd64") else compiled_fence
"""Order what was read or written before it and what is read or written after it."""
