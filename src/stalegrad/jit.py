"""The two ways in which stalegrad compiles: functions that callers absorb, and loops that callers enter.

Division follows IEEE (a zero divisor gives infinity) instead of raising as Python does: the test for zero would keep
LLVM from vectorising. There is no fast-math: the same operations in the same order give the same bits everywhere.
"""

from numba import njit

inlined = njit(inline="always", error_model="numpy")
"""For small functions: their code becomes part of every compiled caller."""

compiled = njit(nogil=True, cache=True, error_model="numpy")
"""For loops over arrays: compiled once, kept on disk, and run without the GIL."""
