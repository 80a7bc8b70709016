"""What models share that are another model with other gradients."""

from stalegrad.potentials.base import Potential
from stalegrad.potentials.minibatches import Minibatches
from stalegrad.types import Array


class Wrapper(Potential):
    """The same posterior and the same parameters as another model; how gradients are estimated is the subclass's.

    Args:
        potential: the model.
        minibatches: which data gradients look at; None for the model's own.
    """

    def __init__(self, potential: Potential, minibatches: Minibatches | None = None) -> None:
        super().__init__(potential.size, minibatches or potential.minibatches, potential.dtype)
        self.potential = potential
        self.fork_safe = potential.fork_safe

    def full_gradient(self, theta: Array) -> Array:
        """∇U on all data."""
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
