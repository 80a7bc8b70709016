"""Harmonic: the quadratic part of the potential followed exactly, kicks for the rest."""

from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np

from stalegrad._internal.types import Array
from stalegrad._internal.validation import real_number
from stalegrad.kernels.base import Address, initial_momentum
from stalegrad.kernels.families import Kinetic
from stalegrad.kernels.fused import Update
from stalegrad.theory import Direction, LinearRecursion, Staleness, stale_harmonic
from stalegrad.theory.harmonic_motion import harmonic_coefficients


def formula(
    theta: Any, q: Any, last: Any, g: Any, z: Any, y: Any, half: Any, a: Any,
    stay: Any, drift: Any, pull: Any, keep: Any, along: Any, shared: Any, across: Any,
) -> Any:  # fmt: skip
    """The kick of the step before and that of this one, at the same θ; then the motion in the well over h.

    q ← q − (h₋/2 + h/2)(g − aθ); (θ, q) ← e^{Mh} (θ, q) + noise, where last = h₋/2 and half = h/2; see
    :func:`harmonic_coefficients` for the others.
    """
    q = q - (last + half) * (g - a * theta)
    return stay * theta + drift * q + along * z, pull * theta + keep * q + shared * z + across * y


def settle(last: Any, mean_square: Any, c: Any) -> Any:
    """Half of this step is due at the next update."""
    return c[0]


class State(NamedTuple):
    """What the chain carries: θ, q before the kick that ends the step, and half the step so far, (R, 1)."""

    position: Any
    momentum: Any
    last: Any


@dataclass(frozen=True, kw_only=True)
class Harmonic(Kinetic):
    r"""Underdamped Langevin dynamics with friction B, whose only error is in the part of U that is not :math:`aθ²/2`.

    A step is K(h/2) F(h) K(h/2), order 2, where F is the exact solution of the motion in the harmonic well

    .. math:: dθ = q\,dt,\quad dq = −aθ\,dt − B\,q\,dt + \sqrt{2BT}\,dW

    and K the kick of the rest of the force, :math:`q ← q − \tfrac h2 (g − aθ)`. The last kick of a step and the first
    of the next take the same gradient, at the position, so an update begins with both.

    Invariant law as h → 0: p(θ|D)^(1/T) · N(q; 0, T I). On a Gaussian around 0 with curvature a the kicks vanish and
    the law is exact at **every** h. With ``architecture=sg.StaleGradients(linear=a)`` that holds for stale gradients as
    well, at every τ. So it is the sampler for coordinates in which the posterior's mode is 0 and its curvatures are
    about a = 1, such as those of ``Whitened``: how long a step may be then depends on how far the posterior is from a
    Gaussian, and on the noise of its gradients, and on nothing else.

    Args:
        step_size: h, a number or a schedule.
        friction: B.
        curvature: a > 0.
        temperature: T, 1 for the posterior.

    >>> Harmonic(step_size=0.5, friction=2.0).order
    2
    """

    curvature: float = 1.0

    order: ClassVar[int] = 2
    n_normals: ClassVar[int] = 2
    updates = Update(State, formula, row="last", settle=settle)

    def __post_init__(self) -> None:
        super().__post_init__()
        real_number("curvature", self.curvature, above=0)

    @classmethod
    def examples(cls) -> tuple[Self, ...]:
        """One, whose well is part of the posterior's."""
        return (cls(step_size=0.02, friction=5.0, curvature=2.0),)

    def start(self, position: Array, address: Address) -> State:
        """θ and q ~ N(0, T I); there is no step before, whose kick would be due."""
        last = np.zeros((position.shape[0], 1), position.dtype)
        return State(position, initial_momentum(position, self.temperature, address), last)

    def coefficients(self, h: float, h_next: float) -> tuple[float, ...]:
        """h/2, a, and those of the motion in the well over h."""
        return h / 2, self.curvature, *harmonic_coefficients(self.curvature, self.damping, h, self.temperature)

    def recursion(self, h: float, staleness: Staleness, direction: Direction) -> LinearRecursion:
        """The exact law, whatever h is."""
        return self.along(direction, stale_harmonic, h, staleness, well=self.curvature)

    def drift_ahead(self, h: float, updates: float, owned: float = 0.0) -> float:
        """How far the momentum carries θ in the well over the time τh."""
        return harmonic_coefficients(self.curvature, self.damping, max(updates, 1e-9) * h, self.temperature)[1]
