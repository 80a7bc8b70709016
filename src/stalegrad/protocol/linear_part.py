"""A, the part of the curvature that a server owns: a number, a diagonal, a symmetric matrix, or few stiff directions.

Workers take A θ off their gradients and the server puts it back at the θ of the present, see
:class:`stalegrad.protocol.architectures.StaleGradients`. Compiled code knows one form of all: :class:`LinearBound`.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from stalegrad._internal.errors import ArgumentError
from stalegrad._internal.jit import compiled
from stalegrad._internal.tables import check_keys, plain
from stalegrad._internal.types import Array
from stalegrad._internal.validation import finite_array, real_number

MOST_ENTRIES = 250_000
"""A record of a run holds A in words. So many numbers take about 5 MB there."""

_GIVE = "Give a number ≥ 0, a vector for a diagonal, a symmetric matrix, or sg.LowRank(diagonal, factor)."


class LowRank(NamedTuple):
    """A = diag(d) + V Vᵀ: a few directions that are stiffer than the rest.

    With eigenvectors u_k of curvature λ_k and a for all else, V has the columns √(λ_k − a) u_k.

    Args:
        diagonal: d ≥ 0, a number or n of them.
        factor: V, (n, k).

    >>> LowRank(diagonal=1.0, factor=np.ones((3, 1))).factor.shape
    (3, 1)
    """

    diagonal: Any
    factor: Any


class LinearBound(NamedTuple):
    """A for compiled code: diag(d) + V Vᵀ + M, of which those that are empty are left out.

    Args:
        diagonal: d, (n,), or (1,) if all entries are the same.
        rows: V, (n, k).
        columns: Vᵀ, (k, n).
        dense: M, (n, n).
    """

    diagonal: Array
    rows: Array
    columns: Array
    dense: Array


@dataclass(frozen=True, eq=False, repr=False)
class LinearPart:
    """A = diag(d) + V Vᵀ + M as a run's settings hold it: it does not change, and can be compared and written down.

    Args:
        diagonal: d, (n,) or (1,).
        factor: V, (n, k), k may be 0.
        dense: M, (n, n) or (0, 0).
    """

    diagonal: Array
    factor: Array
    dense: Array

    @classmethod
    def of(cls, value: Any) -> "LinearPart":
        """A as a user gives it, checked."""
        if isinstance(value, LinearPart):
            return value
        none = np.empty((0, 0))
        if isinstance(value, LowRank):
            return cls(_diagonal(value.diagonal), _factor(value), none)._checked()
        if np.ndim(value) == 0:
            return cls(np.array([real_number("linear", value, least=0)]), none, none)._checked()
        array = finite_array("linear", value, np.dtype(np.float64))
        if array.ndim == 1:
            return cls(_diagonal(array), none, none)._checked()
        return cls(np.zeros(1), none, _symmetric(array))._checked()

    def _checked(self) -> "LinearPart":
        arrays = (self.diagonal, self.factor, self.dense)
        entries = sum(array.size for array in arrays)
        if entries > MOST_ENTRIES:
            problem = f"has {entries:,} numbers, and the record of a run keeps at most {MOST_ENTRIES:,}"
            remedy = "Give fewer directions as sg.LowRank, or a number in coordinates of Whitened, where A = 1 will do."
            raise ArgumentError("linear", f"of shape {(self.dense if self.dense.size else self.factor).shape}",
                                problem, remedy)  # fmt: skip
        for array in arrays:
            array.flags.writeable = False
        return self

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, LinearPart):
            return NotImplemented
        return all(np.array_equal(mine, yours) for mine, yours in zip(self._arrays, other._arrays, strict=True))

    def __hash__(self) -> int:
        return hash(tuple((array.shape, array.tobytes()) for array in self._arrays))

    def __bool__(self) -> bool:
        """Whether it is not 0."""
        return any(array.any() for array in self._arrays)

    def __repr__(self) -> str:
        if self.number is not None:
            return f"{self.number:g}"
        kinds = {"diagonal": self.diagonal, "factor": self.factor, "dense": self.dense}
        return f"LinearPart({', '.join(f'{name} {array.shape}' for name, array in kinds.items() if array.any())})"

    @property
    def _arrays(self) -> tuple[Array, Array, Array]:
        return self.diagonal, self.factor, self.dense

    @property
    def number(self) -> float | None:
        """a, if A is a multiple of the identity."""
        alone = not self.factor.size and not self.dense.size and self.diagonal.size == 1
        return float(self.diagonal[0]) if alone else None

    @property
    def size(self) -> int | None:
        """n; None for a number, which goes with every model."""
        sizes = {array.shape[0] for array in self._arrays if array.shape[0] > 1 or array.ndim == 2} - {0}
        return max(sizes) if sizes else None

    def times(self, theta: Array) -> Array:
        """The product A θ with a vector, in float64."""
        theta = np.asarray(theta, np.float64)
        product = self.diagonal * theta
        if self.factor.size:
            product = product + self.factor @ (self.factor.T @ theta)
        return np.asarray(product + self.dense @ theta if self.dense.size else product)

    def along(self, direction: Array) -> float:
        """vᵀ A v, the curvature owned along v, which need not have length 1."""
        return float(np.dot(direction, self.times(direction)))

    def bound(self, dtype: np.dtype[Any]) -> LinearBound:
        """The same for compiled code, in the type of θ."""
        arrays = self.diagonal, self.factor, self.factor.T, self.dense
        return LinearBound(*(np.ascontiguousarray(array, dtype) for array in arrays))

    def plain(self) -> Any:
        """As JSON and TOML have it; :func:`read` reads it again, to the last bit."""
        if self.factor.size:
            return {"diagonal": plain(_or_number(self.diagonal)), "factor": plain(self.factor)}
        return plain(self.dense if self.dense.size else _or_number(self.diagonal))


class LinearForm:
    """How tables write and read A, see :class:`stalegrad._internal.tables.Form`."""

    def write(self, value: Any) -> Any:
        """The matrix in plain types: a number, lists, or a table."""
        return LinearPart.of(value).plain()

    def read(self, value: Any, path: str) -> Any:
        """What was written, in a form that the architecture then checks."""
        if not isinstance(value, Mapping):
            return value
        taken = "Give {diagonal = …, factor = [[…], …]}, a number, a list, or a list of lists."
        check_keys(value, ("diagonal", "factor"), path, taken)
        if len(value) < 2:
            raise ArgumentError(path, dict(value), "is not complete", taken)
        return LowRank(**value)


def _or_number(diagonal: Array) -> Any:
    return float(diagonal[0]) if diagonal.size == 1 else diagonal


def _diagonal(value: Any) -> Array:
    given = finite_array("linear", np.atleast_1d(value), np.dtype(np.float64), ndim=1).copy()
    if not given.size or given.min() < 0:
        raise ArgumentError("linear", value, "has a diagonal that is empty or below 0", _GIVE)
    return given


def _factor(value: LowRank) -> Array:
    factor = finite_array("linear", value.factor, np.dtype(np.float64), ndim=2).copy()
    entries = np.size(value.diagonal)
    if factor.shape[0] < 2 or not factor.shape[1] or entries not in (1, factor.shape[0]):
        problem = f"has a factor of shape {factor.shape} and a diagonal of {entries} entries"
        raise ArgumentError("linear", "LowRank(…)", problem, "Give (n, k), and one number or n of them.")
    return factor


def _symmetric(matrix: Array) -> Array:
    """A copy of a symmetric matrix without negative eigenvalues."""
    if matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1]:
        raise ArgumentError("linear", f"of shape {matrix.shape}", "is not square", _GIVE)
    if matrix.size > MOST_ENTRIES:
        return matrix  # is refused for its size, which must not take long
    scale = np.abs(matrix).max()
    if not np.allclose(matrix, matrix.T, rtol=0, atol=1e-6 * scale):
        raise ArgumentError("linear", f"of shape {matrix.shape}", "is not symmetric", "Give (A + A.T) / 2.")
    half: Array = (matrix + matrix.T) / 2
    least = float(np.linalg.eigvalsh(half)[0])
    if least < -1e-6 * scale:
        problem = f"curves downwards: its least eigenvalue is {least:.3g}"
        raise ArgumentError(
            "linear", f"of shape {matrix.shape}", problem, "Give a matrix without negative eigenvalues."
        )
    return half


def product(linear: LinearBound, theta: Any) -> Any:
    """A θ of a vector of any library: what JAX follows. Compiled code has :func:`add_linear`."""
    result = linear.diagonal * theta
    if linear.rows.shape[1]:
        result = result + linear.rows @ (linear.columns @ theta)
    return result + linear.dense @ theta if linear.dense.shape[0] else result


@compiled
def add_linear(residual, linear, theta, sign):  # type: ignore[no-untyped-def]
    """r ← r + s A θ of every row, s = 1 at the server and −1 at a worker.

    Sums run over rows of V and M one after the other, so that LLVM vectorises along them without changing their order.
    """
    diagonal, rows, columns, dense = linear
    s = residual.dtype.type(sign)
    for r in range(residual.shape[0]):
        out, point = residual[r], theta[r]
        if diagonal.shape[0] == 1:
            weight = s * diagonal[0]
            for i in range(out.shape[0]):
                out[i] += weight * point[i]
        else:
            for i in range(out.shape[0]):
                out[i] += s * diagonal[i] * point[i]
        if rows.shape[1] > 0:
            inner = np.zeros(rows.shape[1], residual.dtype)
            for i in range(out.shape[0]):
                row, at = rows[i], point[i]
                for k in range(inner.shape[0]):
                    inner[k] += at * row[k]
            for k in range(inner.shape[0]):
                column, weight = columns[k], s * inner[k]
                for i in range(out.shape[0]):
                    out[i] += weight * column[i]
        if dense.shape[0] > 0:
            for c in range(dense.shape[0]):
                row, weight = dense[c], s * point[c]
                for i in range(out.shape[0]):
                    out[i] += weight * row[i]


@compiled
def add_multiple(residual, theta, weight):  # type: ignore[no-untyped-def]
    """r ← r + w θ of every row: :func:`add_linear` of a number, with fewer arrays to hand over."""
    for r in range(residual.shape[0]):
        out, point = residual[r], theta[r]
        for i in range(out.shape[0]):
            out[i] += weight * point[i]
