"""The two ways in which stalegrad compiles: functions that callers absorb, and loops that callers enter.

Division follows IEEE (a zero divisor gives infinity) instead of raising as Python does: the test for zero would keep
LLVM from vectorising. There is no fast-math: the same operations in the same order give the same bits everywhere.
"""

import hashlib
from collections.abc import Callable
from typing import Any

from numba import njit
from numba.core.caching import IndexDataCacheFile

inlined = njit(inline="always", error_model="numpy")
"""For small functions: their code becomes part of every compiled caller."""

_compile = njit(nogil=True, cache=True, error_model="numpy")


class _NamedByContent(IndexDataCacheFile):
    """numba's files of compiled code, but named after what they are compiled for and not numbered.

    Processes that compile a function for different types at the same time, as ranks and workers do, would otherwise
    give both the same number, and one would find the other's code under the name of its own. Now the worst is that the
    index forgets one of them, which is then compiled again.
    """

    def save(self, key: Any, data: Any) -> None:
        """Code first, then the index, so that what the index names is there."""
        files: Any = self  # numba has no types
        name = files._data_name_pattern.replace("{number:d}", hashlib.sha256(files._dump(key)).hexdigest()[:16])
        files._save_data(name, data)
        files._save_index({**files._load_index(), key: name})


def compiled(function: Callable[..., Any]) -> Any:
    """For loops over arrays: compiled once, kept on disk, and run without the GIL."""
    dispatcher: Any = _compile(function)
    cache_file = getattr(dispatcher._cache, "_cache_file", None)  # None where nothing can be written
    if cache_file is not None:
        cache_file.__class__ = _NamedByContent
    return dispatcher


def is_compiled(dispatcher: Any, arguments: tuple[Any, ...]) -> bool:
    """Whether code of a :func:`compiled` function for such arguments is at hand, in memory or on disk."""
    types = tuple(dispatcher.typeof_pyval(argument) for argument in arguments)
    if types in dispatcher.overloads:
        return True
    cache = dispatcher._cache
    files = getattr(cache, "_cache_file", None)
    return files is not None and cache._index_key(types, dispatcher.targetctx.codegen()) in files._load_index()
