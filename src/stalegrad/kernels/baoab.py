"""BAOAB: the kinetic Langevin splitting with the most accurate positions (Leimkuhler and Matthews, AMRX 2013)."""

from dataclasses import dataclass
from math import exp, expm1, sqrt
from typing import Any, ClassVar, NamedTuple

import numpy as np

from stalegrad.checks import real_number
from stalegrad.jit import compiled, inlined
from stalegrad.kernels.base import Address, Kernel, Split, initial_momentum, updates_with, whole
from stalegrad.noise import TILE, Stream, fill_tile, scratch
from stalegrad.types import Array


def formula(theta: Any, q: Any, last: Any, g: Any, z: Any, half: Any, keep: Any, sigma: Any) -> Any:
    """B of the step before and B of this one, at the same θ; then A, O, A.

    q ← q − (h₋/2 + h/2) g; θ ← θ + (h/2) q; q ← e^{−Bh} q + σ ζ; θ ← θ + (h/2) q, where last = h₋/2, half = h/2,
    keep = e^{−Bh} and σ = √(T(1 − e^{−2Bh})).
    """
    q = q - (last + half) * g
    theta = theta + half * q
    q = keep * q + sigma * z
    return theta + half * q, q


_formula = inlined(formula)


@compiled
def _fused(theta, q, last, g, c, seed, chain, first_repeat, update, start, stop):  # type: ignore[no-untyped-def]
    z, words = scratch(theta)
    half, keep, sigma = c[0], c[1], c[2]
    for r in range(theta.shape[0]):
        before = last[r, 0]
        for low in range(start, stop, TILE):
            n = min(TILE, stop - low)
            fill_tile(z, words, seed, Stream.UPDATE, chain, first_repeat + r, update, low // TILE, n)
            t, p, d = theta[r, low : low + n], q[r, low : low + n], g[r, low : low + n]
            for i in range(n):
                t[i], p[i] = _formula(t[i], p[i], before, d[i], z[i], half, keep, sigma)


class State(NamedTuple):
    """What a BAOAB chain carries: θ, q before the kick that ends the step, and half the step so far, (R, 1)."""

    position: Any
    momentum: Any
    last: Any


@updates_with(State)
def _update(state: Any) -> Any:
    def update(state, gradient, coefficients, seed, chain, first_repeat, number):  # type: ignore[no-untyped-def]
        theta, q, last = state.position, state.momentum, state.last
        _fused(theta, q, last, gradient, coefficients, seed, chain, first_repeat, number, 0, theta.shape[1])
        last[:, 0] = coefficients[0]

    return update


@dataclass(frozen=True, kw_only=True)
class BAOAB(Kernel):
    r"""Underdamped Langevin dynamics with friction B, split into kick (B), drift (A) and friction with noise (O).

    A step is B(h/2) A(h/2) O(h) A(h/2) B(h/2), order K = 2:

    .. math::
        q ← q − \tfrac h2 g;\quad θ ← θ + \tfrac h2 q;\quad q ← e^{−Bh} q + \sqrt{T(1−e^{−2Bh})}\,ζ;\quad
        θ ← θ + \tfrac h2 q;\quad q ← q − \tfrac h2 g

    The last kick of a step and the first of the next are at the same θ and take the same gradient, so an update begins
    with both: one gradient an update, wanted at the position. Positions are BAOAB's own. The momentum in the state is
    the one before the last kick.

    Invariant law as h → 0: p(θ|D)^(1/T) · N(q; 0, T I). On a Gaussian with fresh and exact gradients the law of θ is
    exact at every stable h (h√λ < 2), and so is the temperature of the momentum in the state; in the limit of strong
    friction the error of θ is of fourth order on any target. Stale or noisy gradients cost it an error of order h, as
    they do SGHMC.

    Args:
        step_size: h, a number or a schedule.
        friction: B.
        temperature: T, 1 for the posterior.

    >>> BAOAB(step_size=1e-2, friction=5.0).order
    2
    """

    friction: float

    order: ClassVar[int] = 2

    def __post_init__(self) -> None:
        super().__post_init__()
        real_number("friction", self.friction, above=0)

    def start(self, position: Array, address: Address) -> State:
        """θ and q ~ N(0, T I); there is no step before, whose kick would be due."""
        last = np.zeros((position.shape[0], 1), position.dtype)
        return State(position, initial_momentum(position, self.temperature, address), last)

    def coefficients(self, h: float, h_next: float) -> tuple[float, ...]:
        """h/2, keep, σ."""
        return h / 2, exp(-self.friction * h), sqrt(-expm1(-2 * self.friction * h) * self.temperature)

    def step(self, state: State, gradient: Any, noise: Any, h: float, h_next: float | None = None) -> State:
        """One update of whole arrays."""
        theta, q, last = state
        half, keep, sigma = self.coefficients(h, h)
        theta, q = formula(theta, q, last, gradient, noise, half, keep, sigma)
        return State(theta, q, 0 * last + half)

    def advance(
        self, state: State, gradient: Array, coefficients: Array, address: Address, split: Split = whole
    ) -> None:
        """One fused update in place."""
        theta, q, last = state
        seed, chain, update, repeat = address
        split(
            lambda start, stop: _fused(
                theta, q, last, gradient, coefficients, seed, chain, repeat, update, start, stop
            ),
            theta.shape[1],
        )  # fmt: skip
        last[...] = coefficients[0]
