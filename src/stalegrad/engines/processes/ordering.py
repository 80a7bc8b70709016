"""The order in which other processors see what is written to shared memory: a vector before its flag.

Who hands a slot over writes the vector, then :func:`fence`, then the flag; who takes it reads the flag, then
:func:`fence`, then the vector. Processors of the x86 family keep that order by themselves, so there it costs nothing;
others, such as ARM's, may show the flag first.
"""

import platform
from typing import Any

from numba import types
from numba.extending import intrinsic

from stalegrad._internal.jit import compiled


def _full_fence(typing_context: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        builder.fence("seq_cst")
        return context.get_dummy_value()

    return types.none(), generate


_fence: Any = intrinsic(_full_fence)


@compiled
def compiled_fence():  # type: ignore[no-untyped-def]
    """Let no read or write pass from one side of this call to the other, in either direction."""
    _fence()


def _none() -> None:
    """Do nothing: this processor shows writes in their order, and reads in theirs."""


fence = _none if platform.machine().lower() in ("x86_64", "amd64") else compiled_fence
"""Order what was read or written before it and what is read or written after it."""
