"""Figure 2: the variance of a posterior average against iterations and time, for one server with W = 1, …, 9 workers.

Model: Bayesian logistic regression on a9a with a bias, the prior N(0, 1) on every weight and minibatches of J = 50;
φ is the mean loss on the test set. All W start from the posterior's mode and make the same number L of updates, so that
W workers make L̄ = L/W each. Theory: Var φ̂_L = O(1/(Lh)), whatever the staleness; so at equal L̄ the variance of W
workers is that of one over W, and the iteration speedup, L of one worker over L̄ of W at equal variance, is W.

*Coordinates.* The curvature of U at the mode runs from 1 to 27,015, and φ depends on directions of curvature 2 to 20. A
chain with nine workers is stable below h ≈ 7e-6, where those directions need some 10⁶ updates before an average over
them has a variance that falls. So SGLD runs in the coordinates z of :class:`Whitened`, in which every curvature is 1: a
constant preconditioner, the same posterior, the same φ. There h = 5e-4 is far inside the limit (h·λ·(τ + ½) is 0.004),
minibatch noise adds 14 % to the noise, and the average has mixed after some 1/h = 2,000 updates. The dotted curves are
closed forms for the Gaussian approximation, see :meth:`Posterior.variance`.

*The paper's setting*, plain coordinates from θ = 0, is shown beside it as far as it mixes
(:mod:`stalegrad.experiments.fig2_plain`).

*Repetitions.* The noise of an update is a function of seed and update, not of the worker, so that repetition r of all W
shares it: what they share cancels in a speedup, and its bootstrap resamples pairs.

*Time.* Updates come at a steady rate, so that time speedup = iteration speedup · (updates a second of W) / (W · updates
a second of one). Three machines give the rates:

- *a cluster*, simulated: gradients take 5 ms, by assumption, and exchanging them much less, as in the paper. The
  staleness of all W comes from it;
- *slowed workers*, measured: the real engine on the machine at hand, each worker asleep for 5 ms after its gradient;
- *this machine* as it is: measured up to as many workers as it has cores, and simulated with calibrated times for
  all W. A gradient of this small model takes less time than handling it: asynchrony does not pay here.

*A budget that is over* leaves a smaller figure, which says what it has not: as many blocks of repetitions as all W
have, those W of the paper's setting that are made, and times if they were measured.
"""

import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from stalegrad._internal.numbers_file import write_numbers_and_picture
from stalegrad._internal.progress_bar import Report
from stalegrad._internal.types import Array
from stalegrad.analysis.estimates import precision, speedup_interval
from stalegrad.datasets import Dataset, a9a
from stalegrad.engines import available_cores
from stalegrad.experiments.fig2_picture import draw
from stalegrad.experiments.fig2_plain import Plain, plain_panel
from stalegrad.experiments.fig2_posterior import Posterior, posterior
from stalegrad.experiments.parts import NOT_KEPT, OutOfTimeError, Parts
from stalegrad.experiments.times import (
    Machine,
    measure_times,
    simulated_rates,
    time_worker,
)
from stalegrad.experiments.verdicts import CANNOT_TELL, Verdict, all_of, within
from stalegrad.kernels import SGLD
from stalegrad.planning.scaling import updates_per_second
from stalegrad.protocol.trace import Trace
from stalegrad.runs.replay import replay
from stalegrad.theory import stability_limit

CLUSTER = Machine(gradient=5e-3, variation=0.2, update=2e-5, latency=5e-5, bandwidth=1.25e8)
"""Assumed, not measured: gradients that take far longer than a gigabit network needs to exchange them."""

_BLOCK = 50  # repetitions in one compiled pass
_SIMULATED_STEPS = 4000


