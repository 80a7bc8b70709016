"""A potential from a NumPyro model, with its priors, constraints and plates as they are."""

import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from numpyro import handlers
from numpyro.distributions import Delta, MaskedDistribution, biject_to
from numpyro.infer import init_to_feasible
from numpyro.infer.util import constrain_fn, potential_energy
from numpyro.primitives import Messenger

from stalegrad._internal.errors import ArgumentError
from stalegrad._internal.types import Array
from stalegrad.potentials.frontends.jax_flat import FlatPotential
from stalegrad.potentials.minibatches.scheme import Minibatches
from stalegrad.potentials.prediction import Predictive

Model = Callable[..., Any]
Sites = Mapping[str, Mapping[str, Any]]
Values = dict[str, Any]

_following = (
    threading.RLock()
)  # NumPyro follows a model through one global stack, which two threads must not do at once


class NumpyroPotential(FlatPotential):
    """See :func:`stalegrad.potentials.from_numpyro`, which makes it.

    Minibatch, model, change of variables and differentiation are one compiled call of θ, the indices and the arrays
    among the model's arguments. It is compiled when the potential is made, not at the first gradient.
    """

    def __init__(
        self,
        model: Model,
        args: Sequence[Any],
        kwargs: Mapping[str, Any],
        init_strategy: Any,
        scheme: str,
        dtype: Any,
    ) -> None:
        if not callable(model):
            raise ArgumentError("model", model, "cannot be called", "Give a function with numpyro.sample statements.")
        self._made_from = model, init_strategy
        leaves, self._arguments = jax.tree.flatten((tuple(args), dict(kwargs)))
        self._constants = [jnp.asarray(leaf) if _is_array(leaf) else leaf for leaf in leaves]
        data = {position: leaf for position, leaf in enumerate(self._constants) if _is_array(leaf)}
        try:
            start, fixed, sites = self._follow(model, init_strategy or init_to_feasible, data)
        except (jax.errors.JAXTypeError, jax.errors.JAXIndexError):
            # The model computes a shape from its data, such as a number of groups: they must be constants after all.
            data = {}
            start, fixed, sites = self._follow(model, init_strategy or init_to_feasible, data)
        self._model = handlers.substitute(model, data=fixed)
        self._plate, n_data, batch_size = _subsampled_plate(sites)
        self._observed = {
            name: site for name, site in sites.items() if site["type"] == "sample" and site["is_observed"]
        }
        self._shown = [name for name, site in sites.items() if not _inside(site, self._plate)]
        super().__init__(start, data, Minibatches(n_data, batch_size, scheme), dtype)
        self._likelihoods: dict[tuple[str, ...], Any] = {}  # compiled when they are first asked for
        self._constrained = jax.jit(lambda rows, data: jax.lax.map(lambda row: self._constrain(row, data), rows))
        if not np.isfinite(self.gradient(self._start, np.arange(self.batch_size))).all():
            remedy = "Give another, such as numpyro.infer.init_to_median() or init_to_value(values={...})."
            raise ArgumentError("init_strategy", init_strategy, "starts where the gradient is not finite", remedy)

    def variables(self, draws: Array) -> dict[str, Array]:
        """Draws of θ, (…, n), as the sites of the model on their own scale, each (…, its shape).

        Deterministic sites are included, computed from all data, except those inside the subsampled plate.
        """
        rows = np.asarray(draws, self.dtype)
        named = self._constrained(rows.reshape(-1, self.size), self._data)
        return {
            name: np.asarray(named[name]).reshape(rows.shape[:-1] + named[name].shape[1:])
            for name in self._shown
            if name in named
        }

    def predictive(self, *args: Any, site: str | None = None, **kwargs: Any) -> Predictive:
        """The function θ ↦ what the model predicts for its observed site, which :meth:`stalegrad.Run.predict` averages.

        The model is called as ``numpyro.infer.Predictive`` calls it, with arguments of your own, in which what was
        observed is None; plates are not subsampled. What is taken from it is not a random value but the site's
        distribution: the probabilities (rows, K) where it has finitely many values, in their order, and the pair of
        mean and variance where it has not. For random values of any site use
        ``numpyro.infer.Predictive(model, potential.variables(draws), batch_ndims=2)``.

        Args:
            *args: of the model.
            site: the observed site; None if there is one.
            **kwargs: of the model.
        """
        name = self._site(site)
        args, kwargs = jax.tree.map(lambda leaf: jnp.asarray(leaf) if _is_array(leaf) else leaf, (args, kwargs))

        def predicted(theta: Any) -> Any:
            with _following:
                sites = self._latent(theta, self._data)
                followed = handlers.seed(handlers.substitute(self._model, data=sites), 0)
                with _WholePlates():
                    met = handlers.trace(followed).get_trace(*args, **kwargs)
            if name not in met:
                remedy = "Call it with arguments for which the model has this site."
                raise ArgumentError("site", name, f"is not met with these arguments, but {', '.join(met)}", remedy)
            if met[name]["is_observed"]:
                remedy = "Let the model take None for what was observed, and give None, or leave it out."
                raise ArgumentError(
                    "args", self._made_from[0], f"observe the site {name!r}, which is to be predicted", remedy
                )
            return _distribution(met[name]["fn"])

        one, many = jax.jit(predicted), jax.jit(jax.vmap(predicted))

        def over(theta: Array) -> Any:
            point = np.asarray(theta, self.dtype)
            return jax.tree.map(lambda leaf: np.asarray(leaf, np.float64), (one if point.ndim == 1 else many)(point))

        return over

    def log_likelihood(self, theta: Array, site: str | None = None) -> Array:
        """log p(d_i | θ) of each datum, in float64: of each entry of the subsampled plate, with all that it observes.

        In a model without such a plate, of each entry of the observed site.

        Args:
            theta: (n,).
            site: take this observed site alone; needed where no plate is subsampled and several sites are observed.
        """
        if site is None and self._plate is not None:
            outside = [name for name, each in self._observed.items() if not _inside(each, self._plate)]
            if outside:
                problem = f"is not given, and the plate {self._plate!r} does not hold all that is observed"
                raise ArgumentError("site", site, problem, f"Name one of: {', '.join(self._observed)}.")
            wanted = tuple(self._observed)
        else:
            wanted = (self._site(site),)
        if wanted not in self._likelihoods:
            self._likelihoods[wanted] = jax.jit(lambda point, data: self._of_each(point, data, wanted))
        point = np.asarray(theta, self.dtype)
        if point.shape != (self.size,):
            raise ArgumentError("theta", theta, f"has shape {point.shape}", f"Give a vector of {self.size} entries.")
        return np.asarray(self._likelihoods[wanted](point, self._data), np.float64)

    def _of_each(self, theta: Any, data: Any, wanted: Sequence[str]) -> Any:
        args, kwargs = self._filled(data)
        with _following:
            sites = self._latent(theta, data)
            followed = handlers.seed(handlers.substitute(self._model, data=sites), 0)
            with _WholePlates():
                met = handlers.trace(followed).get_trace(*args, **kwargs)
        terms = []
        for name in wanted:
            site = met[name]
            log_p = site["fn"].log_prob(site["value"])
            place = [frame.dim for frame in site["cond_indep_stack"] if frame.name == self._plate]
            if place:  # what the plate does not count belongs to one datum
                log_p = jnp.moveaxis(log_p, place[0], 0)
                log_p = log_p.reshape(log_p.shape[0], -1).sum(1)
            terms.append(log_p.reshape(-1))
        return sum(terms)

    def _site(self, site: str | None) -> str:
        if site is None and len(self._observed) == 1:
            return next(iter(self._observed))
        if site not in self._observed:
            problem = (
                "is not an observed site" if site is not None else f"is needed: {len(self._observed)} are observed"
            )
            raise ArgumentError("site", site, problem, f"Name one of: {', '.join(self._observed)}.")
        return site

    def __reduce__(self) -> tuple[Any, ...]:
        model, init_strategy = self._made_from
        return NumpyroPotential, (model, *self._filled({}), init_strategy, self.minibatches.scheme, self.dtype)

    def _potential(self, theta: Any, indices: Any, data: Any) -> Any:
        """−log p(θ) − (N/J) Σ_{i ∈ batch} log p(d_i | θ), with the log-Jacobians of the constraints in log p(θ)."""
        args, kwargs = self._filled(data)
        with _following, _Subsample(self._plate, indices):
            return potential_energy(self._model, args, kwargs, self.unravel(theta))

    def _latent(self, theta: Any, data: Any) -> Values:
        """The latent sites on their own scale. Deterministic ones, which depend on data, are left to the model."""
        args, kwargs = self._filled(data)
        with _following, _Subsample(self._plate, jnp.arange(self.n_data)):
            found: Values = constrain_fn(self._model, args, kwargs, self.unravel(theta))
        return found

    def _constrain(self, theta: Any, data: Any) -> Values:
        args, kwargs = self._filled(data)
        with _following, _Subsample(self._plate, jnp.arange(self.n_data)):
            sites = constrain_fn(self._model, args, kwargs, self.unravel(theta), return_deterministic=True)
        return {name: value for name, value in sites.items() if name in self._shown}

    def _filled(self, data: Mapping[int, Any]) -> Any:
        """The model's arguments, with ``data`` in their places."""
        leaves = [data.get(position, leaf) for position, leaf in enumerate(self._constants)]
        return jax.tree.unflatten(self._arguments, leaves)

    def _follow(self, model: Model, init_strategy: Any, data: Mapping[int, Any]) -> tuple[Values, Values, Sites]:
        """Run the model once: unconstrained starting values, the values that are not sampled, and what it has met."""
        sites: dict[str, Mapping[str, Any]] = {}

        def once(data: Mapping[int, Any]) -> tuple[Values, Values]:
            args, kwargs = self._filled(data)
            started = handlers.substitute(handlers.seed(model, 0), substitute_fn=init_strategy)
            sites.update(handlers.trace(started).get_trace(*args, **kwargs))
            start = {name: biject_to(site["fn"].support).inv(site["value"]) for name, site in _latent(sites).items()}
            # As for NUTS: the parameters of a neural network, say, that priors then replace, stay as they are.
            fixed = {name: site["value"] for name, site in sites.items() if site["type"] in ("param", "mutable")}
            return start, fixed

        with _following:
            start, fixed = jax.jit(once)(data)
        return start, fixed, sites


