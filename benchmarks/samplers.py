"""One sampler in the units of every library, so that all candidates make the same chain."""

from dataclasses import dataclass
from math import sqrt
from typing import Any


@dataclass(frozen=True)
class Sampler:
    """SGLD, or SGHMC if there is friction.

    Args:
        step_size: h, as in θ ← θ + h ∇log p + √(2h) ζ, or q ← (1 − Bh) q + h ∇log p + √(2Bh) ζ, θ ← θ + h q.
        friction: B; None for SGLD.
    """

    step_size: float
    friction: float | None = None

    @property
    def name(self) -> str:
        """As tables show it."""
        return "SGLD" if self.friction is None else "SGHMC"

    def ours(self) -> Any:
        """stalegrad's kernel."""
        import stalegrad as sg

        if self.friction is None:
            return sg.SGLD(step_size=self.step_size)
        return sg.SGHMC(step_size=self.step_size, friction=self.friction)

    def posteriors(self, n_data: int) -> tuple[Any, dict[str, float]]:
        """posteriors' builder and its numbers, for log p / N at temperature 1/N as its documentation recommends.

        With m = q/√N its SGHMC is the same chain for lr = h√N and alpha = B/√N, and its SGLD for lr = hN. Its momenta
        start at 0: by default they start at N(0, 1), √N times as wide as their law at temperature 1/N.
        """
        from posteriors_peer import posteriors

        if self.friction is None:
            return posteriors().sgmcmc.sgld, {"lr": self.step_size * n_data, "temperature": 1 / n_data}
        root = sqrt(n_data)
        numbers = {"lr": self.step_size * root, "alpha": self.friction / root, "temperature": 1 / n_data}
        return posteriors().sgmcmc.sghmc, {**numbers, "momenta": 0.0}


SGLD = Sampler(1e-6)
SGHMC = Sampler(1e-3, 10.0)
"""Both are stable on a9a, whose largest curvature is 27,015."""
