"""The regressors X of a linear model, dense or sparse, as compiled code wants them.

Row i is x_i. With an intercept a last column of ones is implied and never stored. The two operations that gradients
are made of, :func:`margins` and :func:`accumulate`, exist for all forms; compiled code chooses by the type of
``matrix``, one of the tuples

* ``(X,)``, dense;
* ``(starts, columns, values)``, of a compressed sparse row matrix, where ``values`` is None if all stored entries are
  1, as with one-hot features: that halves the memory to walk through;
* ``(ones, length)`` with a row of uint8 for each x_i, whose first ``length`` entries are the columns of its ones: for
  narrow tables of one-hot features, whose rows have (nearly) equally many. Short rows are filled up with the number of
  a column that does not exist. It is a quarter of the memory, and loops over rows of one length need no guess when
  they end. The bits are those of the form before.
"""

from typing import Any

import numpy as np
from numba import types
from numba.extending import overload

from stalegrad._internal.dot import dot
from stalegrad._internal.errors import ArgumentError
from stalegrad._internal.jit import UNCOUNTED, compiled, inlined, lean
from stalegrad._internal.prefetch import prefetch
from stalegrad._internal.stack import stack_array
from stalegrad._internal.types import Array, IntArray
from stalegrad._internal.validation import finite_array

_AHEAD = 64  # rows asked for at a time: few enough to stay in the nearest cache
_ONE = np.uint64(1)
_LINE = np.uint64(12)  # entries on from a row's start, to reach the next cache line of 16
_NARROW = 255  # columns of which the numbers, and one more, fit into uint8
_ROOM = _NARROW + 1
_FILLED_UP = 1.25  # so many entries for each that there was are still faster


class DesignMatrix:
    """X, checked and in the layout and type of the computation. An array that is in them already is not copied.

    Args:
        X: (N, d) dense array, or a SciPy sparse matrix or array of any format.
        dtype: float32 or float64.
        intercept: append a column of ones.
        width: refuse an X that does not have this number of columns, the implied one included.
    """

    def __init__(self, X: Any, dtype: np.dtype[Any], *, intercept: bool = False, width: int | None = None) -> None:
        if hasattr(X, "tocsr"):
            self.matrix, shape = _sparse(X, dtype)
        else:
            dense = finite_array("X", X, dtype, ndim=2)
            self.matrix, shape = (dense,), dense.shape
        if 0 in shape:
            raise ArgumentError("X", X, f"has shape {shape}, which is empty", "Give at least one row and one column.")
        self.n_rows, self.n_columns = shape
        self.width = self.n_columns + bool(intercept)
        self.dtype = dtype
        if width is not None and width != self.width:
            problem = f"has {self.n_columns} columns, but the model was made with {width - bool(intercept)}"
            raise ArgumentError("X", X, problem, "Give the same columns as in training.")

    def like(self, X: Any) -> "DesignMatrix":
        """Other rows of the same columns, such as those of a test set."""
        return DesignMatrix(X, self.dtype, intercept=self.width > self.n_columns, width=self.width)

    def times(self, theta: Array) -> Array:
        """X θ, one number for each row, (N,)."""
        out = np.empty(self.n_rows, self.dtype)
        _times(self.matrix, self.n_columns, np.ascontiguousarray(theta, self.dtype), out)
        return out

    def gram(self, y: Array) -> tuple[Array, Array]:
        """XᵀX and Xᵀy, summed in float64."""
        square, product = np.zeros((self.width, self.width)), np.zeros(self.width)
        _gram(self.matrix, self.n_columns, np.ascontiguousarray(y, np.float64), square, product)
        return square, product


