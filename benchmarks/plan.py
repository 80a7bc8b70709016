"""Does ``stalegrad plan`` foresee what a run then does? Predicted over measured updates a second on this machine.

Two models: logistic regression on data like a9a, whose gradient is cheaper than its exchange, and a gradient that burns
5 ms of a core in Python, so that on the threads engine workers hold each other up. Each round calibrates as the command
does and then makes longer runs of its own with 1, 2 and 4 workers; the rounds' medians are reported. One and two
workers are within what the calibration has seen; four are beyond the cores of a small machine, where the model goes on.
``busy_elsewhere`` is the share of the time that others took from the calibration: figures with much of it say little.

    python benchmarks/plan.py [--rounds 3] [--seconds 10] [--json FILE]
"""

import argparse
import os
import statistics
from typing import Any

from rich.console import Console
from rich.table import Table

import harness
from stalegrad.planning import calibrate
from stalegrad.planning.contention import NO_BOUND, predict_here
from stalegrad.planning.scaling import updates_per_second
from stalegrad.potentials import Potential
from stalegrad.protocol.settings import Settings
from stalegrad.runs.jobs import JobFile, ModelFunction
from stalegrad.runs.sample import sample

MODELS = {
    "a9a, J=50": ModelFunction("a9a_like:logistic"),
    "5 ms gradient": ModelFunction("burning:Burning", {"size": 1000, "seconds": 0.005}),
}
ENGINES = ("processes", "threads")


def measured(job: JobFile, potential: Potential, workers: int, steps: int) -> float:
    """Updates a second of runs that the calibration knows nothing of: of the faster of two, as there."""
    steps = max(steps, 8 * workers)
    settings = {"steps": steps, "thin": steps, "workers": workers, "engine": job.engine_object(), "progress": False}
    runs = [sample(potential, job.kernels(potential.n_data), seed=seed, **settings) for seed in (1, 2)]
    return max(updates_per_second(run.trace.chains[0]) for run in runs)


def one_round(job: JobFile, potential: Potential, counts: list[int], seconds: float) -> dict[str, Any]:
    """Calibrate, then run."""
    calibration = calibrate(job, potential, seconds=seconds).calibration
    predicted = {count: predict_here(calibration, count, NO_BOUND).updates_per_second for count in counts}
    return {
        "busy_elsewhere": calibration.busy_elsewhere,
        "load": os.getloadavg()[0],
        "predicted": predicted,
        "measured": {
            count: measured(job, potential, count, round(rate * seconds / 4)) for count, rate in predicted.items()
        },
    }


def main() -> None:
    """Measure and report."""
    parser = argparse.ArgumentParser(description="Predicted over measured throughput on this machine.")
    parser.add_argument("--seconds", type=float, default=10.0, help="of each calibration (default %(default)s)")
    parser.add_argument("--workers", type=int, nargs="+", default=[1, 2, 4])
    harness.add_arguments(parser, rounds=3)
    arguments = parser.parse_args()
    cases: dict[str, list[dict[str, Any]]] = {}
    for _ in range(arguments.rounds):
        for name, model in MODELS.items():
            for engine in ENGINES:
                kernel = {"name": "SGLD", "step_size": 1e-6}
                job = JobFile(model=model, kernel=kernel, settings=Settings(steps=1), engine=engine)
                made = one_round(job, job.potential(), arguments.workers, arguments.seconds)
                cases.setdefault(f"{name}, {engine}", []).append(made)
    table = Table(title=f"Updates a second, predicted / measured = ratio: medians of {arguments.rounds}")
    table.add_column("")
    for count in arguments.workers:
        table.add_column(f"W = {count}", justify="right")
    table.add_column("busy elsewhere", justify="right")
    ratios: dict[str, dict[int, float]] = {}
    for name, rounds in cases.items():
        cells = []
        for count in arguments.workers:
            figures = [(r["predicted"][count], r["measured"][count]) for r in rounds]
            ratio = statistics.median(p / m for p, m in figures)
            ratios.setdefault(name, {})[count] = ratio
            predicted, seen = (statistics.median(column) for column in zip(*figures, strict=True))
            cells.append(f"{predicted:,.0f} / {seen:,.0f} = {ratio:.2f}")
        table.add_row(name, *cells, f"{statistics.median(r['busy_elsewhere'] for r in rounds):.0%}")
    Console(stderr=arguments.json == "-").print(table)
    harness.write_json({"ratio": ratios, "rounds": cases, "seconds": arguments.seconds}, arguments.json)


if __name__ == "__main__":
    main()
