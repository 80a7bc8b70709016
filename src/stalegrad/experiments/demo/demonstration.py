"""The demonstration from beginning to end: measure, draw, write."""

import platform
import time
from dataclasses import asdict
from importlib.metadata import version
from pathlib import Path
from typing import Any

from rich.console import Console

from stalegrad._internal.numbers_file import write_numbers
from stalegrad.engines import available_cores
from stalegrad.experiments.demo import pictures, speed, staleness, survival
from stalegrad.experiments.demo.compiling import compile_first
from stalegrad.experiments.demo.page import page
from stalegrad.experiments.demo.task import Exact, Settings, model
from stalegrad.experiments.demo.terminal import show

_PACKAGES = ("stalegrad", "numpy", "numba", "scipy", "matplotlib")


def demonstrate(settings: Settings, out: Path, *, console: Console | None = None) -> dict[str, Any]:
    """Run it and leave report.html, summary.json, trace.npz, three pictures and the folder of a run in ``out``.

    Args:
        settings: the budget.
        out: made if it is not there.
        console: where to print; None for the standard output.

    Returns:
        The numbers of summary.json.
    """
    console = console or Console()
    out.mkdir(parents=True, exist_ok=True)  # before the work: a place that cannot be written to should not cost it
    begun = time.perf_counter()
    potential = model()
    exact = Exact.of(potential)
    console.print(
        "[bold]Late gradients, right answers.[/bold] A regression with 60 weights, whose posterior is known exactly; "
        "SGHMC, whose gradients come from workers that nobody waits for.", highlight=False,
    )  # fmt: skip
    with console.status("compiling (the first time only)…") as status:

        def report(what: str) -> None:
            status.update(f"{what}…")

        compile_first(potential, settings, out)
        fast = speed.measure(potential, exact, settings, report)
        stale = staleness.measure(potential, exact, settings, report)
        survived = survival.measure(potential, settings, out, report)
        report("the runs' own diagnosis")
        diagnosed = [fast.run.diagnose(potential), stale.runs["compensated"].diagnose(potential)]
        found = [finding for findings in diagnosed for finding in findings]
        checks = sum(len(findings.measurements) for findings in diagnosed)
        numbers: dict[str, Any] = {
            "settings": asdict(settings),
            "cores": available_cores(),
            "speed": fast.numbers,
            "staleness": stale.numbers,
            "survival": survived.numbers,
            "findings": len(found),
            "diagnosis": "; ".join(each.measurement.what for each in found) or f"no findings in {checks} checks",
            "versions": {"python": platform.python_version(), **{name: version(name) for name in _PACKAGES}},
        }
        report("drawing")
        drawn = pictures.versions(fast, stale, survived)
    numbers["seconds"] = time.perf_counter() - begun
    stale.runs["compensated"].trace.save(out / "trace.npz")
    for name, picture in drawn.items():
        (out / f"{name}.png").write_bytes(picture.light)
    write_numbers(out / "summary.json", numbers)
    (out / "report.html").write_text(page(numbers, drawn, str(out)), encoding="utf-8")
    show(console, numbers, out)
    return numbers
