"""Figure 2 in the paper's own setting: SGLD on a9a in plain coordinates from θ = 0, as far as it mixes.

The variance of φ̂ begins at 0, since all runs start from one place, rises while they leave it, and falls as 1/(Lh) only
once the directions that φ depends on have mixed. At a step that nine workers can bear these need some 10⁶ updates, so
what is seen here in affordable time is mostly the way there; speedups are read where the curves have begun to fall.
"""

from contextlib import suppress
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from stalegrad._internal.errors import ArgumentError
from stalegrad._internal.progress_bar import Report
from stalegrad._internal.types import Array
from stalegrad.analysis.estimates import speedup_interval
from stalegrad.datasets import Dataset
from stalegrad.experiments.logistic_loss import MeanLogisticLoss
from stalegrad.experiments.parts import NOT_KEPT, OutOfTimeError, Parts
from stalegrad.experiments.times import Machine
from stalegrad.kernels import SGLD
from stalegrad.potentials import Logistic
from stalegrad.protocol.trace import Trace
from stalegrad.runs.replay import replay

_BLOCK = 25  # repetitions in one compiled pass


@dataclass(frozen=True)
class Plain:
    """The constants of the panel. The step is half of what is stable with nine workers."""

    runs: int = 50
    workers: tuple[int, ...] = (1, 2, 4, 6, 9)
    step_size: float = 3e-6
    steps: int = 60_000
    thin: int = 300


def plain_panel(
    plain: Plain,
    data: Dataset,
    batch_size: int,
    cluster: Machine,
    seed: int,
    report: Report,
    parts: Parts = NOT_KEPT,
) -> dict[str, Any]:
    """Variance of φ̂ against updates for each W, and the iteration speedup where it can be read.

    Where the time is over, of those W that are made; :class:`OutOfTimeError` if that is not one worker at least.
    """
    same = [data.name, batch_size, asdict(cluster), seed, plain.step_size, plain.steps, plain.thin]
    potential = Logistic(data.X, data.y, batch_size=batch_size, intercept=True)
    loss = MeanLogisticLoss(data.X_test, data.y_test)
    estimates: list[Array] = []
    made: list[int] = []
    for done, workers in enumerate(plain.workers):
        report(f"the paper's setting, {workers} workers", done / len(plain.workers))
        trace = cluster.trace(workers, plain.steps, potential.size, seed)
        blocks = []
        for first in range(0, plain.runs, _BLOCK):
            count = min(_BLOCK, plain.runs - first)

            def make(trace: Trace = trace, first: int = first, count: int = count) -> Array:
                run = replay(
                    trace, potential, SGLD(step_size=plain.step_size), seed=seed, thin=plain.thin, first_repeat=first,
                    repeats=count, initial=np.zeros(potential.size, np.float32),
                )  # fmt: skip
                return run.running(loss, batched=True)[:, 0]

            with suppress(OutOfTimeError):
                blocks.append(parts.array(f"plain-w{workers}-r{first}", [*same, workers, first, count], make))
        if sum(map(len, blocks)) == plain.runs:
            estimates.append(np.concatenate(blocks))
            made.append(workers)
        elif workers == plain.workers[0]:
            raise OutOfTimeError
    report("the paper's setting", 1.0)
    updates = plain.thin * np.arange(1, estimates[0].shape[1] + 1)
    speedups: list[float | None] = [1.0]
    intervals: list[list[float] | None] = [[1.0, 1.0]]
    for workers, values in zip(made[1:], estimates[1:], strict=True):
        try:
            found = speedup_interval(updates, estimates[0], updates / workers, values, seed=seed, paired=True)
        except ArgumentError:  # no level that both have left behind
            speedups.append(None)
            intervals.append(None)
            continue
        speedups.append(float(found))
        intervals.append([found.low, found.high])
    return {
        **asdict(plain),
        "workers": made,
        "missing": [workers for workers in plain.workers if workers not in made],
        "updates": updates.tolist(),
        "variance": [values.var(0, ddof=1).tolist() for values in estimates],
        "mean_at_end": [float(values[:, -1].mean()) for values in estimates],
        "iteration_speedup": speedups,
        "iteration_speedup_interval": intervals,
    }
