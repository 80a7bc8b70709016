"""Does dropping bias? Gradients that come too late are thrown away, and which are late may depend on their data.

d_i ~ N(θ, 1) with the prior N(0, 1), N = 1000 data and minibatches of J = 10, whose computing time is the sum of the
times of their data: log c_i = s (r x_i + √(1 − r²) e_i), where x_i is the datum in standard units, r the correlation
and s = 0.8. Eight workers, in virtual time, so that nothing else makes gradients late. Compared are a bound on
staleness that drops what is older, the same bound that lets workers wait, and no bound.
"""

from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from stalegrad._internal.types import Array, IntArray
from stalegrad.engines.simulation import Law, simulate
from stalegrad.kernels import SGLD
from stalegrad.potentials import GaussianMean
from stalegrad.potentials.base import Potential
from stalegrad.protocol.trace import Trace
from stalegrad.runs.replay import replay

POLICIES: dict[str, dict[str, Any]] = {
    "no bound": {"max_staleness": None},
    "drop": {"policy": "drop"},
    "wait": {"policy": "wait"},
}
"""The first one selects nothing: the others are compared with it, chain by chain, which have the same noise."""


@dataclass(frozen=True)
class Settings:
    """The constants of the experiment."""

    n_data: int = 1000
    batch_size: int = 10
    workers: int = 8
    max_staleness: int = 9
    correlations: tuple[float, ...] = (0.0, 0.3, 1.0)
    spread: float = 0.8
    """s, of the logarithm of a datum's time."""
    step_sizes: tuple[float, ...] = (0.02, 0.005)
    """In units of the posterior variance."""
    chains: int = 24
    steps: int = 2000
    burn_in: int = 400
    seed: int = 0


@dataclass(frozen=True, kw_only=True)
class MinibatchTime(Law):
    """As long as the data of the minibatch take.

    Args:
        potential: says which data these are.
        cost: seconds of each datum.
    """

    potential: Potential
    cost: Callable[[IntArray], float]

    def _seconds(self, seed: int, chain: int, worker: int, count: int) -> float:
        return self.cost(self.potential.minibatches.draw(seed, chain, worker, count))


def measure(settings: Settings) -> dict[str, Any]:
    """How far each policy shifts the mean of the draws, in posterior standard deviations, and what share it drops."""
    random = np.random.Generator(np.random.Philox(key=settings.seed))
    data, other = random.standard_normal((2, settings.n_data))
    x = (data - data.mean()) / data.std()
    model = GaussianMean(data, batch_size=settings.batch_size, dtype=np.float64)
    rows = []
    for correlation in settings.correlations:
        times = np.exp(settings.spread * (correlation * x + np.sqrt(1 - correlation**2) * other))
        traces = {name: _trace(settings, model, times, policy) for name, policy in POLICIES.items()}
        for h in settings.step_sizes:
            means = {name: _means(settings, model, trace, h) for name, trace in traces.items()}
            base = means["no bound"]
            for name, trace in traces.items():
                shift = means[name] - base
                rows.append(
                    {
                        "correlation": correlation, "policy": name, "step_size": h, "shift": float(shift.mean()),
                        "error": float(shift.std(ddof=1) / np.sqrt(len(shift))),
                        "dropped": 1 - sum(c.steps for c in trace.chains) / sum(len(c) for c in trace.chains),
                        "seconds": float(np.mean([chain.seconds for chain in trace.chains])),
                    }
                )  # fmt: skip
    return {**asdict(settings), "rows": rows}


def _trace(settings: Settings, model: Potential, times: Array, policy: dict[str, Any]) -> Trace:
    law = MinibatchTime(potential=model, cost=lambda indices: float(times[indices].sum()))
    bound: dict[str, Any] = {"max_staleness": settings.max_staleness, **policy}
    return simulate(
        workers=settings.workers,
        steps=settings.steps,
        compute=law,
        servers=settings.chains,
        seed=settings.seed,
        **bound,
    )


def _means(settings: Settings, model: Potential, trace: Trace, step_size: float) -> Array:
    """The mean of each chain's draws in posterior standard deviations."""
    precision = settings.n_data + 1.0
    draws = replay(trace, model, SGLD(step_size=step_size / precision), burn_in=settings.burn_in).draws[:, :, 0]
    return np.asarray(draws.mean(1) * np.sqrt(precision))
