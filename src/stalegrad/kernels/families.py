"""What samplers of one kind have in common: Langevin dynamics without a momentum, and with one."""

from collections.abc import Callable
from dataclasses import dataclass
from math import exp
from typing import Any, ClassVar, Literal

from stalegrad._internal.errors import ArgumentError
from stalegrad._internal.validation import real_number
from stalegrad.kernels.base import Kernel
from stalegrad.kernels.schedules import AUTO
from stalegrad.theory import Direction, LinearRecursion, Staleness, stability_limit, stale_sgld


@dataclass(frozen=True, kw_only=True)
class Overdamped(Kernel):
    """Langevin dynamics of θ alone by Euler's scheme, in a metric at rest.

    >>> import stalegrad as sg
    >>> isinstance(sg.SGLD(), Overdamped), isinstance(sg.SGHMC(), Overdamped)
    (True, False)
    """

    inertial: ClassVar[bool | None] = False

    def recursion(self, h: float, staleness: Staleness, direction: Direction) -> LinearRecursion:
        """SGLD in coordinates in which the metric is 1."""
        return stale_sgld(
            direction.curvature, h, staleness, temperature=self.temperature, gradient_variance=direction.noise,
            owned=direction.owned,
        )  # fmt: skip

    def relative_noise(self, h: float, direction: Direction) -> float:
        """hv/(2T), v the gradient's variance along the direction."""
        return float(h * direction.noise / (2 * self.temperature))

    def stability_limit(self, curvature: float, staleness: int) -> float:
        """The h up to which stale SGLD is stable at this curvature, in closed form."""
        return float(stability_limit(curvature, staleness))


@dataclass(frozen=True, kw_only=True)
class Kinetic(Kernel):
    """Langevin dynamics of θ and a momentum with a fixed friction B, a number or ``"auto"`` to have it found.

    >>> import stalegrad as sg
    >>> isinstance(sg.SGHMC(), Kinetic), isinstance(sg.BAOAB(), Kinetic), isinstance(sg.SGLD(), Kinetic)
    (True, True, False)
    >>> round(sg.SGHMC(step_size=0.1, friction=2.0).kept_momentum(0.1), 3)
    0.8
    """

    friction: float | Literal["auto"] = AUTO

    inertial: ClassVar[bool | None] = True

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.friction != AUTO:
            real_number("friction", self.friction, above=0)

    @property
    def missing(self) -> tuple[str, ...]:
        """Also the friction, where it is to be found."""
        return (*super().missing, *(("friction",) if self.friction == AUTO else ()))

    @property
    def fixed_friction(self) -> float:
        """B, as it was given: nothing adapts it."""
        return self.damping

    @property
    def damping(self) -> float:
        """B, which must have been found."""
        if isinstance(self.friction, str):
            remedy = "Give a number, or let sg.sample find one."
            raise ArgumentError("friction", AUTO, "has not been found yet", remedy)
        return self.friction

    def free_kinetic_temperature(self, h: float) -> float:
        """T, where the friction is solved exactly."""
        return float(self.temperature)

    def relative_noise(self, h: float, direction: Direction) -> float:
        """hv/(2BT), v the gradient's variance along the direction."""
        return float(h * direction.noise / (2 * self.temperature) / self.damping)

    def along(
        self, direction: Direction, oracle: Callable[..., LinearRecursion], h: float, staleness: Staleness, **more: Any
    ) -> LinearRecursion:
        """The recursion that a function such as :func:`stalegrad.theory.stale_sghmc` gives for a direction."""
        heat = {"temperature": self.temperature, "gradient_variance": direction.noise}
        relief = {"owned": direction.owned, "ahead": direction.ahead, "kept": direction.kept}
        return oracle(direction.curvature, h, self.damping, staleness, **heat, **relief, **more)

    def kept_momentum(self, h: float) -> float:
        """m: 1 − Bh by Euler's scheme, which is of order 1; e^{−Bh} where the friction is solved exactly."""
        return 1 - self.damping * h if self.order == 1 else exp(-self.damping * h)

    def drift_ahead(self, h: float, updates: float, owned: float = 0.0) -> float:
        """h(m + m² + … + m^τ) without a force; with the force −aθ as far as the momentum moves θ."""
        return momentum_drift(self.kept_momentum(h), h, updates, owned)


def momentum_drift(kept: float, h: float, updates: float, owned: float) -> float:
    """c: a chain that keeps the share m of its momentum in an update is expected to move by c q in τ updates.

    q ← m q − h a θ, θ ← θ + h q, τ times from θ = 0 and q = 1; between two whole numbers of updates it is interpolated.
    """
    theta, q = 0.0, 1.0
    whole = int(updates)
    for _ in range(whole):
        q = kept * q - h * owned * theta
        theta += h * q
    last = theta + h * (kept * q - h * owned * theta)
    return theta + (updates - whole) * (last - theta)
