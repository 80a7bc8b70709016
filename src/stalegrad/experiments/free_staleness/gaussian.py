"""A Gaussian with curvatures from 1 to 65: the law of compensated chains is that of fresh ones, at every staleness.

U(θ) = θᵀHθ/2 with H = I + V Vᵀ, which the server owns as a whole. The closed form is that of the chain with fresh
gradients at the same step size; what a plain chain with such gradients has is computed as well.
"""

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from stalegrad.kernels import BAOAB, SGHMC, SGLD, Kernel
from stalegrad.potentials import Linear
from stalegrad.protocol.architectures import StaleGradients
from stalegrad.protocol.linear_part import LowRank
from stalegrad.protocol.trace import Trace
from stalegrad.runs.replay import replay
from stalegrad.theory import Direction


@dataclass(frozen=True)
class Settings:
    """The constants of the experiment."""

    curvatures: tuple[float, ...] = (1.0, 5.0, 17.0, 65.0)
    staleness: tuple[int, ...] = (0, 4, 16, 64)
    runs: int = 64
    steps: int = 2000
    burn_in: int = 500
    thin: int = 5
    seed: int = 0


def kernels() -> dict[str, Kernel]:
    """Samplers whose steps are long for the stiffest direction."""
    return {
        "SGLD": SGLD(step_size=0.01),
        "SGHMC": SGHMC(step_size=0.08, friction=6.0),
        "BAOAB": BAOAB(step_size=0.12, friction=6.0),
    }


def measure(settings: Settings) -> dict[str, Any]:
    """The variance along each direction over its target: measured when compensated, and in closed form."""
    curvatures = np.array(settings.curvatures)
    size = curvatures.size
    random = np.random.Generator(np.random.Philox(key=settings.seed))
    directions, _ = np.linalg.qr(random.standard_normal((size, size)))
    factor = directions * np.sqrt(curvatures - 1)
    model = Linear(factor.T, np.zeros(size), dtype=np.float64)
    owned = StaleGradients(linear=LowRank(1.0, factor))
    rows = []
    for name, kernel in kernels().items():
        h = float(kernel.schedule(0))
        for tau in settings.staleness:
            run = replay(
                Trace.constant_staleness(tau, steps=settings.steps), model, kernel, architecture=owned,
                repeats=settings.runs, burn_in=settings.burn_in, thin=settings.thin, seed=settings.seed,
            )  # fmt: skip
            squares = ((run.draws[:, 0] @ directions) ** 2 * curvatures).mean(axis=1)  # (R, direction)
            plain = [kernel.recursion(h, tau, Direction(float(c))) for c in curvatures]
            rows.append(
                {
                    "kernel": name, "step_size": h, "staleness": tau, "variance": squares.mean(0).tolist(),
                    "error": (squares.std(0, ddof=1) / np.sqrt(settings.runs)).tolist(),
                    "closed_form": [
                        float(c) * kernel.recursion(h, 0, Direction(float(c))).variance for c in curvatures
                    ],
                    "plain": [r.variance / r.target_variance if r.stable else None for r in plain],
                }
            )  # fmt: skip
    return {**asdict(settings), "rows": rows}
