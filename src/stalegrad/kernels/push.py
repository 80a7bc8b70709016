"""Push: what a server does with the change of θ that a worker has made itself. No sampler of its own."""

from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

from stalegrad._internal.types import Array
from stalegrad.kernels.base import Address, Kernel
from stalegrad.kernels.fused import Update


def formula(theta: Any, change: Any) -> Any:
    """θ ← θ + Δ, where the change Δ stands in the gradient's place."""
    return theta + change


class State(NamedTuple):
    """θ alone: a worker keeps whatever else its sampler needs."""

    position: Any


@dataclass(frozen=True, kw_only=True)
class Push(Kernel):
    """θ ← θ + Δ, where Δ is what a worker sends in place of a gradient: its steps of a sampler, noise included.

    Args:
        step_size: of the worker's sampler; it is noted in the trace and changes nothing here.
        temperature: of the worker's sampler, likewise.
    """

    n_normals: ClassVar[int] = 0
    updates = Update(State, formula)

    def start(self, position: Array, address: Address) -> State:
        """The state with θ at ``position``; nothing random is drawn."""
        return State(position)

    def coefficients(self, h: float, h_next: float) -> tuple[float, ...]:
        """None at all: the worker's Δ contains its step size."""
        return ()
