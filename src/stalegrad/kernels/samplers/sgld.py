"""SGLD: stochastic gradient Langevin dynamics (Welling and Teh, ICML 2011)."""

from dataclasses import dataclass
from math import sqrt
from typing import Any, ClassVar, NamedTuple, Self

from stalegrad._internal.types import Array
from stalegrad.kernels.base import Address
from stalegrad.kernels.families import Overdamped
from stalegrad.kernels.fused import Update


def formula(theta: Any, g: Any, z: Any, h: Any, sigma: Any) -> Any:
    """θ ← θ − h g + σ ζ with σ = √(2hT)."""
    return theta - h * g + sigma * z


class State(NamedTuple):
    """What an SGLD chain carries."""

    position: Any


@dataclass(frozen=True, kw_only=True)
class SGLD(Overdamped):
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
    updates = Update(State, formula)

    @classmethod
    def examples(cls) -> tuple[Self, ...]:
        """One, as it has a single form."""
        return (cls(step_size=0.002),)

    def start(self, position: Array, address: Address) -> State:
        """θ alone: there are no auxiliary variables."""
        return State(position)

    def coefficients(self, h: float, h_next: float) -> tuple[float, ...]:
        """h and σ = √(2hT), the noise's standard deviation."""
        return h, sqrt(2 * h * self.temperature)
