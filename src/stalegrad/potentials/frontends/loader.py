"""A potential that is not sent to other processes: each makes it for itself, and so loads its own data."""

from collections.abc import Callable
from typing import Any

from stalegrad._internal.errors import ArgumentError
from stalegrad._internal.types import Array, IntArray
from stalegrad.potentials.base import Potential
from stalegrad.potentials.prediction import Predictive
from stalegrad.potentials.wrappers.natural import NaturalPotential


def from_loader(load: Callable[..., Potential], *arguments: Any) -> Potential:
    """The potential ``load(*arguments)``; what goes to workers elsewhere is the function and its arguments.

    Every worker process calls it when it starts, on its own machine. Let it read a file that is there, or a data set of
    :mod:`stalegrad.datasets`, which keeps a copy on each machine. It must give the same model everywhere, or the run
    cannot be replayed.

    Args:
        load: makes the model. It must not hold the data itself: a function of a module, or one that is defined where
            the data are not. Wrappers such as :func:`svrg` go around what this function gives, not inside.
        arguments: given to it; small ones.

    >>> import pickle
    >>> import numpy as np
    >>> from stalegrad.potentials import GaussianMean
    >>> model = from_loader(GaussianMean, [[1.0], [3.0]])
    >>> again = pickle.loads(pickle.dumps(model))  # this loads it a second time
    >>> again.full_gradient(np.zeros(1, again.dtype)), again.n_data
    (array([-4.], dtype=float32), 2)
    """
    return _FromLoader(load, arguments)


class _FromLoader(Potential):
    """Does whatever the loaded model does."""

    def __init__(self, load: Callable[..., Potential], arguments: tuple[Any, ...]) -> None:
        potential = load(*arguments)
        if not isinstance(potential, Potential):
            remedy = "Let it return one of sg.potentials, such as Logistic."
            raise ArgumentError("load", load, f"gave a {type(potential).__name__}, not a Potential", remedy)
        if potential.addressed or isinstance(potential, NaturalPotential):
            problem = f"gave a {type(potential).__name__}, whose gradients are not plain ones of U"
            remedy = "Let it return the model inside, and wrap what from_loader gives: sg.potentials.svrg(model)."
            raise ArgumentError("load", load, problem, remedy)
        super().__init__(potential.size, potential.minibatches, potential.dtype)
        self._recipe, self._potential = (load, arguments), potential
        self.fork_safe = potential.fork_safe

    def __reduce__(self) -> tuple[Any, ...]:
        return _FromLoader, self._recipe

    def __getattr__(self, name: str) -> Any:
        return getattr(self._potential, name)

    def gradient(self, theta: Array, indices: IntArray) -> Array:
        """Of the loaded model."""
        return self._potential.gradient(theta, indices)

    def gradients(self, theta: Array, indices: IntArray, out: Array) -> None:
        """Of the loaded model."""
        self._potential.gradients(theta, indices, out)

    def full_gradient(self, theta: Array) -> Array:
        """Of the loaded model."""
        return self._potential.full_gradient(theta)

    @property
    def layout(self) -> dict[str, tuple[int, ...]]:
        """Of the loaded model."""
        return self._potential.layout

    def variables(self, draws: Array) -> dict[str, Array]:
        """Of the loaded model."""
        return self._potential.variables(draws)

    @property
    def is_network(self) -> bool:
        """Of the loaded model."""
        return self._potential.is_network

    def predictions(self, rows: int) -> Callable[[Array], Array] | None:
        """Of the loaded model."""
        return self._potential.predictions(rows)

    def predictive(self, *args: Any, **kwargs: Any) -> Predictive:
        """Of the loaded model."""
        return self._potential.predictive(*args, **kwargs)

    def log_likelihood(self, theta: Array, *args: Any, **kwargs: Any) -> Array:
        """Of the loaded model."""
        return self._potential.log_likelihood(theta, *args, **kwargs)

    def minibatch_loss(self, theta: Array, indices: IntArray) -> float | None:
        """Of the loaded model."""
        return self._potential.minibatch_loss(theta, indices)

    def initial(self) -> Array:
        """Of the loaded model."""
        return self._potential.initial()