def _sparse(X: Any, dtype: np.dtype[Any]) -> tuple[tuple[Any, ...], tuple[int, int]]:
    rows = X.tocsr()
    if len(rows.shape) != 2:
        raise ArgumentError("X", X, f"has shape {rows.shape}", "Give an array of 2 dimensions.")
    n_rows, n_columns = (int(side) for side in rows.shape)
    values = finite_array("X.data", rows.data, dtype, ndim=1)
    starts, columns = np.asarray(rows.indptr), np.asarray(rows.indices)
    ordered = starts.shape == (n_rows + 1,) and starts[0] == 0 and bool(np.all(np.diff(starts) >= 0))
    if not ordered or starts[-1] > min(values.size, columns.size):
        raise ArgumentError("X", X, "has row pointers that do not fit its entries", "Rebuild the sparse matrix.")
    columns, values = columns[: starts[-1]], values[: starts[-1]]
    if columns.size and not (columns.min() >= 0 and columns.max() < min(n_columns, 1 << 32)):
        raise ArgumentError("X", X, f"has column indices outside 0…{n_columns - 1}", "Rebuild the sparse matrix.")
    ones, shape = bool(np.all(values == 1)), (n_rows, n_columns)
    most = int(np.diff(starts).max(initial=0))  # in a row
    if ones and n_columns <= _NARROW and 0 < n_rows * most <= _FILLED_UP * columns.size:
        return _rows_of_ones(starts, columns, n_columns), shape
    unsigned = np.ascontiguousarray(starts, np.uint64), np.ascontiguousarray(columns, np.uint32)
    return (*unsigned, None if ones else values), shape


def _rows_of_ones(starts: Array, columns: Array, n_columns: int) -> tuple[Array, int]:
    """The columns of the ones of each row, filled up with ``n_columns``, and how many of a row's entries count.

    Rows are 2^k bytes apart, so that a short one lies in one cache line.
    """
    lengths = np.diff(starts)
    length = int(lengths.max())
    rows = np.full((lengths.size, 1 << (length - 1).bit_length()), n_columns, np.uint8)
    rows[np.arange(rows.shape[1]) < lengths[:, np.newaxis]] = columns
    return rows, length


def response(y: Any, n_rows: int) -> Array:
    """Checks y: one finite entry for each row of X; returned in float64."""
    values = finite_array("y", y, np.dtype(np.float64), ndim=1)
    if values.size != n_rows:
        problem = f"has {values.size} entries, but X has {n_rows} rows"
        raise ArgumentError("y", y, problem, "Give one entry for each row of X.")
    return values


def margins(matrix: Any, n_columns: int, theta: Array, indices: IntArray, out: Array) -> None:
    """In compiled code: out[j] ← x_iᵀ θ for i = indices[j]."""
    raise NotImplementedError


def accumulate(matrix: Any, n_columns: int, weights: Array, indices: IntArray, out: Array) -> None:
    """In compiled code: out ← out + Σ_j weights[j] x_i for i = indices[j]."""
    raise NotImplementedError


@overload(margins, jit_options=UNCOUNTED)
def _margins(matrix, n_columns, theta, indices, out):  # type: ignore[no-untyped-def]
    def dense(matrix, n_columns, theta, indices, out):  # type: ignore[no-untyped-def]
        constant = theta[n_columns] if theta.shape[0] > n_columns else theta.dtype.type(0)
        for j in range(indices.shape[0]):
            out[j] = constant + dot(matrix[0][indices[j]], theta, n_columns)

    def sparse(matrix, n_columns, theta, indices, out):  # type: ignore[no-untyped-def]
        starts, columns, values = matrix
        one = theta.dtype.type(1)
        constant = theta[n_columns] if theta.shape[0] > n_columns else theta.dtype.type(0)
        for first in range(0, indices.shape[0], _AHEAD):
            chunk = range(first, min(first + _AHEAD, indices.shape[0]))
            for j in chunk:
                _prefetch_row(columns, values, starts[np.uint64(indices[j])])
            for j in chunk:
                i = np.uint64(indices[j])
                total = constant
                for k in range(starts[i], starts[i + _ONE]):
                    total += _entry(values, k, one) * theta[columns[k]]
                out[j] = total

    def ones(matrix, n_columns, theta, indices, out):  # type: ignore[no-untyped-def]
        rows, length = matrix
        constant = theta[n_columns] if theta.shape[0] > n_columns else theta.dtype.type(0)
        filled = _with_spare_column(n_columns, theta)
        for first in range(0, indices.shape[0], _AHEAD):
            last = min(first + _AHEAD, indices.shape[0])
            for j in range(first, last):
                prefetch(rows, np.uint64(indices[j]) * np.uint64(rows.shape[1]))
            for j in range(first, last):
                i = np.uint64(indices[j])
                total = constant
                for k in range(length):
                    total += filled[rows[i, k]]
                out[j] = total

    return _form(matrix, dense, sparse, ones)