class _Subsample(Messenger):  # type: ignore[misc]
    """Makes a plate look at the data ``indices``, whatever subsample_size says."""

    def __init__(self, plate: str | None, indices: Any) -> None:
        super().__init__()
        self._plate, self._indices = plate, indices

    def process_message(self, msg: dict[str, Any]) -> None:
        """Called by NumPyro at every statement of the model."""
        if msg["type"] == "plate" and msg["name"] == self._plate:
            size, _ = msg["args"]
            msg["args"], msg["value"] = (size, len(self._indices)), self._indices


class _WholePlates(Messenger):  # type: ignore[misc]
    """Makes every plate look at all its data."""

    def process_message(self, msg: dict[str, Any]) -> None:
        """Called by NumPyro at every statement of the model."""
        if msg["type"] == "plate":
            size, _ = msg["args"]
            msg["args"], msg["value"] = (size, size), jnp.arange(size)


def _distribution(law: Any) -> Any:
    """Probabilities (rows, K) of a law of finitely many values, mean and variance of any other."""
    while isinstance(law, MaskedDistribution):  # which data were left out when fitting is no matter to predictions
        law = law.base_dist
    if law.has_enumerate_support and not law.event_shape:
        return jnp.moveaxis(jnp.exp(law.log_prob(law.enumerate_support(expand=False))), 0, -1)
    return law.mean, law.variance


