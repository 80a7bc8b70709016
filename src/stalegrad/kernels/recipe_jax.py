"""The arithmetic of :class:`stalegrad.Recipe`, in JAX: matrices from blocks, Γ by differentiation, a compiled step."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax
import jax.experimental
import jax.numpy as jnp
import numpy as np

from stalegrad._internal.errors import ArgumentError
from stalegrad._internal.types import Array

_POINTS = 8  # around the start at which D and Q are looked at
_SPREAD = 0.1  # of these, relative to the start
_TOLERANCE = 1e-8  # relative to the largest entry, in double precision


def _precision(wide: bool) -> Any:
    """The context in which JAX computes in 64 or in 32 bits."""
    if hasattr(jax, "enable_x64"):
        return jax.enable_x64(wide)
    return jax.experimental.enable_x64(wide)  # type: ignore[attr-defined]  # before JAX 0.8


class Dynamics:
    """dx = [−(D+Q)∇H + TΓ] dt + √(2TD) dW for blocks of given sizes, by Euler's scheme.

    States of float64 are computed in 64 bits and those of float32 in 32, whatever JAX's own setting is.

    Args:
        D, Q: from blocks to blocks; Q may be None.
        energy: from blocks to a number; None for ½|auxiliary variables|².
        sizes: of the blocks, in order; the first is the position.
        sequence: names in the order of their updates; None for all at once.
        dtype: of the state.
    """

    def __init__(
        self,
        D: Callable[..., Any],
        Q: Callable[..., Any] | None,
        energy: Callable[..., Any] | None,
        sizes: Mapping[str, int],
        sequence: Sequence[str] | None,
        dtype: np.dtype[Any],
    ) -> None:
        self._d, self._q, self._own_energy = D, Q, energy
        ends = np.cumsum([0, *sizes.values()]).tolist()
        self._slices = {name: slice(a, b) for name, a, b in zip(sizes, ends[:-1], ends[1:], strict=True)}
        self._size = ends[-1]
        self._parts = [slice(0, self._size)] if sequence is None else [self._slices[name] for name in sequence]
        self._wide = dtype == np.float64
        self._step = jax.jit(self._all_rows)

    def advance(self, x: Array, gradient: Array, noise: Array, h: Any, temperature: Any) -> Array:
        """x (R, m) after one update with gradients (R, n) of U and normals (R, m)."""
        with _precision(self._wide):
            return np.asarray(self._step(x, gradient, noise, h, temperature, x.shape[0]))

    def check(self, x: Array) -> None:
        """Refuse D and Q that are not what they should be at x (m,) or at points around it."""
        generator = np.random.Generator(np.random.Philox(key=0))
        spread = _SPREAD * np.where(x == 0, 1, np.abs(x))
        points = x + spread * generator.standard_normal((_POINTS + 1, x.size)) * (np.arange(_POINTS + 1) > 0)[:, None]
        with _precision(True):
            for point in points.astype(np.float64):
                self._check_semidefinite(np.asarray(self._matrix("D", self._d, point)))
                self._check_skew(np.asarray(self._matrix("Q", self._q, point)))
            shape = np.shape(self._energy(jnp.asarray(points[0])))
        if shape != ():
            problem = f"returns an array of shape {shape}"
            raise ArgumentError("energy", self._own_energy, problem, "Return one number, the sum over its parts.")

    def _all_rows(self, x: Any, gradient: Any, noise: Any, h: Any, temperature: Any, rows: Any) -> Any:
        """Row by row in one loop of unknown length: the program of a row, so its bits, do not depend on the others."""

        def one(r: Any, moved: Any) -> Any:
            return moved.at[r].set(self._row(x[r], gradient[r], noise[r], h, temperature))

        return jax.lax.fori_loop(0, rows, one, x)

    def _row(self, x: Any, gradient: Any, noise: Any, h: Any, temperature: Any) -> Any:
        shaken = jnp.sqrt(2 * h * temperature) * self._shaken(x, noise)  # at the x of before, as Itô's integral has it
        for part in self._parts:  # drifts are taken with the newest values of the parts before
            slope = jax.grad(self._energy)(x).at[: gradient.size].add(gradient)
            drift = temperature * self._gamma(x) - self._flow(x) @ slope
            x = x.at[part].add((h * drift + shaken)[part])
        return x

    def _energy(self, x: Any) -> Any:
        if self._own_energy is not None:
            return self._own_energy(self._blocks(x))
        return 0.5 * jnp.sum(x[next(iter(self._slices.values())).stop :] ** 2)

    def _flow(self, x: Any) -> Any:
        """D + Q."""
        return self._matrix("D", self._d, x) + self._matrix("Q", self._q, x)

    def _gamma(self, x: Any) -> Any:
        """Γ_i = Σ_j ∂(D+Q)_ij/∂x_j."""
        return jnp.einsum("ijj->i", jax.jacfwd(self._flow)(x))

    def _shaken(self, x: Any, noise: Any) -> Any:
        """√D ζ, with the symmetric root of a semidefinite matrix. An eigenvalue below 0 gives NaN, not a wrong law."""
        diagonal, matrix = self._taken("D", self._d, x)
        if diagonal is not None:
            return jnp.sqrt(diagonal) * noise
        values, vectors = jnp.linalg.eigh(matrix)
        rounding = 100 * np.finfo(values.dtype).eps * jnp.max(jnp.abs(values))
        roots = jnp.sqrt(jnp.where(jnp.abs(values) <= rounding, 0, values))
        return vectors @ (roots * (vectors.T @ noise))

    def _blocks(self, x: Any) -> dict[str, Any]:
        return {name: x[part] for name, part in self._slices.items()}

    def _matrix(self, name: str, function: Callable[..., Any] | None, x: Any) -> Any:
        diagonal, matrix = self._taken(name, function, x)
        return matrix if diagonal is None else jnp.diag(diagonal)

    def _taken(self, name: str, function: Callable[..., Any] | None, x: Any) -> tuple[Any, Any]:
        """What D or Q return at x: as a diagonal (m,) where it is one by its form, or as a matrix (m, m)."""
        x = jnp.asarray(x)
        if function is None:
            return jnp.zeros_like(x), None
        given = function(self._blocks(x))
        if not isinstance(given, Mapping):
            array = jnp.asarray(given, x.dtype)
            if array.shape in ((), (x.size,)):
                return jnp.broadcast_to(array, x.shape), None
            if array.shape != (x.size, x.size):
                sizes = ", ".join(f"{block} {part.stop - part.start}" for block, part in self._slices.items())
                problem = f"returns an array of shape {array.shape} for {x.size} variables ({sizes})"
                raise ArgumentError(name, function, problem, "Return a matrix of all, a diagonal, or named blocks.")
            return None, array
        diagonal, matrix, only_diagonal = jnp.zeros_like(x), jnp.zeros((x.size, x.size), x.dtype), True
        for key, block in given.items():
            row, column = self._pair(name, function, key)
            placed = self._placed(name, function, key, jnp.asarray(block, x.dtype), row, column)
            if row == column and placed.ndim < 2:
                diagonal = diagonal.at[row].set(placed)
            else:
                only_diagonal = False
                square = placed if placed.ndim == 2 else jnp.diag(jnp.broadcast_to(placed, row.stop - row.start))
                matrix = matrix.at[row, column].set(square)
        return (diagonal, None) if only_diagonal else (None, matrix + jnp.diag(diagonal))

    def _pair(self, name: str, function: Any, key: Any) -> tuple[slice, slice]:
        pair = (key, key) if isinstance(key, str) else key
        if not (isinstance(pair, tuple) and len(pair) == 2 and all(block in self._slices for block in pair)):
            known = ", ".join(map(repr, self._slices))
            remedy = f"Name two blocks, row and column, or one for both. There are: {known}."
            raise ArgumentError(name, function, f"returns a block {key!r} that is not known", remedy)
        return self._slices[pair[0]], self._slices[pair[1]]

    @staticmethod
    def _placed(name: str, function: Any, key: Any, block: Any, row: slice, column: slice) -> Any:
        """A number or a vector for a diagonal, or a matrix of the block's shape."""
        shape = row.stop - row.start, column.stop - column.start
        if block.shape == shape or (shape[0] == shape[1] and block.shape in ((), (shape[0],))):
            return block
        if 1 in shape and block.size == shape[0] * shape[1]:
            return block.reshape(shape)
        problem = f"returns an array of shape {block.shape} for the block {key!r}, which is {shape[0]} × {shape[1]}"
        raise ArgumentError(name, function, problem, "Return a block of that shape; a number or a diagonal if square.")

    def _check_semidefinite(self, matrix: Array) -> None:
        self._check_entries("D", self._d, matrix, matrix - matrix.T, "is not symmetric: D − Dᵀ")
        least = float(np.linalg.eigvalsh(matrix)[0])
        if least < -_TOLERANCE * np.abs(matrix).max(initial=0):
            problem = f"is not positive semidefinite: near the start it has the eigenvalue {least:.6g}"
            raise ArgumentError("D", self._d, problem, "Give a D with no eigenvalue below 0 wherever the chain comes.")

    def _check_skew(self, matrix: Array) -> None:
        self._check_entries("Q", self._q, matrix, matrix + matrix.T, "is not skew-symmetric: Q + Qᵀ")

    def _check_entries(self, name: str, function: Any, matrix: Array, excess: Array, problem: str) -> None:
        if not np.isfinite(matrix).all():
            raise ArgumentError(name, function, "is not finite near the start", "Start the chain elsewhere: initial=.")
        worst = np.unravel_index(np.argmax(np.abs(excess)), excess.shape)
        if abs(excess[worst]) > _TOLERANCE * np.abs(matrix).max():
            where = ", ".join(self._variable_name(int(i)) for i in worst)
            problem = f"{problem} has the entry {excess[worst]:.6g} at ({where}), near the start"
            remedy = "Give both halves: a block (a, b) goes with its transpose at (b, a)"
            remedy += "." if name == "D" else ", with the other sign."
            raise ArgumentError(name, function, problem, remedy)

    def _variable_name(self, index: int) -> str:
        return next(f"{n}[{index - p.start}]" for n, p in self._slices.items() if p.start <= index < p.stop)
