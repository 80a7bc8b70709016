"""Push: what a server does with the change of θ that a worker has made itself. No sampler of its own."""

from dataclasses import dataclass
from typing import Any, NamedTuple

from stalegrad.jit import compiled
from stalegrad.kernels.base import Address, Kernel, Split, whole
from stalegrad.types import Array


def formula(theta: Any, change: Any) -> Any:
    """θ ← θ + Δ."""
    return theta + change


@compiled
def _fused(theta, change, start, stop):  # type: ignore[no-untyped-def]
    for r in range(theta.shape[0]):
        t, d = theta[r, start:stop], change[r, start:stop]
        for i in range(t.shape[0]):
            t[i] += d[i]


class State(NamedTuple):
    """θ alone."""

    position: Any


@dataclass(frozen=True, kw_only=True)
class Push(Kernel):
    """θ ← θ + Δ, where Δ is what a worker sends in place of a gradient: its steps of a sampler, noise included.

    Args:
        step_size: of the worker's sampler; it is noted in the trace and changes nothing here.
        temperature: of the worker's sampler, likewise.
    """

    def start(self, position: Array, address: Address) -> State:
        """θ."""
        return State(position)

    def coefficients(self, h: float, h_next: float) -> tuple[float, ...]:
        """There are none."""
        return ()

    def step(self, state: State, gradient: Any, noise: Any, h: float, h_next: float | None = None) -> State:
        """One update of whole arrays; ``gradient`` is Δ."""
        return State(formula(state.position, gradient))

    def advance(
        self, state: State, gradient: Array, coefficients: Array, address: Address, split: Split = whole
    ) -> None:
        """One update in place; ``gradient`` is Δ."""
        theta = state.position
        split(lambda start, stop: _fused(theta, gradient, start, stop), theta.shape[1])
