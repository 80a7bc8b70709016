"""The comparison: every architecture on both targets at several numbers of workers, in numbers.

An estimate is the mean of φ over the second half of the draws so far, of all chains. Its error is the root mean square
over repetitions, in units of the posterior's standard deviation of φ: what a single exact draw would have is 1.
"""

import time
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from stalegrad._internal.numbers_file import write_numbers_and_picture
from stalegrad._internal.progress_bar import Report
from stalegrad._internal.types import Array
from stalegrad.analysis.estimates import consensus_draws
from stalegrad.datasets import Dataset, a9a
from stalegrad.experiments.architectures.contenders import CONTENDERS, Cluster, Contender, run_of
from stalegrad.experiments.architectures.picture import draw
from stalegrad.experiments.architectures.targets import RareEvents, Target, logistic_regression, rare_events
from stalegrad.protocol.architectures import Consensus, architecture_table
from stalegrad.runs.result import Run


@dataclass(frozen=True)
class Settings:
    """The constants.

    Args:
        runs: repetitions behind each error.
        workers: the W to compare.
        gradients: in all, of every contender, on a9a.
        rare_gradients: on the skewed target.
        batch_size, step_size: J and h on a9a.
        rare_step_size: on the skewed target.
        reference_steps: of the chain behind the truth on a9a.
        draws: of each chain that are looked at, about.
        points: of each curve.
        level: the error to be reached.
        cluster: for times.
        seed: of everything.
    """

    runs: int = 10
    workers: tuple[int, ...] = (1, 4, 9)
    gradients: int = 9_000
    rare_gradients: int = 36_000
    batch_size: int = 500
    step_size: float = 3e-3
    rare_step_size: float = 2e-3
    reference_steps: int = 4_000
    draws: int = 120
    points: int = 24
    level: float = 0.5
    cluster: Cluster = field(default_factory=Cluster)
    seed: int = 0


def reproduce(
    settings: Settings | None = None, data: Dataset | None = None, report: Report = lambda what, share: None
) -> dict[str, Any]:
    """All curves of all contenders, as plain numbers.

    Args:
        settings: the constants.
        data: in place of a9a.
        report: called with what is being done and the share that is done.
    """
    settings = settings or Settings()
    begun = time.perf_counter()
    report("the truth about logistic regression", 0.0)
    chosen = data or a9a()
    targets = {
        "a9a": (
            logistic_regression(
                chosen, settings.batch_size, settings.step_size, settings.reference_steps, settings.seed
            ),
            settings.gradients,
        ),
        "rare": (rare_events(settings.rare_step_size), settings.rare_gradients),
    }
    jobs = [
        (key, contender, workers)
        for key in targets
        for workers in settings.workers
        for contender in CONTENDERS
        if workers > 1 or contender.few
    ]
    found: dict[str, list[dict[str, Any]]] = {key: [] for key in targets}
    densities: dict[str, Any] = {}
    for number, (key, contender, workers) in enumerate(jobs):
        target, gradients = targets[key]
        report(f"{contender.name} with {workers} workers on {key}", 0.1 + 0.9 * number / len(jobs))
        curves, draws = compare(contender, target, workers, gradients, settings)
        found[key].append(curves)
        if key == "rare" and workers == max(settings.workers):
            densities[contender.name] = _histogram(draws)
    return {
        **asdict(settings),
        "targets": {
            key: {
                "title": target.title,
                "truth": target.truth,
                "truth_error": target.truth_error,
                "deviation": target.deviation,
                "step_size": target.step_size,
                "gradients": gradients,
                "contenders": found[key],
            }
            for key, (target, gradients) in targets.items()
        },
        "densities": {"workers": max(settings.workers), "exact": _exact(targets["rare"][0]), **densities},
        "seconds": round(time.perf_counter() - begun, 1),
    }


