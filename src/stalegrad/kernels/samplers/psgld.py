"""pSGLD: SGLD preconditioned by a running mean of squared gradients (Li, Chen, Carlson and Carin, AAAI 2016)."""

from dataclasses import dataclass, replace
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np

from stalegrad._internal.elementary import sqrt
from stalegrad._internal.errors import ArgumentError
from stalegrad._internal.types import Array
from stalegrad._internal.validation import real_number, whole_number
from stalegrad.kernels.base import Address
from stalegrad.kernels.families import Overdamped
from stalegrad.kernels.fused import Update


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


class State(NamedTuple):
    """What a pSGLD chain carries: θ and V, the running mean of squared per-datum gradients."""

    position: Any
    squares: Any


@dataclass(frozen=True, kw_only=True)
class PSGLD(Overdamped):
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
    learns_metric: ClassVar[bool] = True
    theory_error: ClassVar[float] = 0.1  # V follows θ: (1−α)/(2hGλ) without minibatch noise, 0.06 for the examples
    updates = Update(State, formula)

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

    @classmethod
    def examples(cls) -> tuple[Self, ...]:
        """One without the correction Γ and one with it."""
        return cls(step_size=0.002), cls(step_size=0.002, divergence=True)

    def for_model(self, n_data: int, batch_size: int) -> Self:
        """The kernel that knows N and J."""
        return replace(self, n_data=self.n_data or n_data, batch_size=self.batch_size or batch_size)

    def start(self, position: Array, address: Address) -> State:
        """θ, and V = 0: the metric is learnt from there."""
        return State(position, np.zeros_like(position))

    def coefficients(self, h: float, h_next: float) -> tuple[float, ...]:
        """1/N, α, 1−α, λ, h, 2hT, hT(1−α)J."""
        if self.n_data is None or self.batch_size is None:
            raise ArgumentError("n_data", self.n_data, "is not known", "Give PSGLD its n_data and batch_size.")
        gamma = h * self.temperature * (1 - self.decay) * self.batch_size if self.divergence else 0.0
        return 1 / self.n_data, self.decay, 1 - self.decay, self.floor, h, 2 * h * self.temperature, gamma

    def metric_scale(self, mean_squares: Array, n_data: int) -> Array:
        """√G = (λ + √V)^(−1/2), V at the mean squares per datum."""
        return np.asarray(1 / np.sqrt(self.floor + np.sqrt(mean_squares / n_data**2)))
