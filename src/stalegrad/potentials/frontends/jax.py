"""A potential from a model written in JAX: a log-prior, a log-likelihood of one datum, and pytrees of parameters."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from stalegrad._internal.errors import ArgumentError
from stalegrad._internal.types import Array
from stalegrad.potentials.frontends.jax_body import Cut, Rows, featured
from stalegrad.potentials.frontends.jax_flat import FlatPotential, Pytree
from stalegrad.potentials.frontends.pytrees import data_leaves, evenly, form, is_array, log_density, part
from stalegrad.potentials.minibatches.scheme import Minibatches
from stalegrad.potentials.prediction import Predictive
from stalegrad.potentials.priors import FlatPrior, Priors
from stalegrad.potentials.traced import Traced

LogPrior = Callable[[Pytree], Any]
LogLikelihood = Callable[[Pytree, Pytree], Any]
Predict = Callable[[Pytree, Any], Any]

_MOST_FEATURES = 1 << 30  # bytes that are kept without being asked for
_MOST_ASKED = 1000  # rows for whose predictions a model can be asked


class Kept(NamedTuple):
    """What is left of data after they went through a frozen body: what a worker is sent in their place."""

    structure: Any
    forms: list[Any]
    """Of the leaves of one datum."""
    n_data: int
    rows: Rows
    few: Pytree
    """Inputs of some data."""


class JaxPotential(FlatPotential):
    """See :func:`stalegrad.potentials.from_jax`, which makes it.

    The minibatch's gather, the map over its data and the differentiation are one compiled call.
    """

    frozen: str
    """What becomes of the arrays that are not sampled, in words."""

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
        cache: bool | None = None,
        inputs: Callable[[Pytree], Any] | None = None,
        network: bool | None = None,
    ) -> None:
        self._parted = part(params, sample)
        # Arrays that are not sampled are arguments of the compiled call, like the data; functions are part of it.
        constants = {place: leaf for place, leaf in enumerate(self._parted.rest) if is_array(leaf)}
        leaves = self._parted.sampled
        names = dict(zip(leaves, self._parted.paths, strict=True))
        kept = data if isinstance(data, Kept) else None
        if kept is None:
            rows, n_data = data_leaves("data", data)
            found, self._structure_of_datum = jax.tree.flatten(rows)
            self._forms = [form(leaf.shape[1:], leaf.dtype) for leaf in found]
            own = Rows(dict(enumerate(found)), [])
        else:
            self._structure_of_datum, self._forms, n_data = kept.structure, kept.forms, kept.n_data
            own = jax.tree.map(jnp.asarray, kept.rows)
        batches = Minibatches.of(n_data, batch_size, scheme)
        super().__init__(list(leaves.values()), (own, constants), batches, dtype, names)
        self._made_from = log_prior, params, sample, cache, inputs, network
        self._log_likelihood, self._predict = log_likelihood, predict
        self._log_prior: Any = log_prior if callable(log_prior) else None
        self.prior = None if callable(log_prior) else FlatPrior(log_prior, self.layout, self.dtype, self._start)
        """The prior, if it was given as one of :mod:`stalegrad.potentials.priors`."""
        self._likelihoods: Predictive | None = None  # compiled when it is first asked for
        self._refuse_unless_scalar()
        whole = Cut(self._likelihood_of, self._leaves, constants, self._datum)
        self._few = self._some_inputs(inputs) if kept is None else kept.few
        self._network = self._is_network(network, whole.is_deep)
        self._cut: Cut | None = None
        self.frozen = self._keep_features(whole, cache, kept)
        self._traced = Traced(self._traced.gradient, self._data, {})

    def __reduce__(self) -> tuple[Any, ...]:
        log_prior, params, *options = self._made_from
        sample, *more = options
        own, params, few = jax.tree.map(
            lambda leaf: np.asarray(leaf) if isinstance(leaf, jax.Array) else leaf, (self._data[0], params, self._few)
        )
        data = jax.tree.unflatten(self._structure_of_datum, own.leaves.values()) if self._cut is None else None
        if data is None:
            data = Kept(self._structure_of_datum, self._forms, self.n_data, own, few)
        batches = self.minibatches
        made_from = (log_prior, self._log_likelihood, data, params, batches.batch_size, batches.scheme, self.dtype)
        return JaxPotential, (*made_from, self._predict, sample, *more)

    @property
    def is_network(self) -> bool:
        """Whether it is judged by what it predicts."""
        return self._network

    def predictions(self, rows: int) -> Callable[[Array], Array] | None:
        """What a network predicts for at most so many of its data, up to 1,000, evenly chosen: of pairs the means."""
        if not self._network:
            return None
        few = jax.tree.leaves(self._few)[0].shape[0]
        asked = self.predictive(jax.tree.map(lambda leaf: leaf[evenly(few, rows)], self._few))

        def predicted(theta: Array) -> Array:
            found = asked(theta)
            return np.asarray(found[0] if isinstance(found, tuple) else found)

        return predicted

    def unravel(self, theta: Any, constants: Any = None) -> Pytree:
        """The flat θ as a pytree with the structure, shapes and types of ``params``; what is not sampled stays."""
        return self._whole(super().unravel(theta), constants)

    def predictive(self, X: Pytree, predict: Predict | None = None) -> Predictive:
        """The function θ ↦ what it predicts for the rows of ``X``, which :meth:`stalegrad.Run.predict` averages.

        What is made of X before anything that is sampled has a say is computed once, unless ``cache=False``.

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

        if self._cut is None:
            return self._compiled_over(block, rows)
        of_one = jax.tree.map(lambda leaf: form(leaf.shape[1:], leaf.dtype), rows)
        constants = self._data[1]
        cut = Cut(lambda *parts: function(self._whole(*parts[:2]), parts[2]), self._leaves, constants, of_one)
        return self._compiled_over(self._over_features(cut), featured(cut, constants, rows))

    def log_likelihood(self, theta: Array, data: Pytree = None) -> Array:
        """log p(d_i | θ) of each datum, (N,), in float64; of the model's own data, or of others like them."""
        if data is not None:
            rows, _ = data_leaves("data", data)

            def block(theta: Any, some: Pytree) -> Any:
                return jax.vmap(self._log_likelihood, in_axes=(None, 0))(self.unravel(theta), some)

            return np.asarray(self._compiled_over(block, rows)(theta))
        if self._likelihoods is None:
            constants = self._data[1]
            self._likelihoods = self._compiled_over(
                lambda theta, some: self._terms(FlatPotential.unravel(self, theta), constants, some), self._data[0]
            )
        return np.asarray(self._likelihoods(theta))

    def _potential(self, theta: Any, indices: Any, data: Pytree) -> Any:
        """−log p(θ) − (N/J) Σ_{i ∈ batch} log p(d_i | θ). The data are an argument, not constants of the program."""
        rows, constants = data
        sampled = super().unravel(theta)
        batch = rows if indices is None else jax.tree.map(lambda leaf: leaf[indices], rows)
        terms = self._terms(sampled, constants, batch)
        weight = 1.0 if indices is None else self.n_data / indices.size
        prior = (
            self._log_prior(self._whole(sampled, constants)) if self.prior is None else log_density(self.prior, theta)
        )
        return -prior - weight * terms.sum()

    def _terms(self, sampled: Sequence[Any], constants: Any, rows: Rows) -> Any:
        """log p(d_i | θ) of some rows."""
        if self._cut is not None:
            return jax.vmap(self._cut.rest, in_axes=(None, None, 0, 0))(sampled, constants, *rows)
        batch = jax.tree.unflatten(self._structure_of_datum, rows.leaves.values())
        return jax.vmap(self._log_likelihood, in_axes=(None, 0))(self._whole(sampled, constants), batch)

    def _over_features(self, cut: Cut) -> Callable[[Any, Rows], Any]:
        """What ``cut`` makes of some rows."""

        def block(theta: Any, rows: Rows) -> Any:
            sampled = FlatPotential.unravel(self, theta)
            return jax.vmap(cut.rest, in_axes=(None, None, 0, 0))(sampled, self._data[1], *rows)

        return block

    def _whole(self, sampled: Sequence[Any], constants: Any) -> Pytree:
        rest = list(self._parted.rest)
        for place, leaf in (constants or {}).items():
            rest[place] = leaf
        return self._parted.whole(sampled, rest)

    @property
    def _datum(self) -> Pytree:
        return jax.tree.unflatten(self._structure_of_datum, self._forms)

    def _likelihood_of(self, sampled: Sequence[Any], constants: Any, datum: Pytree) -> Any:
        return self._log_likelihood(self._whole(sampled, constants), datum)

    # ------------------------------------------------------------------------------------------- what is frozen

    def _keep_features(self, cut: Cut, cache: bool | None, kept: Kept | None) -> str:
        """Compute what does not depend on θ once, if that can be done; says what has become of it."""
        own, constants = self._data
        size = cut.bytes_a_datum * self.n_data
        if not constants:
            reason = "nothing is frozen"
        elif cache is False:
            reason = "cache=False"
        elif cut.has_effects:
            reason = "log_likelihood prints or calls back"
        elif not cut.forms:
            reason = "what is frozen comes after what is sampled, or is not applied to the data"
        elif cache is None and kept is None and size > _MOST_FEATURES:
            reason = f"features would take {size / 1e9:.1f} GB; cache=True keeps them all the same"
        else:
            self._cut = cut
            if kept is None:
                rows = jax.tree.unflatten(self._structure_of_datum, own.leaves.values())
                self._data = featured(cut, constants, rows), constants
            shapes = ", ".join(str(each.shape) for each in cut.forms)
            return f"computed once: features {shapes} of each of {self.n_data:,} data, {size / 1e6:.1f} MB"
        if cache:
            remedy = "Sample what comes last alone, such as sample='head.*', or leave cache out."
            raise ArgumentError("cache", cache, f"cannot be done: {reason}", remedy)
        return f"computed for every gradient: {reason}"

    # --------------------------------------------------------------------------------------- what is predicted

    def _some_inputs(self, inputs: Callable[[Pytree], Any] | None) -> Pytree:
        """What ``predict`` is given of some of the data; None if that is not known."""
        if inputs is not None and not callable(inputs):
            raise ArgumentError("inputs", inputs, "cannot be called", "Give a function from one datum to its x.")
        own: Rows = self._data[0]
        data = jax.tree.unflatten(self._structure_of_datum, own.leaves.values())
        some = jax.tree.map(lambda leaf: leaf[evenly(self.n_data, _MOST_ASKED)], data)
        if inputs is not None:
            return jax.vmap(inputs)(some)
        if isinstance(some, tuple | list) and len(some) == 2:
            return some[0]
        return next((some[name] for name in ("x", "X") if name in some), None) if isinstance(some, Mapping) else None

    def _is_network(self, network: bool | None, deep: bool) -> bool:
        if network is False or (network is None and (not deep or self._predict is None or self._few is None)):
            return False
        remedy = "Give predict=, and inputs= unless data are a pair (x, y) or have an entry 'x'; or leave network out."
        predict = self._predict
        if predict is None or self._few is None:
            problem = f"is judged by what it predicts, and {'inputs' if predict else 'predict'} is missing"
            raise ArgumentError("network", network, problem, remedy)
        one = jax.tree.map(lambda leaf: form(leaf.shape[1:], leaf.dtype), self._few)
        try:
            jax.eval_shape(lambda theta, x: predict(self.unravel(theta), x), form((self.size,), self.dtype), one)
        except Exception:
            if network or self._made_from[4] is not None:
                raise
            return False  # x is not what predict takes
        return True

    def _refuse_unless_scalar(self) -> None:
        theta = form((self.size,), self.dtype)
        for name, function, arguments in (
            ("log_prior", self._log_prior, ()),
            ("log_likelihood", self._log_likelihood, (self._datum,)),
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
