"""SGLD: stochastic gradient Langevin dynamics (Welling and Teh, ICML 2011)."""

from dataclasses import dataclass
from math import sqrt
from typing import Any, ClassVar, NamedTuple

from stalegrad.jit import compiled, inlined
from stalegrad.kernels.base import Address, Kernel, Split, updates_with, whole
from stalegrad.noise import TILE, Stream, fill_tile, scratch
from stalegrad.types import Array


def formula(theta: Any, g: Any, z: Any, h: Any, sigma: Any) -> Any:
    """θ ← θ − h g + σ ζ with σ = √(2hT)."""
    return theta - h * g + sigma * z


_formula = inlined(formula)


@compiled
def _fused(theta, g, c, seed, chain, first_repeat, update, start, stop):  # type: ignore[no-untyped-def]
    z, words = scratch(theta)
    h, sigma = c[0], c[1]
    for r in range(theta.shape[0]):
        for low in range(start, stop, TILE):
            n = min(TILE, stop - low)
            if sigma != 0:
                fill_tile(z, words, seed, Stream.UPDATE, chain, first_repeat + r, update, low // TILE, n)
            t, d = theta[r, low : low + n], g[r, low : low + n]
            for i in range(n):
                t[i] = _formula(t[i], d[i], z[i], h, sigma)


class State(NamedTuple):
    """What an SGLD chain carries."""

    position: Any


@updates_with(State)
def _update(state: Any) -> Any:
    def update(state, gradient, coefficients, seed, chain, first_repeat, number):  # type: ignore[no-untyped-def]
        theta = state.position
        _fused(theta, gradient, coefficients, seed, chain, first_repeat, number, 0, theta.shape[1])

    return update


@dataclass(frozen=True, kw_only=True)
class SGLD(Kernel):
    r"""Overdamped Langevin dynamics, Euler scheme, order K = 1.

    .. math:: θ ← θ − h\,g + \sqrt{2hT}\,ζ

    Invariant law as h → 0: p(θ|D)^(1/T).

    Args:
        step_size: h, a number or a schedule.
        temperature: T, 1 for the posterior.

    >>> SGLD(step_size=1e-3).order
    1
    """

    noise_coefficient: ClassVar[int | None] = 1

    def start(self, position: Array, address: Address) -> State:
        """θ alone."""
        return State(position)

    def coefficients(self, h: float, h_next: float) -> tuple[float, ...]:
        """h, σ."""
        return h, sqrt(2 * h * self.temperature)

    def step(self, state: State, gradient: Any, noise: Any, h: float, h_next: float | None = None) -> State:
        """One update of whole arrays."""
        return State(formula(state.position, gradient, noise, *self.coefficients(h, h)))

    def advance(
        self, state: State, gradient: Array, coefficients: Array, address: Address, split: Split = whole
    ) -> None:
        """One fused update in place."""
        theta = state.position
        seed, chain, update, first_repeat = address
        split(
            lambda start, stop: _fused(theta, gradient, coefficients, seed, chain, first_repeat, update, start, stop),
            theta.shape[1],
        )
