"""Coordinates in which a sampler runs: θ = c + S z, with S a matrix in a form that is cheap to apply.

| form | S | an application |
|---|---|---|
| dense | upper triangular | n²/2 multiplications |
| low rank | D (I + V (diag(s) − I) Vᵀ), V of k orthonormal directions | (2k + 1) n |
| diagonal | D | n |

With S Sᵀ about the covariance of the posterior all its directions have the scale 1 in z. The arrays are part of a run:
its trace and its store keep them to the last bit, so that a replay finds the same z and the same θ.
"""

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, NamedTuple, Self

import numpy as np

from stalegrad._internal.errors import ArgumentError
from stalegrad._internal.jit import compiled
from stalegrad._internal.types import Array


@dataclass(frozen=True, eq=False)
class Coordinates:
    """θ = c + S z. All arrays have the type of the model's θ.

    Args:
        centre: c, (n,).
        factor: S of the dense form, (n, n), upper triangular.
        scale: D of the other two, (n,).
        basis: V of the low rank, (k, n), orthonormal rows.
        stretch: s, (k,), by how much the scale is multiplied along each.
        anchor_gradient: ∇U(c), if minibatch gradients are to have control variates at c; None if not.

    >>> coordinates = Coordinates(np.array([1.0, 2.0]), scale=np.array([0.1, 10.0]))
    >>> coordinates.original(np.array([[1.0, 1.0]]))
    array([[ 1.1, 12. ]])
    """

    centre: Array
    factor: Array | None = None
    scale: Array | None = None
    basis: Array | None = None
    stretch: Array | None = None
    anchor_gradient: Array | None = None

    def __post_init__(self) -> None:
        size, dtype = self.centre.size, self.centre.dtype
        wanted: dict[str, tuple[int, ...]] = {"centre": (size,), "anchor_gradient": (size,)}
        if self.factor is not None:
            wanted |= {"factor": (size, size)}
        else:
            rank = 0 if self.basis is None else len(self.basis)
            wanted |= {"scale": (size,), "basis": (rank, size), "stretch": (rank,)}
            object.__setattr__(self, "basis", np.empty((0, size), dtype) if self.basis is None else self.basis)
            object.__setattr__(self, "stretch", np.empty(0, dtype) if self.stretch is None else self.stretch)
        for name, array in self.arrays().items():
            if array.shape != wanted.get(name) or not np.isfinite(array).all():
                remedy = f"Give finite numbers of shape {wanted.get(name)}."
                raise ArgumentError(f"coordinates.{name}", array, f"has shape {array.shape}, or is not finite", remedy)
            object.__setattr__(self, name, np.ascontiguousarray(array, dtype))
        if self.factor is None and self.scale is None:
            raise ArgumentError("coordinates", None, "have neither factor nor scale", "Give one of them.")
        object.__setattr__(self, "_bound", self._for_compiled_code())

    @property
    def size(self) -> int:
        """n, the number of parameters, which z and θ share."""
        return int(self.centre.size)

    @property
    def form(self) -> str:
        """Its name: dense, rank k + diagonal, or diagonal."""
        if self.factor is not None:
            return "dense"
        return f"rank {len(self.basis)} + diagonal" if self.basis is not None and len(self.basis) else "diagonal"

    @property
    def bound(self) -> Any:
        """What compiled code needs of these coordinates."""
        return self._bound  # type: ignore[attr-defined]

    def original(self, z: Array) -> Array:
        """θ of every row of z, (…, n); each row has the same bits whatever stands beside it."""
        rows = np.ascontiguousarray(z, self.centre.dtype).reshape(-1, self.size)
        out = np.empty_like(rows)
        if self.factor is not None:
            dense_forward(rows, self.centre, self.bound.columns, out)
        else:
            scaled_forward(rows, *self.bound, out)
        return out.reshape(np.shape(z))

    def pulled(self, gradient: Array) -> Array:
        """∇_z = Sᵀ ∇_θ of every row."""
        rows = np.ascontiguousarray(gradient, self.centre.dtype).reshape(-1, self.size)
        out = np.empty_like(rows)
        self.pull(rows, out)
        return out.reshape(np.shape(gradient))

    def pull(self, gradient: Array, out: Array) -> None:
        """The same of rows (R, n), into ``out``."""
        if self.factor is not None:
            dense_backward(gradient, self.bound.rows, out)
        else:
            scaled_backward(gradient, *self.bound, out)

    def inverse(self, theta: Array) -> Array:
        """z of every row of θ, (…, n), in float64."""
        rows = np.asarray(theta, np.float64).reshape(-1, self.size) - self.centre.astype(np.float64)
        if self.factor is not None:
            z = np.linalg.solve(self.factor.astype(np.float64), rows.T).T
        else:
            scale, basis, stretch = self._low_rank()
            z = rows / scale
            z = z + (z @ basis.T) * (1 / stretch - 1) @ basis
        return np.asarray(z.reshape(np.shape(theta)))

    def matrix(self) -> Array:
        """S as a full matrix, (n, n), in float64."""
        if self.factor is not None:
            return self.factor.astype(np.float64)
        scale, basis, stretch = self._low_rank()
        inner = np.eye(self.size) + basis.T @ ((stretch - 1)[:, None] * basis)
        return np.asarray(scale[:, None] * inner)

    def variances(self) -> Array:
        """The diagonal of S Sᵀ, in float64: of θ where z has variance 1."""
        if self.factor is not None:
            return np.asarray(np.square(self.matrix()).sum(axis=1))
        scale, basis, stretch = self._low_rank()
        return np.asarray(scale**2 * (1 + (stretch**2 - 1) @ basis**2))

    def arrays(self) -> dict[str, Array]:
        """All of it by name; :meth:`from_arrays` reads them."""
        named = {f.name: getattr(self, f.name) for f in fields(self)}
        return {name: array for name, array in named.items() if array is not None}

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, Array]) -> Self:
        """The coordinates that :meth:`arrays` has taken apart."""
        names = [f.name for f in fields(cls)]
        unknown = sorted(set(arrays) - set(names))
        if unknown or "centre" not in arrays:
            raise ArgumentError("coordinates", sorted(arrays), "are not coordinates", f"They have: {', '.join(names)}.")
        return cls(**dict(arrays))

    def __reduce__(self) -> tuple[Any, ...]:
        return Coordinates.from_arrays, (self.arrays(),)

    def _low_rank(self) -> tuple[Array, Array, Array]:
        """D, V and s in float64, of the forms that have them."""
        parts = self.scale, self.basis, self.stretch
        return tuple(np.asarray(part, np.float64) for part in parts)  # type: ignore[return-value]

    def _for_compiled_code(self) -> Any:
        if self.factor is not None:
            return Dense(self.centre, np.ascontiguousarray(self.factor.T), self.factor)
        assert self.stretch is not None, "checked above"
        return Scaled(self.centre, self.scale, self.basis, self.stretch - self.stretch.dtype.type(1))


