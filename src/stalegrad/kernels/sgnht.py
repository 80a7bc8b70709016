"""SGNHT: the stochastic gradient Nosé-Hoover thermostat (Ding et al., NeurIPS 2014)."""

from dataclasses import dataclass
from math import sqrt
from typing import Any, ClassVar, Literal, NamedTuple

import numpy as np

from stalegrad.checks import one_of, real_number
from stalegrad.elementary import exp
from stalegrad.jit import compiled, inlined
from stalegrad.kernels.base import Address, Kernel, Split, initial_momentum, whole
from stalegrad.noise import TILE, Stream, fill_tile, scratch
from stalegrad.types import Array


def euler(theta: Any, q: Any, xi: Any, g: Any, z: Any, h: Any, sigma: Any) -> Any:
    """q ← q − ξ q h − h g + σ ζ; θ ← θ + h q, with σ = √(2AhT)."""
    q = q - xi * q * h - h * g + sigma * z
    return theta + h * q, q


def splitting(point: Any, q: Any, xi: Any, g: Any, z: Any, h: Any, sigma: Any, half: Any, ahead: Any) -> Any:
    """q ← e^{−ξh/2} q; q ← q − h g + σ ζ; q ← e^{−ξh/2} q; θ ← point + (h/2) q; point ← θ + (h'/2) q."""
    keep = exp(-xi * half)
    q = keep * (keep * q - h * g + sigma * z)
    theta = point + half * q
    return theta, q, theta + ahead * q


def thermostat(xi: Any, energy: Any, h: Any, temperature: Any) -> Any:
    """ξ ← ξ + h (energy − T), energy being qᵀq/n, or q² of each coordinate."""
    return xi + h * (energy - temperature)


_euler = inlined(euler)
_splitting = inlined(splitting)
_thermostat = inlined(thermostat)


@compiled
def _fused(  # type: ignore[no-untyped-def]
    theta, q, xi, point, energies, g, c, split, shared, seed, chain, first_repeat, update, start, stop
):
    """All four forms in one loop. ``energies`` takes Σq² of each tile, for the shared thermostat."""
    z, words = scratch(theta)
    friction = np.empty_like(z)
    h, sigma, temperature, half, ahead = c[0], c[1], c[2], c[3], c[4]
    for r in range(theta.shape[0]):
        for low in range(start, stop, TILE):
            n = min(TILE, stop - low)
            if sigma != 0:
                fill_tile(z, words, seed, Stream.UPDATE, chain, first_repeat + r, update, low // TILE, n)
            t, p, d = theta[r, low : low + n], q[r, low : low + n], g[r, low : low + n]
            x = point[r, low : low + n]
            if shared:
                friction[:n] = xi[r, 0]
            else:
                friction[:n] = xi[r, low : low + n]
            if split:
                for i in range(n):
                    t[i], p[i], x[i] = _splitting(x[i], p[i], friction[i], d[i], z[i], h, sigma, half, ahead)
            else:
                for i in range(n):
                    t[i], p[i] = _euler(t[i], p[i], friction[i], d[i], z[i], h, sigma)
            if shared:
                energy = 0.0
                for i in range(n):
                    energy += np.float64(p[i]) * np.float64(p[i])
                energies[r, low // TILE] = energy
            else:
                f = xi[r, low : low + n]
                for i in range(n):
                    f[i] = _thermostat(f[i], p[i] * p[i], h, temperature)


class State(NamedTuple):
    """What an SGNHT chain carries: θ, q, ξ (one a repetition, or one a coordinate) and the splitting's point."""

    position: Any
    momentum: Any
    thermostat: Any
    point: Any = None


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

    noise_coefficient: ClassVar[int | None] = 1
    remembers: ClassVar[bool] = True

    noise: float = 1.0
    thermostats: Literal["shared", "each"] = "shared"
    integrator: Literal["euler", "splitting"] = "euler"

    def __post_init__(self) -> None:
        super().__post_init__()
        real_number("noise", self.noise, least=0)
        one_of("thermostats", self.thermostats, ("shared", "each"))
        one_of("integrator", self.integrator, ("euler", "splitting"))

    @property
    def order(self) -> int:  # type: ignore[override]
        """K."""
        return 1 if self.integrator == "euler" else 2

    def start(self, position: Array, address: Address) -> State:
        """θ, q ~ N(0, T I) and ξ = A."""
        momentum = initial_momentum(position, self.temperature, address)
        width = 1 if self.thermostats == "shared" else position.shape[1]
        xi = np.full((position.shape[0], width), self.noise, position.dtype)
        if self.integrator == "euler":
            return State(position, momentum, xi)
        half = position.dtype.type(0.5 * self.schedule(address.update))
        return State(position, momentum, xi, position + half * momentum)

    def point(self, state: State) -> Any:
        """θ, or θ + (h/2) q for the splitting."""
        return state.position if state.point is None else state.point

    def coefficients(self, h: float, h_next: float) -> tuple[float, ...]:
        """h, σ, T, h/2, h'/2."""
        return h, sqrt(2 * self.noise * h * self.temperature), self.temperature, h / 2, h_next / 2

    def step(self, state: State, gradient: Any, noise: Any, h: float, h_next: float | None = None) -> State:
        """One update of whole arrays."""
        _, sigma, temperature, half, ahead = self.coefficients(h, h if h_next is None else h_next)
        theta, q, xi, point = state
        if point is None:
            theta, q = euler(theta, q, xi, gradient, noise, h, sigma)
        else:
            theta, q, point = splitting(point, q, xi, gradient, noise, h, sigma, half, ahead)
        energy = q * q if self.thermostats == "each" else (q * q).mean(axis=-1, keepdims=True)
        return State(theta, q, thermostat(xi, energy, h, temperature), point)

    def advance(
        self, state: State, gradient: Array, coefficients: Array, address: Address, split: Split = whole
    ) -> None:
        """One fused update in place. The sum over coordinates goes tile by tile, so threads cannot change it."""
        theta, q, xi, point = state
        repeats, n = theta.shape
        shared, splits = self.thermostats == "shared", point is not None
        energies = np.empty((repeats, -(-n // TILE)))
        seed, chain, update, repeat = address
        split(
            lambda start, stop: _fused(
                theta, q, xi, point if splits else theta, energies, gradient, coefficients, splits, shared,
                seed, chain, repeat, update, start, stop,
            ),
            n,
        )  # fmt: skip
        if shared:
            with np.errstate(over="ignore", invalid="ignore"):  # a chain that diverges is refused at its next gradient
                energy = (energies.sum(axis=1, keepdims=True) / n).astype(theta.dtype)
                xi[...] = thermostat(xi, energy, coefficients[0], coefficients[2])
