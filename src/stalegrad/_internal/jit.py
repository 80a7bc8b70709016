"""The ways in which stalegrad compiles: functions that callers absorb, and loops that callers enter.

Division follows IEEE (a zero divisor gives infinity) instead of raising as Python does: the test for zero would keep
LLVM from vectorising. There is no fast-math: the same operations in the same order give the same bits everywhere.
"""

import hashlib
import os
import pickle
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

from numba import njit, types
from numba.core.caching import FunctionCache, IndexDataCacheFile
from numba.extending import register_jitable

from stalegrad._internal.parts import PART, part
from stalegrad._internal.text import printable

inlined = njit(inline="always", error_model="numpy")
"""For small functions: their code becomes part of every compiled caller."""

_njit: Any = njit  # its types leave out the option that turns counting off
lean: Any = part(error_model="numpy", _nrt=False, forceinline=True)
"""For parts of loops that make no array and return none: they count no references, and are called without handing over.

numba counts references by atomic additions, also those to every row that is looked at, and hands tuples of arrays over
entry by entry: together as long as an update of a hundred parameters takes.
"""
UNCOUNTED: Any = {**PART, "_nrt": False}
"""The same of what ``overload`` chooses, as its ``jit_options``; its callers hand over all the same."""
free: Any = part(error_model="numpy", _nrt=True)
"""For parts of loops that may make arrays, whoever calls them."""

F = TypeVar("F", bound=Callable[..., Any])


def jitable(function: F) -> F:
    """For what a formula calls: the function itself, which compiled code absorbs and which takes arrays of any library.

    >>> @jitable
    ... def twice(x):
    ...     return 2 * x
    >>> import numpy as np
    >>> twice(np.array([1.0, 2.0])), inlined(lambda x: twice(x) + 1)(3.0)
    (array([2., 4.]), 7.0)
    """
    register_jitable(inline="always", error_model="numpy")(function)
    return function


class _Kept(FunctionCache):
    """numba's cache of one function, whose failures cost time and nothing else: the code is compiled once more."""

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        """Code that is on disk, or None if there is none that can be used."""
        try:
            return super().load_overload(sig, target_context)  # type: ignore[no-untyped-call]
        except Exception as error:  # whatever a damaged file makes of pickle and LLVM
            _tell(f"compiled code in {self.cache_path} cannot be used", error, "It is compiled anew.")
            return None

    def save_overload(self, sig: Any, data: Any) -> None:
        """Keep code, unless the disk is full or the folder cannot be written to."""
        try:
            super().save_overload(sig, data)  # type: ignore[no-untyped-call]
        except OSError as error:
            _tell(f"compiled code cannot be kept in {self.cache_path}", error, _ELSEWHERE)


class _NamedByContent(IndexDataCacheFile):
    """numba's files of compiled code, but named after what they are compiled for and not numbered, with a checksum.

    Processes that compile a function for different types at the same time, as ranks and workers do, would otherwise
    give both the same number, and one would find the other's code under the name of its own. Now the worst is that the
    index forgets one of them, which is then compiled again.

    The index names the classes that code was compiled for. What is compiled for a user's own class is not kept: a
    process that cannot import it could not read the index, nor anything in it.
    """

    def _load_index(self) -> Any:
        try:
            return super()._load_index()  # type: ignore[no-untyped-call]
        except OSError:  # then it cannot be written either, which is told when that is tried
            return {}
        except Exception as error:  # damaged, or with classes that are not here: as if nothing had been compiled yet
            files: Any = self
            _tell(f"the index {files._index_path} of compiled code cannot be read", error, "It is made anew.")
            return {}

    def save(self, key: Any, data: Any) -> None:
        """Code first, then the index, so that what the index names is there."""
        if not all(_importable_everywhere(of) for of in key[0]):
            return
        files: Any = self
        name = files._data_name_pattern.replace("{number:d}", hashlib.sha256(files._dump(key)).hexdigest()[:16])
        files._save_data(name, data)
        files._save_index({**files._load_index(), key: name})

    def _save_data(self, name: str, data: Any) -> None:
        files: Any = self
        content = files._dump(data)
        with files._open_for_write(files._data_path(name)) as file:
            file.write(hashlib.sha256(content).digest() + content)

    def _load_data(self, name: str) -> Any:
        files: Any = self
        content = Path(files._data_path(name)).read_bytes()
        checksum, content = content[:_CHECKSUM], content[_CHECKSUM:]
        if hashlib.sha256(content).digest() != checksum:  # LLVM would execute whatever is there
            raise ValueError(f"{name} is damaged")
        return pickle.loads(content)


_CHECKSUM = hashlib.sha256().digest_size
_TOLD = "STALEGRAD_TOLD_OF_CACHE"  # in the environment, so that the processes of a run do not all repeat it
_ELSEWHERE = "It is compiled in every process; NUMBA_CACHE_DIR may name a folder with room that can be written to."


def _tell(problem: str, error: Exception, consequence: str) -> None:
    """Say once, in one line on standard error, what is the matter with the cache: the run goes on without it."""
    if _TOLD not in os.environ:
        os.environ[_TOLD] = "1"
        why = " ".join(printable(str(error)).split()) or type(error).__name__
        print(f"stalegrad: {printable(problem)} ({why}). {consequence}", file=sys.stderr)


def _importable_everywhere(of: Any) -> bool:
    """Whether a numba type names no class but stalegrad's own."""
    if isinstance(of, types.BaseNamedTuple):
        named: Any = of
        if not named.instance_class.__module__.startswith("stalegrad."):
            return False
    inner: Any = of if isinstance(of, types.BaseTuple) else ()
    return all(_importable_everywhere(entry) for entry in inner)


def compiled(function: Callable[..., Any]) -> Any:
    """For loops over arrays: compiled once, kept on disk if there is a place, and run without the GIL."""
    dispatcher: Any = _njit(nogil=True, error_model="numpy", _nrt=True)(function)
    try:
        dispatcher.enable_caching()
    except (RuntimeError, OSError) as error:
        if os.path.exists(function.__code__.co_filename):  # else it is of no file, as in a console: nothing is amiss
            _tell("compiled code cannot be kept", error, _ELSEWHERE)
        return dispatcher
    dispatcher._cache.__class__ = _Kept
    dispatcher._cache._cache_file.__class__ = _NamedByContent
    return dispatcher


def is_compiled(dispatcher: Any, arguments: tuple[Any, ...]) -> bool:
    """Whether code of a :func:`compiled` function for such arguments is at hand, in memory or on disk."""
    given = tuple(dispatcher.typeof_pyval(argument) for argument in arguments)
    if given in dispatcher.overloads:
        return True
    cache = dispatcher._cache
    files = getattr(cache, "_cache_file", None)
    return files is not None and cache._index_key(given, dispatcher.targetctx.codegen()) in files._load_index()


def as_int64(seed: int) -> int:
    """The 64 bits of a seed as compiled code takes all integers, signed: one type whatever the seed.

    >>> as_int64(5), as_int64(2**64 - 1)
    (5, -1)
    """
    return seed if seed < 1 << 63 else seed - (1 << 64)
