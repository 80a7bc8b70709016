"""Does ``stalegrad plan --machines`` foresee what happens, and is its choice between chains and workers right?

    python benchmarks/plan_machines.py [--seconds 10] [--repeats 16] [--only desk rack link] [--json FILE]

Jobs on a regression whose posterior is known exactly, for three clusters: this machine; four machines of eight cores
with 10 Gbit/s; sixteen of four cores with 100 Mbit/s and five times as many weights. For each, as the command does: the
job is measured here, every layout of chains and workers is predicted, and one is recommended. Then every layout is
*run* on the simulated cluster, with the sampler, its minibatches and its staleness, for as many updates as planned, in
several repetitions: what comes out is its virtual time, the staleness, the variance along the stiffest direction over
the exact one, and the error of the posterior means over that of the job as it is written, which plan promises to be 1.
On this machine the layouts are also run for real, by processes.

The jobs differ in how far chains have to go: *near* ones start with draws from the posterior, as after a warm-up;
*far* ones 20 deviations away, with a burn-in of eight relaxation times; *far, owned* ones have the curvature owned by
the server (``StaleGradients(linear=…)``), so that staleness costs no bias. The layout that reaches the job's precision
first, by time × error², is compared with the one that plan recommends.
"""

import argparse
import os
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

import harness
import stalegrad as sg
from planned_model import model
from stalegrad.engines import Inline
from stalegrad.engines.simulation import LogNormal
from stalegrad.planning import Machines, Targets, advise_layout, forecast, layouts
from stalegrad.planning.calibration import Calibration
from stalegrad.planning.machines import Layout, link_of
from stalegrad.planning.scaling import updates_per_second
from stalegrad.protocol.settings import Settings
from stalegrad.runs.jobs import JobFile, ModelFunction

CLUSTERS = {
    "desk": (Machines(1, os.cpu_count() or 2), {}),
    "rack": (Machines(4, 8, 1.25e9), {}),
    "link": (Machines(16, 4, 1.25e7), {"size": 100, "n_data": 1000, "batch_size": 200}),
}
RELAXATION = 300  # updates in which the widest direction forgets
BURN_IN, KEPT = 8, 40  # relaxation times


@dataclass(frozen=True)
class Truth:
    """The posterior, and what follows from it."""

    mean: Any
    deviation: Any
    stiffest: Any
    """The direction of the largest curvature, a unit vector."""
    hessian: Any

    @classmethod
    def of(cls, potential: sg.potentials.Linear) -> "Truth":
        """That of a regression."""
        mean, covariance = potential.posterior()
        hessian = np.linalg.inv(covariance)
        return cls(mean, np.sqrt(np.diag(covariance)), np.linalg.eigh(hessian)[1][:, -1], hessian)


def job_of(kind: str, arguments: dict[str, Any], truth: Truth) -> JobFile:
    """A job as a user would write it: one chain with one worker."""
    step = 1 / (RELAXATION * float(np.linalg.eigvalsh(truth.hessian)[0]))
    burn_in = 0 if kind == "near" else BURN_IN * RELAXATION
    architecture = sg.StaleGradients(linear=np.diag(truth.hessian)) if "owned" in kind else sg.StaleGradients()
    return JobFile(
        model=ModelFunction("planned_model:model", arguments), kernel={"name": "SGLD", "step_size": step},
        settings=Settings(steps=burn_in + KEPT * RELAXATION, burn_in=burn_in, architecture=architecture),
        engine="processes",
    )  # fmt: skip


def starts(kind: str, truth: Truth, servers: int, seed: int) -> Any:
    """Where chains begin: draws from the posterior, or far away."""
    z = np.random.default_rng(seed).normal(size=(servers, len(truth.mean)))
    near = truth.mean + np.linalg.solve(np.linalg.cholesky(truth.hessian).T, z.T).T
    return near if kind == "near" else near + 20 * truth.deviation


