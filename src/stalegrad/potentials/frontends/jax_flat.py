"""What models written in JAX share: a pytree of parameters as one flat θ, and a gradient that is one compiled call."""

from abc import abstractmethod
from collections.abc import Callable, Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from stalegrad._internal import validation as checks
from stalegrad._internal.errors import ArgumentError
from stalegrad._internal.types import Array, IntArray
from stalegrad.potentials.base import Potential
from stalegrad.potentials.compiled import fits
from stalegrad.potentials.frontends.pytrees import blocks, form, joined, leaf_names, parameter_leaves
from stalegrad.potentials.minibatches.scheme import Minibatches
from stalegrad.potentials.prediction import Predictive
from stalegrad.potentials.traced import Traced

Pytree = Any


class FlatPotential(Potential):
    """What models in JAX share: a pytree of parameters as one flat θ, and a gradient that is one compiled call.

    A subclass writes ``_potential``, U on a minibatch. Repetitions go one by one: a batched call would be another
    program, whose last bits may differ.

    Args:
        params: a pytree of floating-point arrays: the structure of the parameters and where chains start.
        data: a pytree of arrays that the compiled call takes as an argument, lest they be constants of the program.
        minibatches: of N data.
        dtype: of θ; None means float64 if any leaf of ``params`` is.
        names: of the leaves, and what they are called in errors; None for their paths.
    """

    def __init__(
        self,
        params: Pytree,
        data: Pytree,
        minibatches: Minibatches,
        dtype: Any,
        names: Mapping[str, str] | None = None,
    ) -> None:
        leaves, self._structure = parameter_leaves(params, None if names is None else list(names.values()))
        self._names = leaf_names(params) if names is None else list(names)
        self._leaves = [form(leaf.shape, leaf.dtype) for leaf in leaves]
        widest = np.float64 if any(leaf.dtype == np.float64 for leaf in leaves) else np.float32
        flat_dtype = checks.float_dtype("dtype", widest if dtype is None else dtype)
        if flat_dtype == np.float64 and not jax.config.jax_enable_x64:  # type: ignore[attr-defined]
            remedy = "Call jax.config.update('jax_enable_x64', True) or set JAX_ENABLE_X64=1 first, or give np.float32."
            raise ArgumentError("dtype", dtype, "is double precision, which JAX has switched off", remedy)
        self._start = np.concatenate([np.asarray(leaf, flat_dtype).ravel() for leaf in leaves])
        self._data = data
        super().__init__(self._start.size, minibatches, flat_dtype)
        gradient = jax.grad(self._potential)
        self._compiled, self._traced = jax.jit(gradient), Traced(gradient, data, {})

    @abstractmethod
    def _potential(self, theta: Any, indices: Any, data: Pytree) -> Any:
        """U(θ) as the data ``indices`` give it, or all data in order if they are None, a scalar. Traced by JAX."""

    @property
    def traced(self) -> Traced | None:
        """The gradient that is compiled, unless a subclass has put another in its place."""
        own = type(self).gradient is FlatPotential.gradient and type(self).gradients is FlatPotential.gradients
        return self._traced if own else None

    def gradient(self, theta: Array, indices: IntArray) -> Array:
        """g̃(θ) on the data ``indices``."""
        theta = np.asarray(theta, self.dtype)
        if theta.shape != (self.size,):
            raise ArgumentError("theta", theta, f"has shape {theta.shape}", f"Give a vector of {self.size} entries.")
        indices = np.asarray(indices)
        if indices.ndim != 1 or indices.size == 0 or indices.min() < 0 or indices.max() >= self.n_data:
            remedy = f"Give a vector of indices from 0 to {self.n_data - 1}."
            raise ArgumentError("indices", indices, "is empty or reaches outside the data", remedy)
        return np.array(self._compiled(theta, indices, self._data))

    def gradients(self, theta: Array, indices: IntArray, out: Array) -> None:
        """g̃ for R repetitions, one by one; the arguments are looked at in compiled code, all at once."""
        if not fits(theta, indices, out, self.size, self.n_data):
            super().gradients(theta, indices, out)  # which says what is wrong with them
            return
        compiled, data = self._compiled, self._data
        for row in range(theta.shape[0]):
            out[row] = compiled(theta[row], indices[row], data)

    def initial(self) -> Array:
        """The ``params`` that the potential was made with, flat."""
        return self._start.copy()

    @property
    def layout(self) -> dict[str, tuple[int, ...]]:
        """The leaves of ``params``, named by their paths: ``params["layer"]["bias"]`` is ``layer.bias``."""
        return dict(zip(self._names, (leaf.shape for leaf in self._leaves), strict=True))

    def _compiled_over(self, function: Callable[[Any, Pytree], Any], rows: Pytree) -> Predictive:
        """A function of θ and a block of rows as one of θ, (n,) or (draws, n), and all rows, in float64."""
        pieces = blocks(rows)
        one, many = jax.jit(function), jax.jit(jax.vmap(function, in_axes=(0, None)))

        def over(theta: Array) -> Any:
            point = np.asarray(theta, self.dtype)
            if point.ndim not in (1, 2) or point.shape[-1] != self.size:
                problem, remedy = f"has shape {point.shape}", f"Give {self.size} entries, or rows of so many."
                raise ArgumentError("theta", theta, problem, remedy)
            parts = [(one if point.ndim == 1 else many)(point, block) for block in pieces]
            return jax.tree.map(lambda *leaves: joined(leaves, point.ndim - 1), *parts)

        return over

    def unravel(self, theta: Any) -> Pytree:
        """The flat θ as a pytree with the structure, shapes and types of ``params``."""
        if np.shape(theta) != (self.size,):
            problem = f"has shape {np.shape(theta)}"
            raise ArgumentError("theta", theta, problem, f"Give a vector of {self.size} entries.")
        ends = np.cumsum([leaf.size for leaf in self._leaves])[:-1]
        pieces = jnp.split(jnp.asarray(theta), ends)
        shaped = [p.reshape(leaf.shape).astype(leaf.dtype) for p, leaf in zip(pieces, self._leaves, strict=True)]
        return jax.tree.unflatten(self._structure, shaped)
