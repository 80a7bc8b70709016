"""A model within another: what every wrapper passes on unchanged."""

from collections.abc import Callable
from typing import Any

from stalegrad._internal.types import Array, IntArray
from stalegrad.potentials.base import Potential
from stalegrad.potentials.minibatches.scheme import Minibatches
from stalegrad.potentials.prediction import Predictive


class Wrapper(Potential):
    """The same posterior and the same parameters as another model. Subclasses change what they are there for.

    Args:
        potential: the model.
        minibatches: which data gradients look at; None for the model's own.

    >>> import numpy as np
    >>> import stalegrad as sg
    >>> class Clipped(Wrapper):
    ...     def gradient(self, theta, indices):
    ...         return np.clip(self.potential.gradient(theta, indices), -1, 1)
    >>> model = Clipped(sg.testing.small_model())
    >>> float(np.abs(model.gradient(np.full(5, 100.0), np.arange(4))).max())
    1.0
    >>> run = sg.sample(model, sg.SGLD(step_size=1e-3), steps=10, engine="inline", progress=False)
    >>> run.draws.shape
    (1, 10, 5)
    """

    def __init__(self, potential: Potential, minibatches: Minibatches | None = None) -> None:
        super().__init__(potential.size, minibatches or potential.minibatches, potential.dtype)
        self.potential = potential
        self.fork_safe = potential.fork_safe

    def gradient(self, theta: Array, indices: IntArray) -> Array:
        """g̃ of the model within, unchanged."""
        return self.potential.gradient(theta, indices)

    def gradients(self, theta: Array, indices: IntArray, out: Array) -> None:
        """The model's g̃ for R repetitions at once; those of a subclass that has a ``gradient`` of its own."""
        if type(self).gradient is Wrapper.gradient:
            self.potential.gradients(theta, indices, out)
        else:
            super().gradients(theta, indices, out)

    def full_gradient(self, theta: Array) -> Array:
        """∇U of the model within, unchanged."""
        return self.potential.full_gradient(theta)

    @property
    def layout(self) -> dict[str, tuple[int, ...]]:
        """Names and shapes of the parameters of the model within."""
        return self.potential.layout

    def variables(self, draws: Array) -> dict[str, Array]:
        """Named variables as the model within has them."""
        return self.potential.variables(draws)

    @property
    def is_network(self) -> bool:
        """Whether the model within is one."""
        return self.potential.is_network

    def predictions(self, rows: int) -> Callable[[Array], Array] | None:
        """What the model within predicts for its own data."""
        return self.potential.predictions(rows)

    def predictive(self, *args: Any, **kwargs: Any) -> Predictive:
        """What the model within predicts."""
        return self.potential.predictive(*args, **kwargs)

    def log_likelihood(self, theta: Array) -> Array:
        """Of the data of the model within."""
        return self.potential.log_likelihood(theta)

    def minibatch_loss(self, theta: Array, indices: IntArray) -> float | None:
        """That of the model within."""
        return self.potential.minibatch_loss(theta, indices)

    def initial(self) -> Array:
        """Where chains of the model within start."""
        return self.potential.initial()
