"""The demonstration from beginning to end: sample, replay, analyse, write."""

import platform
import time
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console

from stalegrad._internal.errors import StalegradError
from stalegrad._internal.numbers_file import write_numbers
from stalegrad.analysis.diagnostics import LEAST_DRAWS
from stalegrad.analysis.plots import DARK, LIGHT
from stalegrad.analysis.report import write_report
from stalegrad.datasets.digits import Digits, digits
from stalegrad.experiments.demo.analysis import Analysis, analyse
from stalegrad.experiments.demo.page import page
from stalegrad.experiments.demo.pictures import pictures
from stalegrad.experiments.demo.predictions import FUNCTIONS
from stalegrad.experiments.demo.summary import FUNCTION_NAMES
from stalegrad.experiments.demo.task import ENGINE, Settings
from stalegrad.experiments.demo.terminal import show
from stalegrad.potentials import Softmax
from stalegrad.runs.result import Run
from stalegrad.runs.sample import replay, sample

_WARM_UP = 20  # updates that compile everything before the clock starts
_PACKAGES = ("stalegrad", "numpy", "numba", "scikit-learn", "scipy", "arviz-stats", "matplotlib")


def demonstrate(
    settings: Settings, out: Path, *, console: Console | None = None, progress: bool = True
) -> dict[str, Any]:
    """Run it and leave report.html, run.html, summary.json, trace.npz and four pictures in the folder ``out``.

    Args:
        settings: the budget.
        out: made if it is not there.
        console: where to print; None for the standard output.
        progress: show how far the sampling is.

    Returns:
        The numbers of summary.json.
    """
    console = console or Console()
    out.mkdir(parents=True, exist_ok=True)  # before the work: a place that cannot be written to should not cost it
    data = digits()
    model = data.model(settings.batch_size)
    _introduce(console, settings, data, model)
    run, seconds = _sampled(console, settings, data, model, progress)
    with console.status("replaying the run from its trace, in one thread…"):
        again = replay(run.trace, model, settings.kernel)
    with console.status("predicting the test digits with every draw…"):
        analysis = analyse(run, model, data, settings, seconds)
    analysis.numbers["replayed"] = bool(np.array_equal(again.draws, run.draws))
    analysis.numbers["versions"] = {"python": platform.python_version(), **{name: version(name) for name in _PACKAGES}}
    with console.status("drawing…"):
        _write(analysis, run, data, out)
    show(console, analysis.numbers, out)
    return analysis.numbers


def _introduce(console: Console, settings: Settings, data: Digits, model: Softmax) -> None:
    lines = (
        "[bold]Which digit is it?[/bold] "
        f"Bayesian softmax regression on {len(data.train):,} images, {model.size} weights.",
        f"SGHMC, {settings.servers} chains of {settings.steps:,} updates, {settings.workers} workers each.",
        "Nobody waits, so gradients arrive when the chain has already moved on.",
    )
    console.print(*lines, "", sep="\n", highlight=False)


def _sampled(console: Console, settings: Settings, data: Digits, model: Softmax, progress: bool) -> tuple[Run, float]:
    """The run, and the seconds it took without compilation."""

    def log_likelihood(theta: Any) -> float:
        return float(model.log_likelihood(theta, data.test, data.test_y).mean())

    with console.status("compiling (the first time only)…"):
        sample(model, settings.kernel, steps=_WARM_UP, workers=2, engine=ENGINE, progress=False)
        log_likelihood(model.initial())
    begun = time.perf_counter()
    run = sample(
        model,
        settings.kernel,
        steps=settings.steps,
        servers=settings.servers,
        workers=settings.workers,
        max_staleness=settings.max_staleness,
        burn_in=settings.burn_in,
        thin=settings.thin,
        seed=settings.seed,
        engine=ENGINE,
        progress=progress,
        functions={"test log-likelihood of a draw": log_likelihood} if progress else None,
    )
    seconds = time.perf_counter() - begun
    if run.draws.shape[1] < LEAST_DRAWS:
        raise StalegradError("the run was stopped before it had draws enough for a report: nothing was written")
    return run, seconds


def _write(analysis: Analysis, run: Run, data: Digits, out: Path) -> None:
    light, dark = pictures(analysis, data, LIGHT), pictures(analysis, data, DARK)
    run.trace.save(out / "trace.npz")
    for name, picture in light.items():
        (out / f"{name}.png").write_bytes(picture)
    write_numbers(out / "summary.json", analysis.numbers)
    (out / "report.html").write_text(page(analysis.numbers, light, dark, str(out)), encoding="utf-8")
    values = analysis.predictions.functions
    functions = {FUNCTION_NAMES[name]: values[:, :, index] for index, name in enumerate(FUNCTIONS)}
    title, findings = "The run behind the digits", run.diagnose(data.model(analysis.numbers["settings"]["batch_size"]))
    write_report(run, out / "run.html", title=title, functions=functions, findings=findings)