@dataclass(frozen=True)
class Settings:
    """The constants of figure 2."""

    runs: int = 200
    max_workers: int = 9
    seed: int = 0
    batch_size: int = 50
    step_size: float = 5e-4
    steps: int = 40_000
    thin: int = 200
    cluster: Machine = CLUSTER
    engine: str = "processes"
    timed_steps: int = 20_000
    slowed_seconds: float = 1.0
    """How long each number of slowed workers is timed."""
    plain: Plain = field(default_factory=Plain)

    @property
    def workers(self) -> list[int]:
        """W = 1, 2, …, up to the largest number."""
        return list(range(1, self.max_workers + 1))


def reproduce(
    settings: Settings | None = None,
    data: Dataset | None = None,
    report: Report = lambda what, share: None,
    parts: Parts = NOT_KEPT,
) -> dict[str, Any]:
    """Everything that the picture shows, as plain numbers.

    Args:
        settings: the constants.
        data: in place of a9a: sparse binary features, labels −1 and +1.
        report: called with what is being done and the share that is done.
        parts: keeps blocks of repetitions and what was timed, so that an interrupted figure goes on.

    Raises:
        OutOfTimeError: the time is over before there is one block of repetitions of every W.
    """
    settings = settings or Settings()
    begun = time.perf_counter()
    report("finding the mode", 0.0)
    data = data or a9a()
    model = posterior(data, settings.batch_size)
    traces = [settings.cluster.trace(w, settings.steps, model.potential.size, settings.seed) for w in settings.workers]
    estimates = sample_all(settings, model, traces, report, parts, data.name)
    panel: dict[str, Any] | None = None
    with suppress(OutOfTimeError):
        panel = plain_panel(settings.plain, data, settings.batch_size, settings.cluster, settings.seed, report, parts)
    timing = [settings.max_workers, settings.engine, settings.timed_steps, settings.slowed_seconds]
    rates: dict[str, Any] = {"cluster": asdict(settings.cluster)}
    with suppress(OutOfTimeError):
        rates = parts.numbers(
            "times", [data.name, available_cores(), *timing], lambda: measured_rates(settings, model, report)
        )
    numbers = {
        **asdict(settings),
        "runs": len(estimates[0]),
        "planned_runs": settings.runs,
        "workers": settings.workers,
        "posterior": _facts(settings, model),
        **iteration_speedups(settings, estimates),
        **_curves(settings, model, traces, estimates),
        "staleness": {
            "mean": [float(trace.chains[0].staleness.mean()) for trace in traces],
            "max": [int(trace.chains[0].staleness.max()) for trace in traces],
        },
        **rates,
        "plain": panel,
        "timed": "machine" in rates,
    }
    numbers["cluster"] |= {"updates_per_second": [updates_per_second(trace.chains[0]) for trace in traces]}
    _add_time_speedups(numbers)
    numbers["verdicts"] = [each.plain() for each in _verdicts(numbers)]
    return {**numbers, "seconds": round(time.perf_counter() - begun, 1)}


def sample_all(
    settings: Settings,
    model: Posterior,
    traces: list[Trace],
    report: Report,
    parts: Parts = NOT_KEPT,
    name: str = "",
) -> list[Array]:
    """φ̂ after every ``thin`` updates in every repetition, (R, L/thin), for each W.

    Blocks of repetitions are executed side by side, on as many threads as there are cores: compiled code frees the GIL.
    Where the time is over, R is what all W have: the first blocks.
    """
    same = [name, settings.batch_size, settings.step_size, settings.steps, settings.thin, settings.seed]
    same.append(asdict(settings.cluster))
    blocks = [(w, first) for first in range(0, settings.runs, _BLOCK) for w in reversed(range(len(traces)))]

    def execute(block: tuple[int, int]) -> Array | None:
        w, first = block
        count = min(_BLOCK, settings.runs - first)

        def make() -> Array:
            run = replay(
                traces[w], model.potential, SGLD(step_size=settings.step_size), seed=settings.seed,
                thin=settings.thin, repeats=count, first_repeat=first,
            )  # fmt: skip
            return run.running(model.phi, batched=True)[:, 0]

        workers = 1 + int(traces[w].chains[0].worker.max())
        try:
            return parts.array(f"w{workers}-r{first}", [*same, workers, first, count], make)
        except OutOfTimeError:
            return None

    results: dict[tuple[int, int], Array] = {}
    with ThreadPoolExecutor(available_cores()) as pool:
        for block, result in zip(blocks, pool.map(execute, blocks), strict=True):
            if result is not None:
                results[block] = result
                report(f"sampling, {block[0] + 1} workers", len(results) / len(blocks))
    whole = [all((w, first) in results for w in range(len(traces))) for first in range(0, settings.runs, _BLOCK)]
    firsts = [_BLOCK * k for k in range(whole.index(False) if False in whole else len(whole))]
    if not firsts:
        raise OutOfTimeError
    return [np.concatenate([results[w, first] for first in firsts]) for w in range(len(traces))]


