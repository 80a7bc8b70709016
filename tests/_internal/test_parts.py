"""Functions that compiled code absorbs: the same results, and LLVM at work once, for what Python enters."""

import numpy as np
import pytest
from numba import njit
from numba.core.codegen import JITCodeLibrary

from stalegrad._internal.jit import compiled, free, is_compiled, lean

VALUES = np.array([1.0, -2.0, 4.0])


@lean
def _square(x):
    return x * x


@lean
def _sum_of_squares(values):
    total = 0.0
    for value in values:
        total += _square(value)
    return total


@free
def _cumulated(values):
    sums = np.empty_like(values)
    total = 0.0
    for i in range(len(values)):
        total += values[i]
        sums[i] = total
    return sums


def entered(values):
    return _sum_of_squares(_cumulated(values)) + _square(values[0])


def test_only_what_python_enters_becomes_machine_code(monkeypatch):
    emitted, emit = [], JITCodeLibrary._finalize_specific

    def note(library):
        emitted.append(library.name)
        emit(library)

    monkeypatch.setattr(JITCodeLibrary, "_finalize_specific", note)
    assert njit(entered)(VALUES) == 1 + 1 + 9 + 1
    assert "entered" in emitted
    assert not {"_square", "_sum_of_squares", "_cumulated"} & set(emitted)


def test_code_from_disk_has_its_parts_in_it():
    loop = compiled(entered)
    assert loop(VALUES) == 12
    stored = compiled(entered)  # knows only what is on disk
    assert is_compiled(stored, (VALUES,))
    assert stored(VALUES) == 12
    assert sum(stored.stats.cache_hits.values()) == 1


def test_python_may_call_a_part_before_and_after_compiled_code_does():
    assert _square(3.0) == 9
    assert njit(lambda x: _square(x) + 1)(3.0) == 10
    assert _square(3.0) == 9
    np.testing.assert_array_equal(_cumulated(VALUES), [1, -1, 3])


def test_parts_tell_what_they_cannot_compile():
    with pytest.raises(Exception, match="No implementation of function"):
        njit(lambda x: _square(x))("no number")
