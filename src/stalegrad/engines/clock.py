"""The monotonic clock in compiled code."""

import time
from typing import Any

from numba import types

from stalegrad._internal.jit import lean

CLOCK = time.CLOCK_MONOTONIC
_clock_gettime: Any = types.ExternalFunction("clock_gettime", types.int32(types.int32, types.voidptr))


@lean
def nanoseconds_now(spec):  # type: ignore[no-untyped-def]
    """Nanoseconds on the monotonic clock; ``spec`` is room for two numbers."""
    _clock_gettime(CLOCK, spec.ctypes)
    return spec[0] * 1_000_000_000 + spec[1]