def iteration_speedups(settings: Settings, estimates: list[Array]) -> dict[str, Any]:
    """L of one worker over L̄ of W workers at equal variance, with 95 % intervals of pairs and of independent runs."""
    updates = settings.thin * np.arange(1, estimates[0].shape[1] + 1)
    speedups, paired, independent = [1.0], [[1.0, 1.0]], [[1.0, 1.0]]
    for w in settings.workers[1:]:
        both = updates, estimates[0], updates / w, estimates[w - 1]
        for intervals, pairs in ((paired, True), (independent, False)):
            result = speedup_interval(*both, seed=settings.seed, paired=pairs)
            intervals.append([result.low, result.high])
        speedups.append(float(result))
    return {
        "iteration_speedup": speedups,
        "iteration_speedup_interval": paired,
        "iteration_speedup_interval_unpaired": independent,
    }


def measured_rates(settings: Settings, model: Posterior, report: Report) -> dict[str, Any]:
    """Updates a second: of this machine, measured and simulated, and of slowed workers."""
    potential, kernel, engine = model.potential, SGLD(step_size=settings.step_size), settings.engine
    report("timing a gradient, an update and their exchange", 0.0)
    alone = time_worker(potential, kernel, engine, steps=settings.timed_steps)
    measured, slowed, pause = [alone.updates_per_second], [], settings.cluster.gradient
    for w in range(2, min(available_cores(), settings.max_workers) + 1):
        report(f"timing {w} workers", 0.0)
        measured.append(measure_times(potential, kernel, w, engine, steps=settings.timed_steps).updates_per_second)
    for done, w in enumerate(settings.workers, 1):
        report(f"timing {w} slowed workers", done / len(settings.workers))
        steps = max(4 * w, round(w * settings.slowed_seconds / pause))
        slowed.append(measure_times(potential, kernel, w, engine, steps=steps, slowed=pause).updates_per_second)
    simulated = simulated_rates(
        alone.machine(), settings.workers, potential.size, settings.seed, steps=_SIMULATED_STEPS
    )
    return {
        "calibration": {**alone._asdict(), "engine": engine},
        "cores": available_cores(),
        "machine": {"updates_per_second": simulated, "updates_per_second_measured": measured},
        "cluster": {**asdict(settings.cluster), "updates_per_second_slowed": slowed},
    }


def _add_time_speedups(numbers: dict[str, Any]) -> None:
    """Time speedup = iteration speedup · (updates a second of W) / (W · updates a second of one)."""
    cluster = numbers["cluster"]

    def scaled(rates: list[float], values: list[Any]) -> list[Any]:
        rows = zip(numbers["workers"], rates, values, strict=False)  # fewer were measured than simulated
        return [(np.array(value) * rate / (w * rates[0])).tolist() for w, rate, value in rows]

    speedups, rates = numbers["iteration_speedup"], cluster["updates_per_second"]
    cluster["time_speedup"] = scaled(rates, speedups)
    cluster["time_speedup_interval"] = scaled(rates, numbers["iteration_speedup_interval"])
    if not numbers["timed"]:
        return
    measured = numbers["machine"]["updates_per_second_measured"]
    numbers["time_speedup_measured"] = {
        "workers": numbers["workers"][: len(measured)],
        "speedup": scaled(measured, speedups),
        "engine": numbers["engine"],
    }
    numbers["time_speedup_simulated"] = scaled(numbers["machine"]["updates_per_second"], speedups)
    cluster["time_speedup_slowed"] = scaled(cluster["updates_per_second_slowed"], speedups)


