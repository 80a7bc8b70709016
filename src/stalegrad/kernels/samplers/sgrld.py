"""SGRLD: stochastic gradient Riemannian Langevin dynamics (Patterson and Teh, NeurIPS 2013), with a diagonal metric."""

from dataclasses import dataclass
from typing import Any, NamedTuple, Self

import numpy as np

from stalegrad._internal.elementary import sqrt
from stalegrad._internal.types import Array
from stalegrad.kernels.base import Address, Kernel
from stalegrad.kernels.fused import Update
from stalegrad.kernels.metrics import Diagonal, ExpandedMean, Metric, check_metric, divergence_at, inverse_at

_LEAST = 1e-20  # what a reflected coordinate is at least: nobody will miss it, and 1/θ stays finite


def formula(
    theta: Any, inverse: Any, gamma: Any, g: Any, z: Any,
    h: Any, spread: Any, heat: Any, least: Any, natural: Any, positive: Any,
) -> Any:  # fmt: skip
    """θ ← θ − h F + hTΓ + √(2hTG) ζ with F = G g, spread = hT, heat = 2hT; where θ is positive, its absolute value.

    natural is 1 where g is G g already. A reflected coordinate is never 0.
    """
    force = g if natural else inverse * g
    theta = theta - h * force + spread * gamma + sqrt(heat * inverse) * z
    return abs(theta) + least if positive else theta


class State(NamedTuple):
    """What an SGRLD chain carries."""

    position: Any


@dataclass(frozen=True, kw_only=True)
class SGRLD(Kernel):
    r"""Overdamped Langevin dynamics in a diagonal metric that changes with θ, Euler scheme, order K = 1.

    .. math:: θ ← θ − h\,(G(θ)\,g − T\,Γ(θ)) + \sqrt{2hT\,G(θ)}\,ζ,\quad Γ_i = ∂G_i/∂θ_i

    where a metric on (0, ∞) is followed by the reflection θ ← |θ|. Invariant law as h → 0: p(θ|D)^(1/T), for every G.

    ``SGRLD(step_size=h, metric=sg.metrics.ExpandedMean())`` is the sampler of Patterson and Teh for positive parameters
    and, with π = θ/Σθ, for the simplex.

    At the boundary the scheme is less accurate than inside: where the density is large at 0, as that of Gamma(α) with
    α < 1, reflection costs a bias that falls as √h only (at h = 0.025, 0.065 in the mean ½ of Gamma(½)).

    A stale gradient was taken at another θ than G is. Where both vary much, as with the 1/θ in the gradient of a Gamma
    prior near 0, their product is not bounded. Let the workers multiply then: ``natural=True`` takes what they send for
    the natural gradient G g, both at the same point, which :func:`stalegrad.potentials.wrappers.natural` makes of a
    potential:

    .. math:: θ ← θ − h\,((G g)(θ_{l−τ}) − T\,Γ(θ_l)) + \sqrt{2hT\,G(θ_l)}\,ζ

    G and Γ are computed by NumPy before each update, and the update itself in one compiled loop.

    Args:
        step_size: h, a number or a schedule.
        metric: G and Γ, from :mod:`stalegrad.kernels.metrics`. Both are checked where a chain starts.
        natural: gradients come multiplied by G.
        temperature: T, 1 for the posterior.

    >>> from stalegrad.kernels.metrics import ExpandedMean
    >>> SGRLD(step_size=1e-3, metric=ExpandedMean(), natural=True).order
    1
    """

    metric: Metric
    natural: bool = False

    updates = Update(State, formula, further=2)

    @classmethod
    def examples(cls) -> tuple[Self, ...]:
        """A metric between 1 and 2; and the expanded mean, with natural gradients."""
        wavy = Diagonal(_wavy_inverse, _wavy_divergence)
        return cls(step_size=0.002, metric=wavy), cls(step_size=0.002, metric=ExpandedMean(), natural=True)

    @property
    def takes_natural_gradients(self) -> bool:
        """The setting ``natural``: whether gradients come multiplied by G."""
        return self.natural

    def start(self, position: Array, address: Address) -> State:
        """θ alone, where G must be positive."""
        check_metric(self.metric, position)
        return State(position)

    def coefficients(self, h: float, h_next: float) -> tuple[float, ...]:
        """h, hT, 2hT, the least that a reflected coordinate is, and what the gradients and the metric are like."""
        return h, h * self.temperature, 2 * h * self.temperature, _LEAST, self.natural, self.metric.positive

    def further(self, state: State) -> tuple[Any, Any]:
        """G and Γ at θ."""
        if isinstance(state.position, np.ndarray):
            return inverse_at(self.metric, state.position), divergence_at(self.metric, state.position)
        return self.metric.inverse(state.position), self.metric.divergence(state.position)


def _wavy_inverse(theta: Any) -> Any:
    return 1 + theta * theta / (1 + theta * theta)


def _wavy_divergence(theta: Any) -> Any:
    return 2 * theta / ((1 + theta * theta) * (1 + theta * theta))
