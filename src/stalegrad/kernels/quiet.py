"""Quiet: a sampler's update without its noise, for servers whose workers have made the noise."""

from dataclasses import dataclass
from typing import Any, Self

from stalegrad._internal.errors import ArgumentError
from stalegrad._internal.types import Array
from stalegrad.kernels.base import Address, Kernel, State
from stalegrad.kernels.fused import Split, whole


@dataclass(frozen=True, kw_only=True)
class Quiet(Kernel):
    """Another kernel with σ = 0 in its formula. Its auxiliary variables start as ever.

    Args:
        step_size: of the kernel.
        temperature: of the kernel.
        kernel: whose noise is made elsewhere.
    """

    kernel: Kernel

    @classmethod
    def of(cls, kernel: Kernel) -> Self:
        """The kernel without noise, if its noise enters beside the gradient."""
        if kernel.noise_coefficient is None:
            raise ArgumentError(
                "kernel", kernel, "scales its noise by what it has learnt: workers cannot make it",
                "Use SGLD, SGHMC or SGNHT, or leave the noise to the server.",
            )  # fmt: skip
        return cls(step_size=kernel.step_size, temperature=kernel.temperature, kernel=kernel)

    def start(self, position: Array, address: Address) -> State:
        """The start of the wrapped kernel, its random momentum included."""
        return self.kernel.start(position, address)

    def point(self, state: State) -> Array:
        """The point at which the wrapped kernel wants its gradient."""
        return self.kernel.point(state)

    def momentum(self, state: State) -> Array | None:
        """q of the wrapped kernel, or None if it has none."""
        return self.kernel.momentum(state)

    def coefficients(self, h: float, h_next: float) -> tuple[float, ...]:
        """The kernel's, with 0 for σ."""
        values = self.kernel.coefficients(h, h_next)
        return tuple(0.0 if k == self.kernel.noise_coefficient else value for k, value in enumerate(values))

    def step(self, state: State, gradient: Any, noise: Any, h: float, h_next: float | None = None) -> State:
        """One update of whole arrays, whatever ``noise`` is."""
        return self.kernel.step(state, gradient, 0 * noise, h, h_next)

    def advance(
        self, state: State, gradient: Array, coefficients: Array, address: Address, split: Split = whole
    ) -> None:
        """One fused update in place."""
        self.kernel.advance(state, gradient, coefficients, address, split)