def _verdicts(numbers: dict[str, Any]) -> list[Verdict]:
    """Linear speedup: that W workers need 1/W of the iterations each, within a fifth, by intervals."""
    found = []
    for title, part in (("mixing coordinates", numbers), ("the paper's setting", numbers["plain"])):
        statement = f"At equal variance the iteration speedup of W workers is W, within a fifth ({title})"
        if part is None:
            found.append(Verdict(statement, CANNOT_TELL, "not computed"))
            continue
        rows = [
            (w, speedup, interval)
            for w, speedup, interval in zip(
                part["workers"], part["iteration_speedup"], part["iteration_speedup_interval"], strict=True
            )
            if w > 1
        ]
        outcomes = [
            CANNOT_TELL if speedup is None else within(interval[0], interval[1], 0.8 * w, 1.2 * w)
            for w, speedup, interval in rows
        ] + [CANNOT_TELL for _ in part.get("missing", [])]
        evidence = ", ".join(
            f"W = {w}: " + ("no common level" if s is None else f"{s:.2f} ({i[0]:.2f}–{i[1]:.2f})") for w, s, i in rows
        )
        evidence += "".join(f", W = {w}: not computed" for w in part.get("missing", []))
        found.append(Verdict(statement, all_of(outcomes), evidence))
    workers, cluster = numbers["workers"], numbers["cluster"]
    times = [
        within(low, high, 0.8 * w, 1.2 * w)
        for w, (low, high) in zip(workers, cluster["time_speedup_interval"], strict=True)
    ]
    listed = zip(workers, cluster["time_speedup"], cluster["time_speedup_interval"], strict=True)
    found.append(
        Verdict(
            f"So is the time speedup, on a simulated cluster with gradients of {1e3 * cluster['gradient']:g} ms",
            all_of(times),
            ", ".join(f"W = {w}: {s:.2f} ({a:.2f}–{b:.2f})" for w, s, (a, b) in listed if w > 1),
        )
    )
    return found


def _facts(settings: Settings, model: Posterior) -> dict[str, Any]:
    mode = np.zeros((1, model.potential.size), np.float32)
    return {
        "loss_at_mode": float(model.phi(mode)[0]),
        "accuracy_at_mode": model.accuracy,
        "curvature": list(model.curvature),
        "stability_limit": float(stability_limit(1.0, settings.max_workers - 1)),
        "stability_limit_original": float(stability_limit(model.curvature[1], settings.max_workers - 1)),
    }


def _curves(settings: Settings, model: Posterior, traces: list[Trace], estimates: list[Array]) -> dict[str, Any]:
    """Variance against updates, updates per worker and the cluster's seconds; and its closed form."""
    updates = settings.thin * np.arange(1, estimates[0].shape[1] + 1)
    curves = []
    for w, trace, values in zip(settings.workers, traces, estimates, strict=True):
        result = precision(values, 0.0)
        seconds = trace.chains[0].time
        assert seconds is not None
        curves.append(
            {
                "updates_per_worker": (updates / w).tolist(),
                "seconds": seconds[updates - 1].tolist(),
                "variance": result.variance.tolist(),
                "variance_error": result.variance_error.tolist(),
                "mean": values.mean(0).tolist(),
            }
        )
    ends = sorted({1, settings.max_workers})
    exact = [model.variance(settings.step_size, w - 1, settings.steps)[updates - 1].tolist() for w in ends]
    return {
        "updates": updates.tolist(),
        "curves": curves,
        "closed_form": {"workers": ends, "variance": exact},
    }


def save(numbers: dict[str, Any], out: Path) -> tuple[Path, Path]:
    """Write fig2.json and fig2.png into the folder ``out``."""
    return write_numbers_and_picture(out, "fig2", numbers, draw)
