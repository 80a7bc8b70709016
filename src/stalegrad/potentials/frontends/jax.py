"""A potential from a model written in JAX: a log-prior, a log-likelihood of one datum, and pytrees of parameters."""

from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from stalegrad._internal import validation as checks
from stalegrad._internal.errors import ArgumentError
from stalegrad._internal.types import Array, IntArray
from stalegrad.potentials.base import Potential
from stalegrad.potentials.compiled import fits
from stalegrad.potentials.frontends.pytrees import (
    data_leaves,
    form,
    is_array,
    joined,
    leaf_names,
    log_density,
    parameter_leaves,
    part,
)
from stalegrad.potentials.minibatches.scheme import Minibatches
from stalegrad.potentials.prediction import Predictive
from stalegrad.potentials.priors import FlatPrior, Priors
from stalegrad.potentials.traced import Traced

Pytree = Any
LogPrior = Callable[[Pytree], Any]
LogLikelihood = Callable[[Pytree, Pytree], Any]
Predict = Callable[[Pytree, Any], Any]

_BLOCK = 1000  # rows in one pass where all are wanted


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
        count = jax.tree.leaves(rows)[0].shape[0]
        blocks = [
            jax.tree.map(lambda leaf, first=first: leaf[first : first + _BLOCK], rows)
            for first in range(0, count, _BLOCK)
        ]
        one, many = jax.jit(function), jax.jit(jax.vmap(function, in_axes=(0, None)))

        def over(theta: Array) -> Any:
            point = np.asarray(theta, self.dtype)
            if point.ndim not in (1, 2) or point.shape[-1] != self.size:
                problem, remedy = f"has shape {point.shape}", f"Give {self.size} entries, or rows of so many."
                raise ArgumentError("theta", theta, problem, remedy)
            parts = [(one if point.ndim == 1 else many)(point, block) for block in blocks]
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


class JaxPotential(FlatPotential):
    """See :func:`stalegrad.potentials.from_jax`, which makes it.

    The minibatch's gather, the map over its data and the differentiation are one compiled call.
    """

    def __init__(
        self,
        log_prior: LogPrior | Priors,
        log_likelihood: LogLikelihood,
        data: Pytree,
        params: Pytree,
        batch_size: int | None,
        scheme: str,
        dtype: Any,
        predict: Predict | None = None,
        sample: str | Sequence[str] | None = None,
    ) -> None:
        rows, n_data = data_leaves("data", data)
        self._parted = part(params, sample)
        # Arrays that are not sampled are arguments of the compiled call, like the data; functions are part of it.
        constants = {place: leaf for place, leaf in enumerate(self._parted.rest) if is_array(leaf)}
        leaves = self._parted.sampled
        names = dict(zip(leaves, self._parted.paths, strict=True))
        batches = Minibatches.of(n_data, batch_size, scheme)
        super().__init__(list(leaves.values()), (rows, constants), batches, dtype, names)
        self._made_from = log_prior, params, sample
        self._log_likelihood, self._predict = log_likelihood, predict
        self._log_prior: Any = log_prior if callable(log_prior) else None
        self.prior = None if callable(log_prior) else FlatPrior(log_prior, self.layout, self.dtype, self._start)
        """The prior, if it was given as one of :mod:`stalegrad.potentials.priors`."""
        self._likelihoods: Predictive | None = None  # compiled when it is first asked for
        self._refuse_unless_scalar()

    def __reduce__(self) -> tuple[Any, ...]:
        log_prior, params, sample = self._made_from
        params = jax.tree.map(lambda leaf: np.asarray(leaf) if isinstance(leaf, jax.Array) else leaf, params)
        data = jax.tree.map(np.asarray, self._data[0])
        batches = self.minibatches
        made_from = (log_prior, self._log_likelihood, data, params)
        return JaxPotential, (*made_from, batches.batch_size, batches.scheme, self.dtype, self._predict, sample)

    def unravel(self, theta: Any, constants: Any = None) -> Pytree:
        """The flat θ as a pytree with the structure, shapes and types of ``params``; what is not sampled stays."""
        sampled = super().unravel(theta)
        rest = list(self._parted.rest)
        for place, leaf in (constants or {}).items():
            rest[place] = leaf
        return self._parted.whole(sampled, rest)

    def predictive(self, X: Pytree, predict: Predict | None = None) -> Predictive:
        """The function θ ↦ what it predicts for the rows of ``X``, which :meth:`stalegrad.Run.predict` averages.

        Args:
            X: a pytree of arrays whose first axes count the rows.
            predict: from the parameters and ONE row to the probabilities of its classes, (K,), or to a pair (mean,
                variance); None for what the potential was made with.
        """
        function = self._predict if predict is None else predict
        if function is None:
            remedy = "Give predict=, here or to from_jax: a function of (params, one x)."
            raise ArgumentError("predict", None, "is missing: a log-likelihood does not say what it predicts", remedy)
        if not callable(function):
            raise ArgumentError("predict", function, "cannot be called", "Give a function of (params, one x).")
        rows, _ = data_leaves("X", X)

        def block(theta: Any, some: Pytree) -> Any:
            return jax.vmap(function, in_axes=(None, 0))(self.unravel(theta), some)

        return self._compiled_over(block, rows)

    def log_likelihood(self, theta: Array, data: Pytree = None) -> Array:
        """log p(d_i | θ) of each datum, (N,), in float64; of the model's own data, or of others like them."""
        rows = self._data[0] if data is None else data_leaves("data", data)[0]

        def block(theta: Any, some: Pytree) -> Any:
            return jax.vmap(self._log_likelihood, in_axes=(None, 0))(self.unravel(theta), some)

        if data is not None:
            return np.asarray(self._compiled_over(block, rows)(theta))
        if self._likelihoods is None:
            self._likelihoods = self._compiled_over(block, rows)
        return np.asarray(self._likelihoods(theta))

    def _potential(self, theta: Any, indices: Any, data: Pytree) -> Any:
        """−log p(θ) − (N/J) Σ_{i ∈ batch} log p(d_i | θ). The data are an argument, not constants of the program."""
        rows, constants = data
        params = self.unravel(theta, constants)
        batch = rows if indices is None else jax.tree.map(lambda leaf: leaf[indices], rows)
        terms = jax.vmap(self._log_likelihood, in_axes=(None, 0))(params, batch)
        weight = 1.0 if indices is None else self.n_data / indices.size
        prior = self._log_prior(params) if self.prior is None else log_density(self.prior, theta)
        return -prior - weight * terms.sum()

    def _refuse_unless_scalar(self) -> None:
        datum = jax.tree.map(lambda leaf: form(leaf.shape[1:], leaf.dtype), self._data[0])
        theta = form((self.size,), self.dtype)
        for name, function, arguments in (
            ("log_prior", self._log_prior, ()),
            ("log_likelihood", self._log_likelihood, (datum,)),
        ):
            if name == "log_prior" and function is None:
                continue
            if not callable(function):
                raise ArgumentError(name, function, "cannot be called", "Give a function.")
            result = jax.eval_shape(lambda t, *more, of=function: of(self.unravel(t), *more), theta, *arguments)
            if getattr(result, "shape", None) != () or not jnp.issubdtype(result.dtype, jnp.floating):
                remedy = "Return one real number"
                remedy += ", the sum over its parts." if name == "log_prior" else ": it is called with one datum."
                raise ArgumentError(name, function, f"returns {result}, not a scalar", remedy)
