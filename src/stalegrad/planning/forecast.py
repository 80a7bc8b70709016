"""A job's future: calibrate it here, simulate a cluster for it, and say what to choose."""

import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from stalegrad._internal.errors import GradientError
from stalegrad._internal.look.card import Card, Kind
from stalegrad._internal.numbers_file import without_nan, write_numbers
from stalegrad._internal.text import duration
from stalegrad._internal.validation import real_number, whole_number
from stalegrad.analysis.diagnostics.checkup import FEWEST_GRADIENTS, MOST_GRADIENTS
from stalegrad.analysis.diagnostics.evidence import NotChecked
from stalegrad.engines.simulation import LogNormal
from stalegrad.kernels.noise import MAX_WORKERS
from stalegrad.planning import scaling
from stalegrad.planning.advice import Advice, Targets, advise
from stalegrad.planning.calibration import Calibration, Measured, Report, calibrate, measure_layouts
from stalegrad.planning.cluster import Cluster
from stalegrad.planning.contention import Bound, predict_here
from stalegrad.planning.machines import Machines, to_measure
from stalegrad.planning.row import Row
from stalegrad.planning.step_sizes import StepSizes, error_text, measure_step_sizes
from stalegrad.planning.timing import RoundTrip
from stalegrad.potentials import Potential
from stalegrad.runs.failures import RunFailed
from stalegrad.runs.jobs import JobFile
from stalegrad.runs.result import Run
from stalegrad.runs.sample import sample

_SIMULATED = 4000  # updates for each number of workers, but never fewer than 20 a worker
_OF_MEMORY = 0.5  # that short runs may take
_CROWD = 2  # workers a core that this machine is predicted for
_FURTHER, _DRAWS = 4000, 4  # updates at most that a short run goes on for, and draws that it keeps


@dataclass(frozen=True)
class Forecast:
    """What came out.

    Args:
        calibration: what was measured.
        cluster: that was simulated.
        rows: for each number of workers.
        step_sizes: what theory says of the step size; None if it was not checked.
        unchecked: why not, or "".
        advice: what to choose.
        layouts_here: chains × workers that were run on this machine, by (S, W).
    """

    calibration: Calibration
    cluster: Cluster
    rows: tuple[Row, ...]
    step_sizes: StepSizes | None
    unchecked: str
    advice: Advice
    layouts_here: Mapping[tuple[int, int], RoundTrip] = field(default_factory=dict)

    def table(self) -> dict[str, Any]:
        """All numbers, in plain types for JSON: what is infinite becomes None."""
        sizes = self.step_sizes
        stiffness = None if sizes is None else {"step_size": sizes.step_size, "curvature": sizes.curvature}
        rows = [{**asdict(row.cluster), **row.table()} for row in self.rows]
        calibration = asdict(self.calibration)
        calibration["round_trips"] = [trip._asdict() for trip in self.calibration.round_trips]
        calibration["exchange"] = self.calibration.exchange
        table = {
            "calibration": calibration,
            "cluster": asdict(self.cluster),
            "step_size": stiffness,
            "unchecked": self.unchecked,
            "predictions": rows,
            "advice": asdict(self.advice),
        }
        plain: dict[str, Any] = without_nan(table)
        return plain

    def _repr_html_(self) -> str:
        """What notebooks show: what is recommended and why, and a line for every number of workers."""
        advice = self.advice
        facts = [
            (f"{advice.servers} × {advice.workers}", "chains × workers"), (f"{advice.steps:,}", "updates a chain"),
            (f"{advice.batch_size:,}", "data a minibatch"), (f"{advice.step_size_factor:.3g} ×", "the job's step size"),
            (duration(advice.seconds), "on the cluster"), (f"{advice.core_hours:.3g}", "core hours"),
        ]  # fmt: skip
        rows = [
            (
                f"{row.workers:,}", f"{row.cluster.mean_staleness:.1f}", f"{row.cluster.updates_per_second:,.0f}",
                f"{row.cluster.speedup:.1f}", f"{row.cluster.server_busy:.0%}", error_text(row.error),
                "" if row.here is None else f"{row.here.updates_per_second:,.0f}",
            )
            for row in self.rows
        ]  # fmt: skip
        headings = ("workers", "mean τ", "updates/s", "speedup", "server busy", "variance off", "updates/s here")
        notes: list[tuple[Kind, str]] = [("warning", text) for text in advice.warnings]
        notes += [("", text) for text in advice.reasons]
        notes += [("soft", f"The step size was not checked: {self.unchecked}.")] if self.unchecked else []
        return Card("Plan", "", facts, headings=headings, rows=rows, notes=notes).html()

    def save(self, out: Path, **more: Any) -> tuple[Path, Path]:
        """Write plan.json, with more entries if there are any, and scaling.png into the folder ``out``."""
        text, picture = out / "plan.json", out / "scaling.png"
        write_numbers(text, {**self.table(), **more})
        scaling.draw([row.cluster for row in self.rows], picture)
        return text, picture


