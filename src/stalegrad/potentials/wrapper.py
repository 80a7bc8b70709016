"""A model within another: what every wrapper passes on unchanged."""

from stalegrad.potentials.base import Potential
from stalegrad.potentials.minibatches import Minibatches
from stalegrad.types import Array, IntArray


class Wrapper(Potential):
    """The same posterior and the same parameters as another model. Subclasses change what they are there for.

    Args:
        potential: the model.
        minibatches: which data gradients look at; None for the model's own.
    """

    def __init__(self, potential: Potential, minibatches: Minibatches | None = None) -> None:
        super().__init__(potential.size, minibatches or potential.minibatches, potential.dtype)
        self.potential = potential
        self.fork_safe = potential.fork_safe

    def gradient(self, theta: Array, indices: IntArray) -> Array:
        """The model's g̃."""
        return self.potential.gradient(theta, indices)

    def gradients(self, theta: Array, indices: IntArray, out: Array) -> None:
        """The model's g̃ for R repetitions at once."""
        self.potential.gradients(theta, indices, out)

    def full_gradient(self, theta: Array) -> Array:
        """The model's ∇U."""
        return self.potential.full_gradient(theta)

    @property
    def layout(self) -> dict[str, tuple[int, ...]]:
        """The model's."""
        return self.potential.layout

    def variables(self, draws: Array) -> dict[str, Array]:
        """The model's."""
        return self.potential.variables(draws)

    def initial(self) -> Array:
        """The model's."""
        return self.potential.initial()
