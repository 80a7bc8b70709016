"""SGNHT: the stochastic gradient Nosé-Hoover thermostat (Ding et al., NeurIPS 2014)."""

from dataclasses import dataclass
from math import sqrt
from typing import Any, ClassVar, Literal, NamedTuple, Self

import numpy as np

from stalegrad._internal.elementary import exp
from stalegrad._internal.jit import jitable
from stalegrad._internal.types import Array
from stalegrad._internal.validation import one_of, real_number
from stalegrad.kernels.base import Address, Kernel, half_step_ahead, initial_momentum
from stalegrad.kernels.families import momentum_drift
from stalegrad.kernels.fused import Update
from stalegrad.theory import Direction, LinearRecursion, Staleness, stale_sgnht


@jitable
def euler(theta: Any, q: Any, xi: Any, g: Any, z: Any, h: Any, sigma: Any, temperature: Any) -> Any:
    """q ← q − ξ q h − h g + σ ζ; θ ← θ + h q, with σ = √(2AhT)."""
    q = q - xi * q * h - h * g + sigma * z
    return theta + h * q, q


@jitable
def splitting(
    _: Any, q: Any, xi: Any, point: Any, g: Any, z: Any, h: Any, sigma: Any, temperature: Any, half: Any, ahead: Any
) -> Any:
    """q ← e^{−ξh/2} q; q ← q − h g + σ ζ; q ← e^{−ξh/2} q; θ ← point + (h/2) q; point ← θ + (h'/2) q."""
    keep = exp(-xi * half)
    q = keep * (keep * q - h * g + sigma * z)
    theta = point + half * q
    return theta, q, theta + ahead * q


@jitable
def settle(xi: Any, energy: Any, c: Any) -> Any:
    """ξ ← ξ + h (energy − T), energy being qᵀq/n, or q² of each coordinate."""
    return xi + c[0] * (energy - c[2])


def euler_each(theta: Any, q: Any, xi: Any, g: Any, z: Any, h: Any, sigma: Any, temperature: Any) -> Any:
    """Euler's step and the thermostat of the coordinate."""
    theta, q = euler(theta, q, xi, g, z, h, sigma, temperature)
    return theta, q, settle(xi, q * q, (h, sigma, temperature))


def splitting_each(
    _: Any, q: Any, xi: Any, point: Any, g: Any, z: Any, h: Any, sigma: Any, temperature: Any, half: Any, ahead: Any
) -> Any:
    """The splitting's step and the thermostat of the coordinate."""
    theta, q, point = splitting(_, q, xi, point, g, z, h, sigma, temperature, half, ahead)
    return theta, q, settle(xi, q * q, (h, sigma, temperature)), point


class Euler(NamedTuple):
    """What an SGNHT chain carries: θ, q, and one ξ a repetition."""

    position: Any
    momentum: Any
    thermostat: Any


class Splitting(NamedTuple):
    """What it carries for the splitting: also the point at which the next gradient is wanted."""

    position: Any
    momentum: Any
    thermostat: Any
    point: Any


class EulerEach(Euler):
    """With one ξ a coordinate."""


class SplittingEach(Splitting):
    """With one ξ a coordinate."""


