"""Arrays that compiled loops use without counting references: the same values, and every count as before."""

import sys
from typing import Any, NamedTuple

import numpy as np

from stalegrad._internal.borrowed import borrowed
from stalegrad._internal.jit import compiled, free, lean


class Pair(NamedTuple):
    left: Any
    right: Any


@lean
def _swap_rows(matrix, first, second):
    for i in range(matrix.shape[1]):
        matrix[first, i], matrix[second, i] = matrix[second, i], matrix[first, i]


@free
def _worked(pair, vector, number):
    pair, vector = borrowed(pair), borrowed(vector)
    _swap_rows(pair.left, 0, 1)
    total = 0.0
    for row in pair.left:
        for i in range(row.shape[0]):
            total += row[i] * vector[i]
    return total + pair.right[0] * number


@compiled
def work(pair, number):
    vector = np.arange(pair.left.shape[1]) + 1.0  # made here, lent to the loop
    return _worked(pair, vector, number)


def test_tuples_rows_and_arrays_made_on_the_way():
    matrix, nothing = np.arange(6.0).reshape(2, 3), None
    pair = Pair(matrix, (2.5, nothing))
    before = matrix.copy()
    counted = sys.getrefcount(matrix)
    for turn in range(1, 101):
        assert work(pair, 2) == (before * [1.0, 2.0, 3.0]).sum() + 5.0
        np.testing.assert_array_equal(matrix, before[::-1] if turn % 2 else before)
    assert sys.getrefcount(matrix) == counted
