"""Old gradients against the exact answer, as they are and with what the server knows of them taken into account."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from stalegrad._internal.types import Array
from stalegrad.engines import Threads
from stalegrad.experiments.demo.task import Exact, Settings
from stalegrad.potentials import Linear
from stalegrad.protocol.architectures import StaleGradients
from stalegrad.runs.result import Run
from stalegrad.runs.sample import sample
from stalegrad.theory import stale_sghmc

KINDS = {"as they are": StaleGradients(), "compensated": StaleGradients(linear=1.0)}
"""The server owns the curvature 1 of this posterior, or nothing."""


@dataclass(frozen=True, eq=False)
class Staleness:
    """What came out.

    Args:
        variances: of each weight over the exact one, by kind.
        runs: by kind.
        numbers: for summary.json.
    """

    variances: dict[str, Array]
    runs: dict[str, Run]
    numbers: dict[str, Any]


def measure(potential: Linear, exact: Exact, settings: Settings, report: Callable[[str], None]) -> Staleness:
    """Two real runs whose workers are far away."""
    away = Threads(slow=dict.fromkeys(range(settings.workers), settings.away))
    runs = {}
    for name, architecture in KINDS.items():
        report(f"{settings.workers} workers far away, old gradients {name}")
        runs[name] = sample(
            potential, settings.kernel, steps=settings.steps, burn_in=settings.burn_in, thin=settings.thin,
            workers=settings.workers, seed=settings.seed, engine=away, architecture=architecture, progress=False,
        )  # fmt: skip
    variances = {name: np.square(exact.standardised(run.draws[0])).mean(axis=0) for name, run in runs.items()}
    tau = {name: run.trace.chains[0].updates().staleness for name, run in runs.items()}
    expected = stale_sghmc(
        1.0, settings.step_size, settings.friction, np.bincount(tau["as they are"]) / len(tau["as they are"]),
        integrator="splitting", gradient_variance=potential.n_data / potential.batch_size - 1,
    )  # fmt: skip
    numbers = {
        "workers": settings.workers,
        "away": settings.away,
        "mean_staleness": {name: float(values.mean()) for name, values in tau.items()},
        "variance": {name: float(values.mean()) for name, values in variances.items()},
        "variance_predicted": float(expected.variance) if expected.stable else None,
    }
    return Staleness(variances, runs, numbers)