class Dense(NamedTuple):
    """The dense form as compiled code takes it: c, the columns of S, its rows."""

    centre: Any
    columns: Any
    rows: Any


class Scaled(NamedTuple):
    """The other forms: c, D, V and s − 1."""

    centre: Any
    scale: Any
    basis: Any
    stretch: Any


@compiled
def dense_forward(z, centre, columns, out):  # type: ignore[no-untyped-def]
    """out[r] ← centre + Σ_c z[r, c] S_{·c}, where column c of S ends at entry c."""
    for r in range(z.shape[0]):
        row = out[r]
        row[:] = centre
        for c in range(z.shape[1]):
            weight, column = z[r, c], columns[c]
            for i in range(c + 1):
                row[i] += weight * column[i]


@compiled
def dense_backward(gradient, rows, out):  # type: ignore[no-untyped-def]
    """out[r] ← Σ_c gradient[r, c] S_{c·}, where row c of S begins at entry c."""
    for r in range(gradient.shape[0]):
        out[r, :] = 0
        for c in range(gradient.shape[1]):
            weight, row, part = gradient[r, c], rows[c, c:], out[r, c:]
            for i in range(row.shape[0]):
                part[i] += weight * row[i]


@compiled
def stretch_along(given, basis, stretch, row):  # type: ignore[no-untyped-def]
    """row ← row + Σ_k (s_k − 1)(V_k·given) V_k, four directions at a time: their sums do not wait for each other."""
    size, rank = given.shape[0], basis.shape[0]
    for k in range(0, rank - 3, 4):
        first, second, third, fourth = basis[k], basis[k + 1], basis[k + 2], basis[k + 3]
        a, b, c, d = given[0] * first[0], given[0] * second[0], given[0] * third[0], given[0] * fourth[0]
        for i in range(1, size):
            a += given[i] * first[i]
            b += given[i] * second[i]
            c += given[i] * third[i]
            d += given[i] * fourth[i]
        a, b, c, d = a * stretch[k], b * stretch[k + 1], c * stretch[k + 2], d * stretch[k + 3]
        for i in range(size):
            row[i] = row[i] + a * first[i] + b * second[i] + c * third[i] + d * fourth[i]
    for k in range(rank - rank % 4, rank):
        direction = basis[k]
        along = given[0] * direction[0]
        for i in range(1, size):
            along += given[i] * direction[i]
        along *= stretch[k]
        for i in range(size):
            row[i] += along * direction[i]


@compiled
def scaled_forward(z, centre, scale, basis, stretch, out):  # type: ignore[no-untyped-def]
    """out[r] ← c + D (z + Σ_k (s_k − 1)(V_k·z) V_k)."""
    for r in range(z.shape[0]):
        row, given = out[r], z[r]
        row[:] = given
        stretch_along(given, basis, stretch, row)
        for i in range(given.shape[0]):
            row[i] = centre[i] + scale[i] * row[i]


@compiled
def scaled_backward(gradient, centre, scale, basis, stretch, out):  # type: ignore[no-untyped-def]
    """out[r] ← (I + Vᵀ(s − 1)V) D gradient[r]."""
    for r in range(gradient.shape[0]):
        row, given = out[r], gradient[r]
        for i in range(given.shape[0]):
            row[i] = scale[i] * given[i]
        if basis.shape[0] > 0:
            stretch_along(row.copy(), basis, stretch, row)
