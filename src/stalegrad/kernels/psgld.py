"""pSGLD: SGLD preconditioned by a running mean of squared gradients (Li, Chen, Carlson and Carin, AAAI 2016)."""

from dataclasses import dataclass, replace
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np

from stalegrad.checks import real_number, whole_number
from stalegrad.elementary import sqrt
from stalegrad.errors import ArgumentError
from stalegrad.jit import compiled, inlined
from stalegrad.kernels.base import Address, Kernel, Split, updates_with, whole
from stalegrad.noise import TILE, Stream, fill_tile, scratch
from stalegrad.types import Array


def formula(
    theta: Any, v: Any, g: Any, z: Any, per_datum: Any, decay: Any, rest: Any, floor: Any, h: Any, heat: Any, gamma: Any
) -> Any:
    """ḡ = g/N; V ← αV + (1−α) ḡ²; θ ← θ − h G g + h T Γ + √(2hTG) ζ with 1/G = λ + √V.

    per_datum = 1/N, decay = α, rest = 1−α, floor = λ, heat = 2hT, gamma = hT(1−α)J or 0.
    """
    mean = per_datum * g
    v = decay * v + rest * (mean * mean)
    root = sqrt(v)
    stiffness = floor + root  # 1/G
    drift = (h * g) / stiffness + gamma * mean * root / (stiffness * stiffness)
    return theta - drift + sqrt(heat / stiffness) * z, v


_formula = inlined(formula)


@compiled
def _fused(theta, v, g, c, seed, chain, first_repeat, update, start, stop):  # type: ignore[no-untyped-def]
    z, words = scratch(theta)
    per_datum, decay, rest, floor, h, heat, gamma = c[0], c[1], c[2], c[3], c[4], c[5], c[6]
    for r in range(theta.shape[0]):
        for low in range(start, stop, TILE):
            n = min(TILE, stop - low)
            fill_tile(z, words, seed, Stream.UPDATE, chain, first_repeat + r, update, low // TILE, n)
            t, s, d = theta[r, low : low + n], v[r, low : low + n], g[r, low : low + n]
            for i in range(n):
                t[i], s[i] = _formula(t[i], s[i], d[i], z[i], per_datum, decay, rest, floor, h, heat, gamma)


class State(NamedTuple):
    """What a pSGLD chain carries: θ and V, the running mean of squared per-datum gradients."""

    position: Any
    squares: Any


@updates_with(State)
def _update(state: Any) -> Any:
    def update(state, gradient, coefficients, seed, chain, first_repeat, number):  # type: ignore[no-untyped-def]
        theta = state.position
        _fused(theta, state.squares, gradient, coefficients, seed, chain, first_repeat, number, 0, theta.shape[1])

    return update


@dataclass(frozen=True, kw_only=True)
class PSGLD(Kernel):
    r"""SGLD with a diagonal metric learnt on the way, Euler scheme, order K = 1.

    .. math:: V ← αV + (1−α)\,ḡ^2,\quad G = 1/(λ+\sqrt V),\quad θ ← θ − h\,G\,g + hTΓ + \sqrt{2hTG}\,ζ

    ḡ = g/N is the mean gradient of a datum. Invariant law as h → 0 with 1−α ≪ hG·curvature: p(θ|D)^(1/T). The metric
    then rests while θ moves. When V follows θ instead, a bias stays without Γ, which is off by default as in its paper.

    Γ_i = ∂G_i/∂θ_i = −(1−α) ḡ_i H̄_ii / (√V_i (λ+√V_i)²) needs the curvature H̄_ii of a datum. ``divergence=True`` takes
    it from Fisher's identity, H̄_ii ≈ variance of a datum's gradient ≈ J V_i, which holds where minibatch noise
    dominates ḡ, so near a mode and for J ≪ N.

    Args:
        step_size: h, a number or a schedule.
        decay: α, the memory of V.
        floor: λ, which bounds the metric by 1/λ.
        divergence: add Γ.
        n_data, batch_size: N and J; taken from the model by ``sample`` and ``replay``.
        temperature: T, 1 for the posterior.

    >>> PSGLD(step_size=1e-4).decay
    0.99
    """

    remembers: ClassVar[bool] = True

    decay: float = 0.99
    floor: float = 1e-5
    divergence: bool = False
    n_data: int | None = None
    batch_size: int | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0 <= real_number("decay", self.decay) <= 1:
            raise ArgumentError("decay", self.decay, "is out of range", "Give α in [0, 1], such as 0.99.")
        real_number("floor", self.floor, above=0)
        for name in ("n_data", "batch_size"):
            if getattr(self, name) is not None:
                whole_number(name, getattr(self, name), least=1)

    def for_model(self, n_data: int, batch_size: int) -> Self:
        """The kernel that knows N and J."""
        return replace(self, n_data=self.n_data or n_data, batch_size=self.batch_size or batch_size)

    def start(self, position: Array, address: Address) -> State:
        """θ and V = 0."""
        return State(position, np.zeros_like(position))

    def coefficients(self, h: float, h_next: float) -> tuple[float, ...]:
        """1/N, α, 1−α, λ, h, 2hT, hT(1−α)J."""
        if self.n_data is None or self.batch_size is None:
            raise ArgumentError("n_data", self.n_data, "is not known", "Give PSGLD its n_data and batch_size.")
        gamma = h * self.temperature * (1 - self.decay) * self.batch_size if self.divergence else 0.0
        return 1 / self.n_data, self.decay, 1 - self.decay, self.floor, h, 2 * h * self.temperature, gamma

    def step(self, state: State, gradient: Any, noise: Any, h: float, h_next: float | None = None) -> State:
        """One update of whole arrays."""
        return State(*formula(state.position, state.squares, gradient, noise, *self.coefficients(h, h)))

    def advance(
        self, state: State, gradient: Array, coefficients: Array, address: Address, split: Split = whole
    ) -> None:
        """One fused update in place."""
        theta, v = state
        seed, chain, update, repeat = address
        split(
            lambda start, stop: _fused(theta, v, gradient, coefficients, seed, chain, repeat, update, start, stop),
            theta.shape[1],
        )
