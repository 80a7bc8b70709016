"""SGHMC: stochastic gradient Hamiltonian Monte Carlo (Chen, Fox and Guestrin, ICML 2014)."""

from dataclasses import dataclass
from math import exp, sqrt
from typing import Any, ClassVar, Literal, NamedTuple, Self

from numba import types

from stalegrad.checks import one_of, real_number, whole_number
from stalegrad.errors import ArgumentError
from stalegrad.jit import compiled, inlined
from stalegrad.kernels.base import Address, Kernel, Split, initial_momentum, updates_with, whole
from stalegrad.noise import TILE, Stream, fill_tile, scratch
from stalegrad.schedules import Inverse
from stalegrad.types import Array


def euler(theta: Any, q: Any, g: Any, z: Any, keep: Any, h: Any, sigma: Any) -> Any:
    """q ← (1 − Bh) q − h g + σ ζ; θ ← θ + h q. With keep = 1 − Bh and σ = √(2BhT): the paper's Algorithm 1."""
    q = keep * q - h * g + sigma * z
    return theta + h * q, q


def splitting(point: Any, q: Any, g: Any, z: Any, keep: Any, h: Any, sigma: Any, half: Any, ahead: Any) -> Any:
    """From the half-step point θ + (h/2) q to the next one.

    q ← e^{−Bh/2} q; q ← q − h g + σ ζ; q ← e^{−Bh/2} q; θ ← point + (h/2) q; point ← θ + (h'/2) q, where h' is the
    step of the next update, keep = e^{−Bh/2} and σ = √(2BhT).
    """
    q = keep * (keep * q - h * g + sigma * z)
    theta = point + half * q
    return theta, q, theta + ahead * q


_euler = inlined(euler)
_splitting = inlined(splitting)