def forecast(
    job: JobFile,
    *,
    cluster: Cluster | None = None,
    max_workers: int = 1024,
    machines: Machines | None = None,
    targets: Targets | None = None,
    seconds: float = 20.0,
    seed: int = 0,
    report: Report = lambda what: None,
) -> Forecast:
    """Measure a job on this machine and predict it for 1, 2, 4, … workers a chain.

    Args:
        job: what is to be run.
        cluster: to simulate.
        max_workers: the largest number of workers to try.
        machines: to put chains and workers on, see :func:`~stalegrad.planning.layouts`. Short runs are made of what
            this machine can tell about them.
        targets: what the run is to achieve.
        seconds: for measurements, about.
        seed: of everything random.
        report: called with what is being done.

    >>> from stalegrad.runs.jobs import JobFile
    >>> kernel = {"name": "SGLD", "step_size": 1e-3}
    >>> job = JobFile.from_table({"steps": 100, "model": "stalegrad.testing:small_model", "kernel": kernel})
    >>> found = forecast(job, seconds=0.2, max_workers=4)
    >>> [row.workers for row in found.rows], found.advice.workers >= 1
    ([1, 2, 4], True)
    """
    whole_number("max_workers", max_workers, least=1, most=MAX_WORKERS)
    real_number("seconds", seconds, above=0)
    potential = job.potential()
    measured = calibrate(job, potential, seconds=seconds, seed=seed, report=report)
    report("the curvature")
    sizes, unchecked = _step_sizes(measured, potential, seconds, job)
    wanted = [] if machines is None else affordable(to_measure(measured.calibration, machines), measured.calibration)
    here = measure_layouts(job, measured, wanted, seconds=seconds / 2, seed=seed, report=report)
    report("simulating")
    counts = scaling.worker_numbers(max_workers)
    made = predict(
        job, measured.calibration, sizes, unchecked, counts=counts, cluster=cluster or Cluster(),
        targets=targets or Targets(), seed=seed,
    )  # fmt: skip
    return replace(made, layouts_here=here)


def predict(
    job: JobFile,
    calibration: Calibration,
    sizes: StepSizes | None = None,
    unchecked: str = "",
    *,
    counts: Sequence[int],
    cluster: Cluster,
    targets: Targets,
    seed: int = 0,
) -> Forecast:
    """The forecast that follows from a calibration. No clock: the same arguments give the same forecast."""
    bound = Bound(job.settings.max_staleness, job.settings.policy)
    alone = calibration.alone
    predictions = scaling.predict(
        counts, law=lambda workers: LogNormal(alone.gradient, calibration.variation), steps=_SIMULATED,
        network=cluster.network(calibration), update=alone.served, seed=seed,
        **bound._asdict(),
    )  # fmt: skip
    most = max(4, _CROWD * calibration.cores // calibration.servers)
    rows = tuple(
        Row(
            cluster=prediction,
            here=predict_here(calibration, prediction.workers, bound, seed) if prediction.workers <= most else None,
            error=None if sizes is None else sizes.error(prediction.mean_staleness),
        )
        for prediction in predictions
    )
    return Forecast(
        calibration, cluster, rows, sizes, unchecked, advise(job, calibration, cluster, rows, sizes, targets)
    )


def affordable(wanted: Sequence[tuple[int, int]], calibration: Calibration) -> list[tuple[int, int]]:
    """Those (S, W) whose workers, were each a process like this one, take no more than half of the memory here."""
    most = _OF_MEMORY * os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return [each for each in wanted if each[0] * each[1] * calibration.process_bytes <= most]


def _step_sizes(measured: Measured, potential: Potential, seconds: float, job: JobFile) -> tuple[StepSizes | None, str]:
    """What is known of the step size, or why nothing is."""
    if measured.warmed_up:
        return None, "the warm-up of a run finds it, for the workers that the run has"
    each = measured.calibration.gradients[potential.batch_size]
    affordable = int(seconds / 4 / each)
    if 4 * affordable < FEWEST_GRADIENTS:  # a calibration may take a little longer than it was given, not much
        needed = math.ceil(FEWEST_GRADIENTS * each)
        return None, f"the curvature takes {FEWEST_GRADIENTS} gradients: give --seconds {needed}"
    budget = min(max(affordable, FEWEST_GRADIENTS), MOST_GRADIENTS)
    run = _gone_on(measured, potential, job, affordable)
    try:
        sizes = measure_step_sizes(
            run, potential, measured.kernels, gradients=budget, architecture=job.settings.architecture
        )  # fmt: skip
        return sizes, ""
    except NotChecked as reason:
        return None, str(reason)


def _gone_on(measured: Measured, potential: Potential, job: JobFile, gradients: int) -> Run:
    """The last short run, gone on with in this thread: far from the posterior gradients are noisier than within."""
    steps = min(job.settings.steps, gradients // job.settings.servers, _FURTHER)
    if steps < _DRAWS or measured.calibration.diverged:
        return measured.run
    try:
        return sample(
            potential, measured.kernels, steps=steps, thin=steps // _DRAWS, servers=job.settings.servers,
            initial=np.asarray(measured.run.draws)[:, -1], engine="inline", progress=False,
        )  # fmt: skip
    except (GradientError, RunFailed):
        return measured.run