@dataclass(frozen=True)
class Outcome:
    """What a layout did."""

    seconds: float
    mean_staleness: float
    variance: float
    """Along the stiffest direction, over the exact one."""
    error: float
    """Of posterior means, in deviations, a root mean square over weights and repetitions."""


def outcome(run: sg.Run, truth: Truth) -> Outcome:
    """What came out of a run with repetitions, or of a single one."""
    draws = np.asarray(run.draws)
    draws = draws if draws.ndim == 4 else draws[None]
    means = draws.mean(axis=(1, 2))
    along = (draws - truth.mean) @ truth.stiffest
    exact = 1 / float(truth.stiffest @ truth.hessian @ truth.stiffest)
    return Outcome(
        max(float(chain.time[-1]) for chain in run.trace.chains if chain.time is not None),
        float(np.mean([chain.staleness[chain.accepted].mean() for chain in run.trace.chains])),
        float((along**2).mean()) / exact,
        float(np.sqrt((((means - truth.mean) / truth.deviation) ** 2).mean())),
    )


def simulated(
    job: JobFile, layout: Layout, calibration: Calibration, machines: Machines, kind: str, truth: Truth, repeats: int
) -> Outcome:
    """A layout on the simulated cluster."""
    alone = calibration.alone
    network, _, _ = link_of(calibration, machines, layout.servers, layout.workers)
    engine = Inline(LogNormal(alone.gradient, calibration.variation), network, alone.served)
    potential = model(**job.model.arguments)
    kernel = sg.SGLD(step_size=layout.factor * job.kernel["step_size"])  # type: ignore[index,call-overload]
    thin = max(1, (layout.steps - layout.burn_in) // 200)
    run = sg.sample(
        potential, kernel, steps=layout.steps, burn_in=layout.burn_in, thin=thin, servers=layout.servers,
        workers=layout.workers, engine=engine, architecture=job.settings.architecture, repeats=repeats, seed=7,
        initial=starts(kind, truth, layout.servers, 3), progress=False,
    )  # fmt: skip
    return outcome(run, truth)


def real(job: JobFile, layout: Layout, kind: str, truth: Truth) -> dict[str, float]:
    """A layout on this machine: updates a second of a chain, staleness and the variance."""
    potential = model(**job.model.arguments)
    kernel = sg.SGLD(step_size=layout.factor * job.kernel["step_size"])  # type: ignore[index,call-overload]
    steps = max(layout.steps, 40_000)  # the variance is to be known to a few per cent
    runs = [
        sg.sample(
            potential, kernel, steps=steps, burn_in=layout.burn_in, thin=10, servers=layout.servers,
            workers=layout.workers, engine=job.engine, architecture=job.settings.architecture, seed=seed,
            initial=starts(kind, truth, layout.servers, 3), progress=False,
        )
        for seed in (1, 2)
    ]  # fmt: skip
    found = [outcome(run, truth) for run in runs]
    return {
        "updates_per_second": max(np.mean([updates_per_second(c) for c in run.trace.chains]) for run in runs),
        "mean_staleness": float(np.mean([each.mean_staleness for each in found])),
        "variance": float(np.mean([each.variance for each in found])),
    }


def planned(name: str, kind: str, seconds: float, repeats: int) -> dict[str, Any]:
    """One job on one cluster: predicted, run, compared."""
    machines, arguments = CLUSTERS[name]
    potential = model(**arguments)
    truth = Truth.of(potential)
    job = job_of(kind, arguments, truth)
    made = forecast(job, seconds=seconds, max_workers=1)
    calibration, sizes, there = made.calibration, made.step_sizes, machines
    assert sizes is not None, made.unchecked
    rows = layouts(job, calibration, sizes, there, Targets())
    best, reasons = advise_layout(rows, calibration, Targets())
    alone = replace(
        rows[-1], servers=1, workers=1, steps=job.settings.steps, burn_in=job.settings.burn_in, factor=1.0
    )  # fmt: skip
    written = simulated(job, alone, calibration, there, kind, truth, 2 * repeats)
    lines = []
    for layout in rows:
        got = simulated(job, layout, calibration, there, kind, truth, repeats)
        line = {
            "servers": layout.servers, "workers": layout.workers, "bottleneck": layout.bottleneck,
            "factor": layout.factor, "steps": layout.steps,
            "predicted": {
                "seconds": layout.seconds, "mean_staleness": layout.mean_staleness,
                "variance": 1 + (layout.error or 0.0),
            },
            "simulated": {
                "seconds": got.seconds, "mean_staleness": got.mean_staleness, "variance": got.variance,
                "error": got.error / written.error, "to_precision": got.seconds * (got.error / written.error) ** 2,
            },
        }  # fmt: skip
        if name == "desk":
            line["real"] = real(job, layout, kind, truth)
            line["predicted"]["updates_per_second"] = layout.updates_per_second
        lines.append(line)
    first = min(lines, key=lambda line: line["simulated"]["to_precision"])
    return {
        "layouts": lines, "recommended": [best.servers, best.workers], "reasons": reasons,
        "fastest": [first["servers"], first["workers"]], "as_written": vars(written),
        "gradient": calibration.alone.gradient, "exchange": calibration.exchange, "served": calibration.alone.served,
        "noise_error": sizes.noise_error, "load": os.getloadavg()[0],
    }  # fmt: skip


def shown(name: str, kind: str, found: dict[str, Any]) -> Table:
    """A line for every layout."""
    machines, _ = CLUSTERS[name]
    title = f"{name}, {kind}: {machines.count} × {machines.cores} cores. Recommended S × W = " + " × ".join(
        map(str, found["recommended"])
    )
    table = Table(title=title, title_justify="left", box=None, pad_edge=False)
    for heading in ("S × W", "τ", "run", "variance", "run", "seconds", "run", "error", "to precision", "real"):
        table.add_column(heading, justify="right", no_wrap=True)
    for line in found["layouts"]:
        said, got, true = line["predicted"], line["simulated"], line.get("real")
        table.add_row(
            f"{line['servers']} × {line['workers']}", f"{said['mean_staleness']:.1f}", f"{got['mean_staleness']:.1f}",
            f"{said['variance']:.3f}", f"{got['variance']:.3f}", f"{said['seconds']:.3g}", f"{got['seconds']:.3g}",
            f"{got['error']:.2f}", f"{got['to_precision']:.3g}",
            "" if true is None else f"{said['updates_per_second'] / true['updates_per_second']:.2f} × rate, "
            f"variance {true['variance']:.3f}",
        )  # fmt: skip
    return table


def main() -> None:
    """Plan, run and compare."""
    parser = argparse.ArgumentParser(description="Predictions of plan --machines against runs.")
    parser.add_argument("--seconds", type=float, default=10.0, help="of each calibration (default %(default)s)")
    parser.add_argument("--repeats", type=int, default=16)
    parser.add_argument("--only", nargs="+", default=list(CLUSTERS), choices=list(CLUSTERS))
    parser.add_argument("--kinds", nargs="+", default=["near", "far", "far, owned"])
    parser.add_argument("--json", help="file for the numbers")
    given = parser.parse_args()
    console = Console(stderr=given.json == "-", width=120)
    everything: dict[str, dict[str, Any]] = {}
    for name in given.only:
        for kind in given.kinds:
            found = planned(name, kind, given.seconds, given.repeats)
            everything.setdefault(name, {})[kind] = found
            console.print(shown(name, kind, found))
            console.print(*found["reasons"], sep="\n")
            console.print(f"first at the job's precision: {found['fastest']}; load {found['load']:.1f}\n")
    harness.write_json(everything, given.json)


if __name__ == "__main__":
    main()