@compiled
def _fused_euler(theta, q, g, c, seed, chain, first_repeat, update, start, stop):  # type: ignore[no-untyped-def]
    z, words = scratch(theta)
    keep, h, sigma = c[0], c[1], c[2]
    for r in range(theta.shape[0]):
        for low in range(start, stop, TILE):
            n = min(TILE, stop - low)
            if sigma != 0:
                fill_tile(z, words, seed, Stream.UPDATE, chain, first_repeat + r, update, low // TILE, n)
            t, p, d = theta[r, low : low + n], q[r, low : low + n], g[r, low : low + n]
            for i in range(n):
                t[i], p[i] = _euler(t[i], p[i], d[i], z[i], keep, h, sigma)


@compiled
def _fused_splitting(  # type: ignore[no-untyped-def]
    theta, q, point, g, c, seed, chain, first_repeat, update, start, stop
):
    z, words = scratch(theta)
    keep, h, sigma, half, ahead = c[0], c[1], c[2], c[3], c[4]
    for r in range(theta.shape[0]):
        for low in range(start, stop, TILE):
            n = min(TILE, stop - low)
            if sigma != 0:
                fill_tile(z, words, seed, Stream.UPDATE, chain, first_repeat + r, update, low // TILE, n)
            t, p, d = theta[r, low : low + n], q[r, low : low + n], g[r, low : low + n]
            x = point[r, low : low + n]
            for i in range(n):
                t[i], p[i], x[i] = _splitting(x[i], p[i], d[i], z[i], keep, h, sigma, half, ahead)


class State(NamedTuple):
    """What an SGHMC chain carries. ``point`` is None for Euler, where the gradient is wanted at the position."""

    position: Any
    momentum: Any
    point: Any = None


@updates_with(State)
def _update(state: Any) -> Any:
    def euler(state, gradient, coefficients, seed, chain, first_repeat, number):  # type: ignore[no-untyped-def]
        theta, q = state.position, state.momentum
        _fused_euler(theta, q, gradient, coefficients, seed, chain, first_repeat, number, 0, theta.shape[1])

    def splitting(state, gradient, coefficients, seed, chain, first_repeat, number):  # type: ignore[no-untyped-def]
        theta, q, x = state.position, state.momentum, state.point
        _fused_splitting(theta, q, x, gradient, coefficients, seed, chain, first_repeat, number, 0, theta.shape[1])

    return euler if isinstance(state[2], types.NoneType) else splitting


@dataclass(frozen=True, kw_only=True)
class SGHMC(Kernel):
    r"""Underdamped Langevin dynamics with friction B.

    ``integrator="euler"`` (order K = 1) is Algorithm 1 of the S²G-MCMC paper:

    .. math:: q ← (1−Bh)\,q − h\,g + \sqrt{2BhT}\,ζ, \quad θ ← θ + h\,q

    ``integrator="splitting"`` (order K = 2; Chen, Ding and Carin, NeurIPS 2015) is symmetric and wants its gradient
    at the half-step point:

    .. math::
        θ ← θ + \tfrac h2 q;\quad q ← e^{−Bh/2} q;\quad q ← q − h\,g + \sqrt{2BhT}\,ζ;\quad q ← e^{−Bh/2} q;\quad
        θ ← θ + \tfrac h2 q

    Invariant law as h → 0: p(θ|D)^(1/T) · N(q; 0, T I).

    With fresh gradients Euler's first-order error is in the momentum alone. Eliminating q, its θ follows the scheme of
    Brünger, Brooks and Karplus with friction γ and step k, where h² = k²/(1 + γk/2) and Bh = γk/(1 + γk/2), and that is
    of second order. Stale gradients cost both integrators an error of order τh.

    Args:
        step_size: h, a number or a schedule.
        friction: B.
        integrator: ``"euler"`` or ``"splitting"``.
        temperature: T, 1 for the posterior.

    >>> SGHMC(step_size=1e-3, friction=10.0, integrator="splitting").order
    2
    """

    noise_coefficient: ClassVar[int | None] = 2

    friction: float
    integrator: Literal["euler", "splitting"] = "euler"

    def __post_init__(self) -> None:
        super().__post_init__()
        real_number("friction", self.friction, above=0)
        one_of("integrator", self.integrator, ("euler", "splitting"))
        if self.undecided:
            return
        h = float(self.schedule(0))
        if self.integrator == "euler" and self.friction * h >= 2:
            raise ArgumentError(
                "friction", self.friction, f"times step_size {h:g} is ≥ 2, where Euler's momentum grows without bound",
                f"Give friction < {2 / h:g}, a smaller step_size, or integrator='splitting'.",
            )  # fmt: skip

    @classmethod
    def from_sgd(
        cls,
        lr: float,
        momentum: float,
        n_data: int,
        *,
        gamma: float = 0.0,
        power: float = 0.75,
        integrator: Literal["euler", "splitting"] = "euler",
        temperature: float = 1.0,
    ) -> Self:
        """The sampler whose mean path is SGD with momentum on the mean loss, in Caffe's units.

        v ← m v + lr ḡ, θ ← θ − v is Algorithm 1 with v = −h q, h = √(lr/N) and B = (1 − m)/h, where ḡ is the gradient
        of U/N. A learning rate that decays by Caffe's "inv" policy, lr (1 + γl)^(−p), is a step that decays with half
        the power; B stays at its first value.

        Args:
            lr: learning rate for the mean loss.
            momentum: m in [0, 1).
            n_data: N.
            gamma: γ of the "inv" policy; 0 keeps the rate fixed.
            power: p of the "inv" policy.
            integrator: as for the class.
            temperature: T.

        >>> kernel = SGHMC.from_sgd(lr=0.01, momentum=0.9, n_data=10_000)
        >>> f"{kernel.step_size:.3g} {kernel.friction:.3g}"
        '0.001 100'
        """
        lr = real_number("lr", lr, above=0)
        m = real_number("momentum", momentum, least=0)
        if m >= 1:
            raise ArgumentError("momentum", momentum, "leaves no friction", "Give a number in [0, 1), such as 0.9.")
        h = sqrt(lr / whole_number("n_data", n_data, least=1))
        decays = real_number("gamma", gamma, least=0) > 0
        step_size = Inverse(h, gamma, real_number("power", power, least=0) / 2) if decays else h
        return cls(step_size=step_size, friction=(1 - m) / h, integrator=integrator, temperature=temperature)

    @property
    def order(self) -> int:  # type: ignore[override]
        """K."""
        return 1 if self.integrator == "euler" else 2

    def start(self, position: Array, address: Address) -> State:
        """θ and q ~ N(0, T I)."""
        momentum = initial_momentum(position, self.temperature, address)
        if self.integrator == "euler":
            return State(position, momentum)
        half = position.dtype.type(0.5 * self.schedule(address.update))
        return State(position, momentum, position + half * momentum)

    def point(self, state: State) -> Any:
        """θ, or θ + (h/2) q for the splitting."""
        return state.position if state.point is None else state.point

    def coefficients(self, h: float, h_next: float) -> tuple[float, ...]:
        """keep, h, σ, and for the splitting h/2, h'/2."""
        sigma = sqrt(2 * self.friction * h * self.temperature)
        if self.integrator == "euler":
            return 1 - self.friction * h, h, sigma
        return exp(-self.friction * h / 2), h, sigma, h / 2, h_next / 2

    def step(self, state: State, gradient: Any, noise: Any, h: float, h_next: float | None = None) -> State:
        """One update of whole arrays."""
        c = self.coefficients(h, h if h_next is None else h_next)
        if state.point is None:
            return State(*euler(state.position, state.momentum, gradient, noise, *c))
        return State(*splitting(state.point, state.momentum, gradient, noise, *c))

    def advance(
        self, state: State, gradient: Array, coefficients: Array, address: Address, split: Split = whole
    ) -> None:
        """One fused update in place."""
        theta, q, point = state
        seed, chain, update, repeat = address
        noise_of = seed, chain, repeat, update

        def part(start: int, stop: int) -> None:
            if point is None:
                _fused_euler(theta, q, gradient, coefficients, *noise_of, start, stop)
            else:
                _fused_splitting(theta, q, point, gradient, coefficients, *noise_of, start, stop)

        split(part, theta.shape[1])