def _latent(sites: Sites) -> Sites:
    """The sites to sample; refuses those that cannot be."""
    latent = {name: site for name, site in sites.items() if site["type"] == "sample" and not site["is_observed"]}
    if not latent:
        raise ArgumentError("model", list(sites), "has nothing to sample", "Give a model with latent sites.")
    plate, _, _ = _subsampled_plate(sites)
    for name, site in latent.items():
        if site["fn"].support.is_discrete:
            raise ArgumentError("model", name, "is a discrete latent site", "Sum it out.")
        if isinstance(site["fn"], Delta):
            raise ArgumentError("model", name, "is a point mass", "Use numpyro.deterministic for it.")
        if _inside(site, plate):
            problem = f"is a latent site inside the subsampled plate {plate!r}: each minibatch would have its own"
            raise ArgumentError("model", name, problem, "Integrate it out, or give the plate no subsample_size.")
    return latent


def _subsampled_plate(sites: Sites) -> tuple[str | None, int, int]:
    """Its name, N and J. A model without one has a single datum: all that it observes."""
    found = {name: site["args"] for name, site in sites.items() if site["type"] == "plate"}
    found = {name: sizes for name, sizes in found.items() if sizes[1] is not None and sizes[1] != sizes[0]}
    if len(found) > 1:
        problem = f"has {len(found)} subsampled plates: {', '.join(map(repr, found))}"
        remedy = "Subsample one plate: a gradient looks at one set of data."
        raise ArgumentError("model", found, problem, remedy)
    return next(((name, *sizes) for name, sizes in found.items()), (None, 1, 1))


def _inside(site: Mapping[str, Any], plate: str | None) -> bool:
    return any(frame.name == plate for frame in site.get("cond_indep_stack") or ())


def _is_array(leaf: Any) -> bool:
    return isinstance(leaf, jax.Array) or (isinstance(leaf, np.ndarray) and leaf.dtype.kind in "biufc")
