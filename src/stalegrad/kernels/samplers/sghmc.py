"""SGHMC: stochastic gradient Hamiltonian Monte Carlo (Chen, Fox and Guestrin, ICML 2014)."""

from dataclasses import dataclass
from math import exp, sinh, sqrt
from typing import Any, ClassVar, Literal, NamedTuple, Self

from stalegrad._internal.errors import ArgumentError
from stalegrad._internal.types import Array
from stalegrad._internal.validation import one_of
from stalegrad.kernels.base import Address, half_step_ahead, initial_momentum
from stalegrad.kernels.families import Kinetic
from stalegrad.kernels.fused import Update
from stalegrad.kernels.sgd_units import step_and_friction
from stalegrad.theory import Direction, LinearRecursion, Staleness, stale_sghmc


def euler(theta: Any, q: Any, g: Any, z: Any, keep: Any, h: Any, sigma: Any) -> Any:
    """q ← (1 − Bh) q − h g + σ ζ; θ ← θ + h q. With keep = 1 − Bh and σ = √(2BhT): the paper's Algorithm 1."""
    q = keep * q - h * g + sigma * z
    return theta + h * q, q


def splitting(_: Any, q: Any, point: Any, g: Any, z: Any, keep: Any, h: Any, sigma: Any, half: Any, ahead: Any) -> Any:
    """q ← e^{−Bh/2} q; q ← q − h g + σ ζ; q ← e^{−Bh/2} q; θ ← point + (h/2) q; point ← θ + (h'/2) q.

    From one half-step point to the next, where h' is the next step, keep = e^{−Bh/2} and σ = √(2BhT).
    """
    q = keep * (keep * q - h * g + sigma * z)
    theta = point + half * q
    return theta, q, theta + ahead * q


class Euler(NamedTuple):
    """What an SGHMC chain carries."""

    position: Any
    momentum: Any


class Splitting(NamedTuple):
    """What it carries for the splitting: also the point at which the next gradient is wanted."""

    position: Any
    momentum: Any
    point: Any


@dataclass(frozen=True, kw_only=True)
class SGHMC(Kinetic):
    r"""Underdamped Langevin dynamics with friction B.

    ``integrator="euler"`` (order K = 1) is Algorithm 1 of the S²G-MCMC paper:

    .. math:: q ← (1−Bh)\,q − h\,g + \sqrt{2BhT}\,ζ, \quad θ ← θ + h\,q

    ``integrator="splitting"`` (order K = 2; Chen, Ding and Carin, NeurIPS 2015) is symmetric and wants its gradient
    at the half-step point:

    .. math:: θ ← θ + \tfrac h2 q;\quad q ← e^{−Bh/2} q;\quad q ← q − h\,g + \sqrt{2BhT}\,ζ;\quad q ← e^{−Bh/2} q;
        \quad θ ← θ + \tfrac h2 q

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

    integrator: Literal["euler", "splitting"] = "euler"

    noise_coefficient: ClassVar[int | None] = 2
    updates = (Update(Euler, euler), Update(Splitting, splitting))

    def __post_init__(self) -> None:
        super().__post_init__()
        one_of("integrator", self.integrator, ("euler", "splitting"))
        h = 0.0 if self.undecided else float(self.schedule(0))
        if self.integrator == "euler" and not self.undecided and self.damping * h >= 2:
            problem = f"times step_size {h:g} is ≥ 2, where Euler's momentum grows without bound"
            remedy = f"Give friction < {2 / h:g}, a smaller step_size, or integrator='splitting'."
            raise ArgumentError("friction", self.friction, problem, remedy)

    @classmethod
    def from_sgd(
        cls, lr: float, momentum: float, n_data: int, *, gamma: float = 0.0, power: float = 0.75,
        integrator: Literal["euler", "splitting"] = "euler", temperature: float = 1.0,
    ) -> Self:  # fmt: skip
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
        step_size, friction = step_and_friction(lr, momentum, n_data, gamma, power)
        return cls(step_size=step_size, friction=friction, integrator=integrator, temperature=temperature)

    @property
    def order(self) -> int:  # type: ignore[override]
        """K, 1 for Euler and 2 for the splitting."""
        return 1 if self.integrator == "euler" else 2

    @classmethod
    def examples(cls) -> tuple[Self, ...]:
        """One of each integrator, Euler and splitting."""
        return tuple(cls(step_size=0.02, friction=5.0, integrator=name) for name in ("euler", "splitting"))

    def start(self, position: Array, address: Address) -> Euler | Splitting:
        """θ and q ~ N(0, T I)."""
        momentum = initial_momentum(position, self.temperature, address)
        if self.integrator == "euler":
            return Euler(position, momentum)
        return Splitting(position, momentum, half_step_ahead(self, position, momentum, address))

    def coefficients(self, h: float, h_next: float) -> tuple[float, ...]:
        """keep, h, σ, and for the splitting h/2, h'/2."""
        sigma = sqrt(2 * self.damping * h * self.temperature)
        if self.integrator == "euler":
            return 1 - self.damping * h, h, sigma
        return exp(-self.damping * h / 2), h, sigma, h / 2, h_next / 2

    def recursion(self, h: float, staleness: Staleness, direction: Direction) -> LinearRecursion:
        """The exact law of the chosen integrator, whatever h is."""
        return self.along(direction, stale_sghmc, h, staleness, integrator=self.integrator)

    def free_kinetic_temperature(self, h: float) -> float:
        """Euler: T/(1 − Bh/2). Splitting: T·Bh/sinh(Bh)."""
        kept = self.damping * h
        return float(self.temperature) * (1 / (1 - kept / 2) if self.integrator == "euler" else kept / sinh(kept))