def compare(
    contender: Contender, target: Target, workers: int, gradients: int, settings: Settings
) -> tuple[dict[str, Any], Array]:
    """The curves of one contender, and the draws of its second half, (repetition, draw, n)."""
    run, seconds = run_of(
        contender, target, workers, gradients, settings.cluster, settings.draws, repeats=settings.runs,
        seed=settings.seed,
    )  # fmt: skip
    estimates = Estimates(run, target)
    chains, count = seconds.shape
    spent = run.trace.cost()
    messages = chains * count if contender.local else spent.messages
    shares = np.unique(np.geomspace(max(4, count // 30), count, settings.points).astype(int))
    by_share = np.array([estimates.at(np.full(chains, d)) for d in shares])
    # A time counts once all chains have draws; before, an estimate would be that of the fast ones.
    moments = np.geomspace(seconds[:, min(3, count - 1)].max(), seconds.max(), settings.points)
    by_time = np.array([estimates.at((seconds <= t).sum(axis=1)) for t in moments])
    error, error_over_time = (_error(values, target) for values in (by_share, by_time))
    at = {
        "gradients": (shares / count * spent.gradients).tolist(),
        "messages": (shares / count * messages).tolist(),
        "seconds": moments.tolist(),
    }
    final = (by_share[-1] - target.truth) / target.deviation
    curves = {
        "name": contender.name,
        "workers": workers,
        "architecture": architecture_table(run.trace.architecture),
        "staleness": float(np.mean([chain.staleness.mean() for chain in run.trace.chains])),
        **at,
        "error": error.tolist(),
        "error_over_time": error_over_time.tolist(),
        "end": {
            "error": float(error[-1]),
            "bias": float(final.mean()),
            "bias_error": float(final.std(ddof=1) / np.sqrt(len(final))),
            "spread": float(final.std(ddof=1)),
        },
        "to_level": {
            "gradients": reached(at["gradients"], error, settings.level),
            "messages": reached(at["messages"], error, settings.level),
            "seconds": reached(at["seconds"], error_over_time, settings.level),
        },
    }
    return curves, estimates.second_half()


class Estimates:
    """φ̂ of a run in repetitions, after any number of draws of each chain.

    Args:
        run: with repeats.
        target: what is wanted.
    """

    def __init__(self, run: Run, target: Target) -> None:
        self._draws, self._phi = run.draws, target.phi
        self._combined = isinstance(run.trace.architecture, Consensus)
        self._values = None if self._combined else run.evaluate(target.phi, batched=True)

    def at(self, counts: Any) -> Array:
        """φ̂ of every repetition when chain s has made its first ``counts[s]`` draws."""
        if self._values is None:
            draws = self._agreed(int(min(counts)))
            values = self._phi(draws.reshape(-1, draws.shape[-1])).reshape(draws.shape[:2])
            return np.asarray(values.mean(axis=1))
        sums = [self._values[:, s, c // 2 : c].sum(axis=1) for s, c in enumerate(counts)]
        return np.asarray(sum(sums) / sum(c - c // 2 for c in counts))

    def second_half(self) -> Array:
        """The draws behind the last estimate, (repetition, draw, n)."""
        repeats, _, count, size = self._draws.shape
        if self._values is None:
            return self._agreed(count)
        return self._draws[:, :, count // 2 :].reshape(repeats, -1, size)

    def _agreed(self, count: int) -> Array:
        return consensus_draws(self._draws[:, :, count // 2 : count], weights="diagonal")


def reached(spent: list[float], error: Array, level: float) -> float | None:
    """What was spent when the error came down to a level for good, between two points; None if it never did.

    Errors that pass through a level and come back are those of an estimate on its way from one bias to another.

    >>> reached([1.0, 2.0, 4.0], np.array([1.0, 0.5, 0.25]), 0.25), reached([1.0, 2.0], np.array([0.4, 1.0]), 0.5)
    (4.0, None)
    """
    k = int(np.flatnonzero(np.append(True, error > level))[-1])  # the first point after the last above the level
    if k == len(error):
        return None
    if k == 0:
        return float(spent[0])
    share = np.log(error[k - 1] / level) / np.log(error[k - 1] / error[k])
    return float(np.exp(np.log(spent[k - 1]) + share * np.log(spent[k] / spent[k - 1])))


def _error(estimates: Array, target: Target) -> Array:
    """The root mean square error of estimates (point, repetition)."""
    return np.asarray(np.sqrt(np.square(estimates - target.truth).mean(axis=1)) / target.deviation)


_EDGES = np.linspace(-4.0, 0.5, 46)


def _histogram(draws: Array) -> list[float]:
    """The density of θ of the skewed target, in bins."""
    density = np.histogram(draws, _EDGES)[0] / (draws.size * (_EDGES[1] - _EDGES[0]))
    return [float(value) for value in density]


def _exact(target: Target) -> dict[str, list[float]]:
    potential = target.potential
    assert isinstance(potential, RareEvents)
    theta = np.linspace(-8.0, 3.0, 2201)
    inside = (theta >= _EDGES[0]) & (theta <= _EDGES[-1])
    return {
        "edges": _EDGES.tolist(),
        "theta": theta[inside].tolist(),
        "density": potential.density(theta)[inside].tolist(),
    }


def save(numbers: dict[str, Any], out: Path) -> tuple[Path, Path]:
    """Write architectures.json and architectures.png into the folder ``out``."""
    return write_numbers_and_picture(out, "architectures", numbers, draw)