@overload(accumulate, jit_options=UNCOUNTED)
def _accumulate(matrix, n_columns, weights, indices, out):  # type: ignore[no-untyped-def]
    def dense(matrix, n_columns, weights, indices, out):  # type: ignore[no-untyped-def]
        for j in range(indices.shape[0]):
            row = matrix[0][indices[j]]
            weight = weights[j]
            for c in range(n_columns):
                out[c] += weight * row[c]
        _accumulate_intercept(n_columns, weights, out)

    def sparse(matrix, n_columns, weights, indices, out):  # type: ignore[no-untyped-def]
        starts, columns, values = matrix
        one = weights.dtype.type(1)
        for j in range(indices.shape[0]):
            i = np.uint64(indices[j])
            weight = weights[j]
            for k in range(starts[i], starts[i + _ONE]):
                out[columns[k]] += weight * _entry(values, k, one)
        _accumulate_intercept(n_columns, weights, out)

    def ones(matrix, n_columns, weights, indices, out):  # type: ignore[no-untyped-def]
        rows, length = matrix
        filled = _with_spare_column(n_columns, out)
        for j in range(indices.shape[0]):
            i = np.uint64(indices[j])
            weight = weights[j]
            for k in range(length):
                filled[rows[i, k]] += weight
        for c in range(n_columns):
            out[c] = filled[c]
        _accumulate_intercept(n_columns, weights, out)

    return _form(matrix, dense, sparse, ones)


def _form(matrix: Any, dense: Any, sparse: Any, ones: Any) -> Any:
    """The one of three functions that is for this type of matrix."""
    return {1: dense, 2: ones, 3: sparse}[len(matrix)]


@inlined
def _with_spare_column(n_columns, values):  # type: ignore[no-untyped-def]
    """A copy of the first entries with one more, 0, for what rows are filled up with."""
    copy = stack_array(values.dtype, _ROOM)
    for c in range(n_columns):
        copy[c] = values[c]
    copy[n_columns] = 0
    return copy


@lean
def _accumulate_intercept(n_columns, weights, out):  # type: ignore[no-untyped-def]
    if out.shape[0] > n_columns:
        total = weights.dtype.type(0)
        for j in range(weights.shape[0]):
            total += weights[j]
        out[n_columns] += total


def _entry(values: Any, k: Any, one: Any) -> Any:
    raise NotImplementedError


@overload(_entry, inline="always")
def _compiled_entry(values, k, one):  # type: ignore[no-untyped-def]
    return (lambda values, k, one: one) if isinstance(values, types.NoneType) else (lambda values, k, one: values[k])


def _prefetch_row(columns: Any, values: Any, start: Any) -> None:
    raise NotImplementedError


@overload(_prefetch_row)
def _compiled_prefetch_row(columns, values, start):  # type: ignore[no-untyped-def]
    """Two cache lines of each array: the hardware fetches the rest of a longer row by itself."""

    def ones(columns, values, start):  # type: ignore[no-untyped-def]
        prefetch(columns, start)
        prefetch(columns, start + _LINE)

    def entries(columns, values, start):  # type: ignore[no-untyped-def]
        prefetch(columns, start)
        prefetch(values, start)
        prefetch(columns, start + _LINE)
        prefetch(values, start + _LINE)

    return ones if isinstance(values, types.NoneType) else entries


@compiled
def _times(matrix, n_columns, theta, out):  # type: ignore[no-untyped-def]
    margins(matrix, n_columns, theta, np.arange(out.shape[0]), out)


@compiled
def _gram(matrix, n_columns, y, square, product):  # type: ignore[no-untyped-def]
    """One row at a time: spread it out in float64, then add its outer product."""
    row = np.empty(product.shape[0], np.float64)
    one, index = np.ones(1, np.float64), np.empty(1, np.int64)
    for i in range(y.shape[0]):
        for a in range(row.shape[0]):
            row[a] = 0.0
        index[0] = i
        accumulate(matrix, n_columns, one, index, row)
        for a in range(row.shape[0]):
            if row[a] != 0.0:
                product[a] += y[i] * row[a]
                for b in range(row.shape[0]):
                    square[a, b] += row[a] * row[b]
