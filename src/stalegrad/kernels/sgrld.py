"""SGRLD: stochastic gradient Riemannian Langevin dynamics (Patterson and Teh, NeurIPS 2013), with a diagonal metric."""

from dataclasses import dataclass
from typing import Any, NamedTuple

from stalegrad.elementary import sqrt
from stalegrad.jit import compiled, inlined
from stalegrad.kernels.base import Address, Kernel, Split, whole
from stalegrad.metrics import Metric, check_metric, divergence_at, inverse_at
from stalegrad.noise import TILE, Stream, fill_tile, scratch
from stalegrad.types import Array

_LEAST = 1e-20  # what a reflected coordinate is at least: nobody will miss it, and 1/θ stays finite


def formula(theta: Any, force: Any, z: Any, inverse: Any, gamma: Any, h: Any, spread: Any, heat: Any) -> Any:
    """θ ← θ − h F + hTΓ + √(2hTG) ζ with F = G g, spread = hT and heat = 2hT."""
    return theta - h * force + spread * gamma + sqrt(heat * inverse) * z


def reflected(theta: Any, least: Any) -> Any:
    """|θ|, and never 0."""
    return abs(theta) + least


_formula = inlined(formula)
_reflected = inlined(reflected)


@compiled
def _fused(  # type: ignore[no-untyped-def]
    theta, inverse, gamma, g, c, natural, positive, seed, chain, first_repeat, update, start, stop
):
    z, words = scratch(theta)
    h, spread, heat, least = c[0], c[1], c[2], c[3]
    for r in range(theta.shape[0]):
        for low in range(start, stop, TILE):
            n = min(TILE, stop - low)
            fill_tile(z, words, seed, Stream.UPDATE, chain, first_repeat + r, update, low // TILE, n)
            t, d = theta[r, low : low + n], g[r, low : low + n]
            v, s = inverse[r, low : low + n], gamma[r, low : low + n]
            if natural:
                for i in range(n):
                    t[i] = _formula(t[i], d[i], z[i], v[i], s[i], h, spread, heat)
            else:
                for i in range(n):
                    t[i] = _formula(t[i], v[i] * d[i], z[i], v[i], s[i], h, spread, heat)
            if positive:
                for i in range(n):
                    t[i] = _reflected(t[i], least)


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
    the natural gradient G g, both at the same point, which :func:`stalegrad.potentials.natural` makes of a potential:

    .. math:: θ ← θ − h\,((G g)(θ_{l−τ}) − T\,Γ(θ_l)) + \sqrt{2hT\,G(θ_l)}\,ζ

    G and Γ are computed by NumPy before each update, and the update itself in one compiled loop.

    Args:
        step_size: h, a number or a schedule.
        metric: G and Γ, from :mod:`stalegrad.metrics`. Both are checked where a chain starts.
        natural: gradients come multiplied by G.
        temperature: T, 1 for the posterior.

    >>> from stalegrad.metrics import ExpandedMean
    >>> SGRLD(step_size=1e-3, metric=ExpandedMean(), natural=True).order
    1
    """

    metric: Metric
    natural: bool = False

    def start(self, position: Array, address: Address) -> State:
        """θ alone, where G must be positive."""
        check_metric(self.metric, position)
        return State(position)

    def coefficients(self, h: float, h_next: float) -> tuple[float, ...]:
        """h, hT, 2hT, and the least that a reflected coordinate is."""
        return h, h * self.temperature, 2 * h * self.temperature, _LEAST

    def step(self, state: State, gradient: Any, noise: Any, h: float, h_next: float | None = None) -> State:
        """One update of whole arrays."""
        *c, least = self.coefficients(h, h)
        theta = state.position
        inverse, gamma = self.metric.inverse(theta), self.metric.divergence(theta)
        force = gradient if self.natural else inverse * gradient
        theta = formula(theta, force, noise, inverse, gamma, *c)
        return State(reflected(theta, least) if self.metric.positive else theta)

    def advance(
        self, state: State, gradient: Array, coefficients: Array, address: Address, split: Split = whole
    ) -> None:
        """One update in place: G and Γ, then the fused loop."""
        theta = state.position
        inverse, gamma = inverse_at(self.metric, theta), divergence_at(self.metric, theta)
        natural, positive = self.natural, self.metric.positive
        seed, chain, update, repeat = address
        split(
            lambda start, stop: _fused(
                theta, inverse, gamma, gradient, coefficients, natural, positive,
                seed, chain, repeat, update, start, stop,
            ),
            theta.shape[1],
        )  # fmt: skip
