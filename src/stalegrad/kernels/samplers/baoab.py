"""BAOAB: the kinetic Langevin splitting with the most accurate positions (Leimkuhler and Matthews, AMRX 2013)."""

from dataclasses import dataclass
from math import exp, expm1, sqrt
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np

from stalegrad._internal.types import Array
from stalegrad.kernels.base import Address, initial_momentum
from stalegrad.kernels.families import Kinetic
from stalegrad.kernels.fused import Update
from stalegrad.theory import Direction, LinearRecursion, Staleness, stale_baoab


def formula(theta: Any, q: Any, last: Any, g: Any, z: Any, half: Any, keep: Any, sigma: Any) -> Any:
    """B of the step before and B of this one, at the same θ; then A, O, A.

    q ← q − (h₋/2 + h/2) g; θ ← θ + (h/2) q; q ← e^{−Bh} q + σ ζ; θ ← θ + (h/2) q, where last = h₋/2, half = h/2,
    keep = e^{−Bh} and σ = √(T(1 − e^{−2Bh})).
    """
    q = q - (last + half) * g
    theta = theta + half * q
    q = keep * q + sigma * z
    return theta + half * q, q


def settle(last: Any, mean_square: Any, c: Any) -> Any:
    """Half of this step is due at the next update."""
    return c[0]


class State(NamedTuple):
    """What a BAOAB chain carries: θ, q before the kick that ends the step, and half the step so far, (R, 1)."""

    position: Any
    momentum: Any
    last: Any


@dataclass(frozen=True, kw_only=True)
class BAOAB(Kinetic):
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

    order: ClassVar[int] = 2
    updates = Update(State, formula, row="last", settle=settle)

    @classmethod
    def examples(cls) -> tuple[Self, ...]:
        """One, as it has a single form."""
        return (cls(step_size=0.02, friction=5.0),)

    def start(self, position: Array, address: Address) -> State:
        """θ and q ~ N(0, T I); there is no step before, whose kick would be due."""
        last = np.zeros((position.shape[0], 1), position.dtype)
        return State(position, initial_momentum(position, self.temperature, address), last)

    def coefficients(self, h: float, h_next: float) -> tuple[float, ...]:
        """h/2, the kept share e^(−Bh) of the momentum, σ."""
        return h / 2, exp(-self.damping * h), sqrt(-expm1(-2 * self.damping * h) * self.temperature)

    def recursion(self, h: float, staleness: Staleness, direction: Direction) -> LinearRecursion:
        """The exact law of BAOAB, whatever h is."""
        return self.along(direction, stale_baoab, h, staleness)
