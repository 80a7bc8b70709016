"""Compiled functions that are only ever parts of others: LLVM sees them once, inside the loop that they end up in.

numba makes of every function a library of its own: optimised with all that it calls, turned into machine code, and then
handed to whoever calls it, where the same code is optimised again. A loop that is four functions deep was optimised
four times and emitted four times, which was half of what compiling took. A part is left as it was written until the
function that Python enters is whole.
"""

from collections.abc import Callable
from typing import Any

from numba import njit
from numba.core.codegen import JITCodeLibrary
from numba.core.compiler import Compiler

_Library: Any = JITCodeLibrary  # numba has no types
_Compiler: Any = Compiler
_njit: Any = njit


class _NoMachineCode:
    """In place of the code generator: a part has no environment to be told of, like what code from disk has called."""

    def set_env(self, name: str, environment: Any) -> None:
        """Nothing is to be done."""


class _PartLibrary(_Library):  # type: ignore[misc]
    """LLVM's form of a part and of what it calls, to be linked into callers and nothing else."""

    codegen = _NoMachineCode()

    def finalize(self) -> None:
        """Put the code of what is called beside the part's own, as numba does, and leave it at that."""
        self._raise_if_finalized()
        for library in dict.fromkeys(self._linking_libraries):
            if hasattr(self, "_reload_init"):  # numba 0.60 has none
                self._reload_init.update(library._reload_init)
            self._final_module.link_in(library._get_module_for_linking(), preserve=True)
        self._finalized = True

    def get_pointer_to_function(self, name: str) -> int:
        """None: there is no machine code."""
        self._ensure_finalized()
        return 0


class _PartCompiler(_Compiler):  # type: ignore[misc]
    """numba's compiler of a function, with another library to put the code into."""

    def compile_extra(self, func: Callable[..., Any]) -> Any:
        """Compile a function for the types at hand."""
        self.state.library = _PartLibrary(self.state.targetctx.codegen(), func.__qualname__)
        return super().compile_extra(func)


PART: Any = {"pipeline_class": _PartCompiler, "no_cpython_wrapper": True, "no_cfunc_wrapper": True}
"""Options of ``jit`` for what only compiled functions call."""


def part(**options: Any) -> Callable[[Callable[..., Any]], Any]:
    """``njit`` with these options for what compiled functions call. Python can call it too, slowly, as tests do."""

    def decorate(function: Callable[..., Any]) -> Any:
        made = _njit(**PART, **options)(function)
        alone = _njit(**options)(function)  # compiled if Python calls it
        made._insert = lambda *overload: None  # else Python would call machine code that is not there
        made._compile_for_args = alone._compile_for_args
        return made

    return decorate