@dataclass(frozen=True, kw_only=True)
class SGNHT(Kernel):
    r"""Langevin dynamics whose friction ξ adapts, so that gradient noise of unknown size is absorbed.

    ``integrator="euler"`` (order K = 1):

    .. math:: q ← q − ξqh − h\,g + \sqrt{2AhT}\,ζ,\quad θ ← θ + hq,\quad ξ ← ξ + h\,(q^\top q/n − T)

    ``integrator="splitting"`` (order K = 2; Chen, Ding and Carin 2015) puts the gradient at the half-step point:

    .. math::
        θ ← θ + \tfrac h2 q;\quad q ← e^{−ξh/2}q;\quad q ← q − h\,g + \sqrt{2AhT}\,ζ;\quad q ← e^{−ξh/2}q;\quad
        θ ← θ + \tfrac h2 q;\quad ξ ← ξ + h\,(q^\top q/n − T)

    Between two updates q does not move, so the two half-steps of ξ that a symmetric scheme has there are the one full
    step written here. ``thermostats="each"`` keeps one ξ per coordinate, ξ_i ← ξ_i + h (q_i² − T).

    Invariant law as h → 0: p(θ|D)^(1/T) · N(q; 0, T I) · N(ξ; A + V/2, T/n), V the variance rate of the gradient
    noise (T instead of T/n with one ξ per coordinate).

    Args:
        step_size: h, a number or a schedule.
        noise: A, the injected noise and the value that ξ starts from.
        thermostats: ``"shared"`` for one ξ, ``"each"`` for one per coordinate.
        integrator: ``"euler"`` or ``"splitting"``.
        temperature: T, 1 for the posterior.

    >>> SGNHT(step_size=1e-2, noise=1.0).thermostats
    'shared'
    """

    noise: float = 1.0
    thermostats: Literal["shared", "each"] = "shared"
    integrator: Literal["euler", "splitting"] = "euler"

    inertial: ClassVar[bool | None] = True
    noise_coefficient: ClassVar[int | None] = 1
    remembers: ClassVar[bool] = True
    theory_error: ClassVar[float] = 0.03
    updates = (
        Update(Euler, euler, row="thermostat", settle=settle, squared="momentum"),
        Update(Splitting, splitting, row="thermostat", settle=settle, squared="momentum"),
        Update(EulerEach, euler_each),
        Update(SplittingEach, splitting_each),
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        real_number("noise", self.noise, least=0)
        one_of("thermostats", self.thermostats, ("shared", "each"))
        one_of("integrator", self.integrator, ("euler", "splitting"))

    @property
    def order(self) -> int:  # type: ignore[override]
        """K, 1 for Euler and 2 for the splitting."""
        return 1 if self.integrator == "euler" else 2

    @property
    def thermostat(self) -> Literal["shared", "each"]:
        """The setting ``thermostats``: one ξ for all coordinates, or one for each."""
        return self.thermostats

    @classmethod
    def examples(cls) -> tuple[Self, ...]:
        """Both kinds of thermostats with both integrators."""
        kinds: tuple[Literal["shared", "each"], ...] = ("shared", "each")
        schemes: tuple[Literal["euler", "splitting"], ...] = ("euler", "splitting")
        return tuple(
            cls(step_size=0.02, noise=2.0, thermostats=kind, integrator=scheme) for kind in kinds for scheme in schemes
        )

    def start(self, position: Array, address: Address) -> Euler | Splitting:
        """θ, q ~ N(0, T I) and ξ = A."""
        momentum = initial_momentum(position, self.temperature, address)
        each = self.thermostats == "each"
        xi = np.full((position.shape[0], position.shape[1] if each else 1), self.noise, position.dtype)
        if self.integrator == "euler":
            return (EulerEach if each else Euler)(position, momentum, xi)
        point = half_step_ahead(self, position, momentum, address)
        return (SplittingEach if each else Splitting)(position, momentum, xi, point)

    def coefficients(self, h: float, h_next: float) -> tuple[float, ...]:
        """h, σ, T, and for the splitting h/2, h'/2."""
        c = h, sqrt(2 * self.noise * h * self.temperature), self.temperature
        return c if self.integrator == "euler" else (*c, h / 2, h_next / 2)

    def recursion(self, h: float, staleness: Staleness, direction: Direction) -> LinearRecursion:
        """With the friction at which the thermostat settles."""
        return stale_sgnht(
            direction, h, self.noise, staleness, integrator=self.integrator, temperature=self.temperature
        )

    def drift_ahead(self, h: float, updates: float, owned: float = 0.0) -> float:
        """As of SGHMC with the friction A, which is what ξ settles at when gradients are exact."""
        kept = 1 - self.noise * h if self.integrator == "euler" else float(np.exp(-self.noise * h))
        return momentum_drift(kept, h, updates, owned)

    def free_kinetic_temperature(self, h: float) -> float:
        """T, at which the thermostat holds it."""
        return float(self.temperature)

    def relative_noise(self, h: float, direction: Direction) -> float:
        """The thermostat absorbs the mean v̄ of all directions, and leaves (A + hv/2T)/(A + hv̄/2T) − 1."""
        own, mean = (h * v / (2 * self.temperature) for v in (direction.noise, direction.mean_noise))
        return (self.noise + own) / (self.noise + mean) - 1 if self.noise + mean > 0 else 0.0
