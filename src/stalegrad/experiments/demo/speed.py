"""Workers help: the same run with one worker and with two, against the clock."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from stalegrad._internal.types import Array
from stalegrad.analysis.estimates import effective_sample_size
from stalegrad.experiments.demo.task import Exact, Settings
from stalegrad.potentials import Linear
from stalegrad.runs.result import Run
from stalegrad.runs.sample import sample

ORDER = (1, 2, 2, 1)
"""Numbers of workers, in turn: what else the machine does hits both alike."""
_POINTS = 200


@dataclass(frozen=True, eq=False)
class Curve:
    """A run against the clock.

    Args:
        workers: W.
        seconds: since its first update.
        average: φ̂ of the variance of a weight over the exact one, until then.
        error: of the estimated posterior means, in exact standard deviations: root mean square over all weights.
    """

    workers: int
    seconds: Array
    average: Array
    error: Array


@dataclass(frozen=True, eq=False)
class Speed:
    """What came out.

    Args:
        curves: one for each run, in order.
        run: the last one with two workers.
        numbers: for summary.json.
    """

    curves: tuple[Curve, ...]
    run: Run
    numbers: dict[str, Any]


def measure(potential: Linear, exact: Exact, settings: Settings, report: Callable[[str], None]) -> Speed:
    """Run one worker and two by turns, and hold them against the clock."""
    runs = []
    for turn, workers in enumerate(ORDER):
        report(f"{workers} worker{'s' * (workers != 1)}, run {turn + 1} of {len(ORDER)}")
        runs.append(
            sample(
                potential, settings.kernel, steps=settings.steps, burn_in=settings.burn_in, thin=settings.thin,
                workers=workers, seed=settings.seed + turn, engine="threads", progress=False,
            )
        )  # fmt: skip
    by_workers = {workers: [run for w, run in zip(ORDER, runs, strict=True) if w == workers] for workers in (1, 2)}
    ess = {workers: float(np.mean([_effective(run) * _rate(run) for run in by_workers[workers]])) for workers in (1, 2)}
    rates = {workers: [_rate(run) for run in of] for workers, of in by_workers.items()}
    numbers = {
        "updates_per_second": {str(workers): float(np.mean(both)) for workers, both in rates.items()},
        "effective_draws_per_second": {str(workers): value for workers, value in ess.items()},
        "speedup": float(np.mean(rates[2]) / np.mean(rates[1])),
        "speedup_effective": ess[2] / ess[1],
        "variance": {str(w): float(np.mean([_variance(run, exact) for run in of])) for w, of in by_workers.items()},
        "mean_staleness": float(runs[2].trace.chains[0].staleness.mean()),
    }
    curves = tuple(curve(run, exact, workers) for workers, run in zip(ORDER, runs, strict=True))
    return Speed(curves, runs[2], numbers)


def curve(run: Run, exact: Exact, workers: int) -> Curve:
    """Averages until each of some moments, as the trace has them on its clock."""
    trace = run.trace.chains[0]
    assert trace.time is not None
    z = exact.standardised(run.draws[0])
    count = np.arange(1, len(z) + 1)
    at = np.unique(np.geomspace(10, len(z), _POINTS).astype(int)) - 1
    update = run.trace.burn_in + (at + 1) * run.trace.thin - 1
    seconds = trace.updates().time[np.minimum(update, trace.steps - 1)] - trace.time[0]  # type: ignore[index]
    means = np.cumsum(z, axis=0)[at] / count[at, None]
    squares = np.cumsum(np.square(z).mean(axis=1))[at] / count[at]
    return Curve(workers, seconds, squares, np.sqrt(np.square(means).mean(axis=1)))


def _rate(run: Run) -> float:
    """Updates a second, of the second half: the first may have had something to compile."""
    time = run.trace.chains[0].time
    assert time is not None
    half = len(time) // 2
    return float((len(time) - half - 1) / (time[-1] - time[half]))


def _effective(run: Run) -> float:
    """Effective draws an update, of the weight with the median."""
    return float(np.median(effective_sample_size(run.draws))) / run.trace.chains[0].steps


def _variance(run: Run, exact: Exact) -> float:
    return float(np.square(exact.standardised(run.draws)).mean())
