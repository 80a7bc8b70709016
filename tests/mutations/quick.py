"""Puts a defect into functions in memory and runs the tests in a fork, where stalegrad need not be imported again.

This takes a fraction of the time, and says for sure only that a defect is noticed: one that goes unnoticed here is
tried once more in the files of a copy, as are those that this cannot put in: what is outside of functions, or compiled.
Reads lines of JSON, ``{"name": a defect or null, "arguments": […], "output": file, "seconds": limit}``, and answers
each with the code that pytest returned, :data:`NOT_PUT_IN` or null if it took too long.
"""

import functools
import importlib.util
import json
import sys
from types import CodeType, FunctionType, ModuleType
from typing import Any

from numba.core.caching import Cache
from tests import forked
from tests.mutations.defects import ROOT, Defect, read

NOT_PUT_IN = 77
_ELSEWHERE = ("/mpi/", "/ray/", "frontends/", "_jax", "networks/", "cli/", "sklearn/")  # import what forks badly


class NotPutIn(Exception):
    """The defect is not in the body of a function of Python's."""


def main() -> None:
    """Answer until there are no more lines."""
    forked.preload()
    conftest = importlib.util.spec_from_file_location("conftest_of_quick", ROOT / "tests" / "conftest.py")
    assert conftest is not None
    assert conftest.loader is not None
    conftest.loader.exec_module(importlib.util.module_from_spec(conftest))  # says where compiled code is
    defects = {defect.name: defect for defect in read()}
    for name in sorted({_module(defect) for defect in defects.values() if _may_be_imported(defect)}):
        importlib.import_module(name)
    importlib.import_module("stalegrad.testing")
    for line in sys.stdin:
        order = json.loads(line)
        defect = defects.get(order["name"])
        code: int | None = NOT_PUT_IN
        if defect is None or _may_be_imported(defect):
            first = functools.partial(_put_in_or_exit, defect) if defect else None
            code = forked.pytest(order["arguments"], order["output"], order["seconds"], first)
        print(json.dumps(code), flush=True)


def _may_be_imported(defect: Defect) -> bool:
    return not any(part in defect.file for part in _ELSEWHERE)


def _module(defect: Defect) -> str:
    return f"stalegrad/{defect.file}".removesuffix(".py").removesuffix("/__init__").replace("/", ".")


def _put_in_or_exit(defect: Defect) -> None:
    try:
        put_in(defect)
    except NotPutIn:
        raise SystemExit(NOT_PUT_IN) from None


def put_in(defect: Defect) -> None:
    """Replace the code of the functions that the defect changes; :class:`NotPutIn` where that is not all of it."""
    module = sys.modules[_module(defect)]
    assert module.__file__ is not None
    path = ROOT / "src" / "stalegrad" / defect.file
    source = path.read_text()
    old, new = (compile(text, module.__file__, "exec") for text in (source, defect.applied(source)))
    changed = list(_changed(old, new))
    if not changed:
        raise NotPutIn
    Cache.save_overload = lambda *_: None  # what is compiled with a defect in it must not be found by others
    for before, after in changed:
        function = _function(module, before)
        if len(after.co_freevars) != len(function.__code__.co_freevars):
            raise NotPutIn
        function.__code__ = after


def _changed(old: CodeType, new: CodeType) -> list[tuple[CodeType, CodeType]]:
    """The outermost functions of a module or class body that differ; nothing else may."""
    found = []
    inner, others = ([c for c in code.co_consts if isinstance(c, CodeType)] for code in (old, new))
    names = [[c.co_qualname for c in codes] for codes in (inner, others)]
    plain = [[c for c in code.co_consts if not isinstance(c, CodeType)] for code in (old, new)]
    if names[0] != names[1] or repr(plain[0]) != repr(plain[1]) or old.co_code != new.co_code:
        raise NotPutIn
    if old.co_names != new.co_names:
        raise NotPutIn
    for before, after in zip(inner, others, strict=True):
        if not _same(before, after):
            is_class = "__module__" in before.co_names and "__qualname__" in before.co_names
            found += _changed(before, after) if is_class else [(before, after)]
    return found


def _same(old: CodeType, new: CodeType) -> bool:
    """Whether two codes do the same; where they stand in the file does not matter."""
    inner, others = ([c for c in code.co_consts if isinstance(c, CodeType)] for code in (old, new))
    plain = [[repr(c) for c in code.co_consts if not isinstance(c, CodeType)] for code in (old, new)]
    return (
        (old.co_code, old.co_names, old.co_varnames, old.co_freevars, plain[0])
        == (new.co_code, new.co_names, new.co_varnames, new.co_freevars, plain[1])
        and len(inner) == len(others)
        and all(map(_same, inner, others))
    )


def _function(module: ModuleType, code: CodeType) -> FunctionType:
    """The function of a module, or of a class in it, that has this code."""
    holder: Any = module
    *classes, name = code.co_qualname.split(".")
    try:
        for part in classes:
            holder = vars(holder)[part]
        member = vars(holder)[name]
    except (KeyError, TypeError):
        raise NotPutIn from None
    if not isinstance(member, FunctionType | property | staticmethod | classmethod | functools.cached_property):
        raise NotPutIn  # it is compiled
    for each in (member, *(getattr(member, at, None) for at in ("fget", "fset", "func", "__func__", "__wrapped__"))):
        if isinstance(each, FunctionType) and _same(each.__code__, code):
            return each
    raise NotPutIn


if __name__ == "__main__":
    main()
