"""Does ``stalegrad plan --machines`` foresee what happens, and is its choice between chains and workers right?

    python benchmarks/plan_machines.py [--seconds 10] [--gradients 2e6] [--only desk rack link] [--json FILE]
    python benchmarks/plan_machines.py --only desk --engine threads --work 100 --kept 40   # real runs of 1 ms gradients
    python benchmarks/plan_machines.py --only rack link --plans FILE         # measures; again: simulates, at any time

Jobs on a regression whose posterior is known exactly, for three clusters: this machine; four machines of eight cores
with 10 Gbit/s; sixteen of four cores with 100 Mbit/s and five times as many weights. For each, as the command does: the
job is measured here, every layout of chains and workers is predicted, and one is recommended. Then every layout is
*run* for as many updates as planned, several times with other chances: on this machine for real, on the others by the
simulator, with the sampler, its minibatches and its staleness. What comes out is its rate, the staleness, the variance
along the stiffest direction over the exact one, and the error of the posterior means over that of the job as it is
written, which is known in closed form and which plan promises. The time to the job's precision is burn-in + kept ×
error².

The jobs differ in how far chains have to go: *near* ones start with draws from the posterior, as after a warm-up;
*far* ones 20 deviations away, with a burn-in of eight relaxation times; *far, owned* ones have the curvature owned by
the server (``StaleGradients(linear=…)``), so that staleness costs no bias. The layout that reaches the job's precision
first is compared with the one that plan recommends. What two seeds of the same thing differ by is given as ±.
"""

import argparse
import os
import pickle
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

import harness
import stalegrad as sg
from planned_model import model
from stalegrad.engines import Inline
from stalegrad.engines.simulation import LogNormal
from stalegrad.planning import Forecast, Machines, Targets, advise_layout, forecast, layouts
from stalegrad.planning.calibration import Calibration
from stalegrad.planning.machines import Layout, parts_of
from stalegrad.planning.scaling import updates_per_second
from stalegrad.protocol.settings import Settings
from stalegrad.runs.jobs import JobFile, ModelFunction

CLUSTERS = {
    "desk": (Machines(1, os.cpu_count() or 2), {}),
    "rack": (Machines(4, 8, 1.25e9), {}),
    "link": (Machines(16, 4, 1.25e7), {"size": 100, "n_data": 1000, "batch_size": 200}),
}
QUICK = {"work": 1}  # of a model whose gradients are not to be timed
RELAXATION = 300  # updates in which the widest direction forgets
BURN_IN, KEPT = 8, 200  # relaxation times


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


def job_of(kind: str, arguments: dict[str, Any], truth: Truth, engine: str, kept: int) -> JobFile:
    """A job as a user would write it: one chain with one worker."""
    step = 1 / (RELAXATION * float(np.linalg.eigvalsh(truth.hessian)[0]))
    burn_in = 0 if kind == "near" else BURN_IN * RELAXATION
    architecture = sg.StaleGradients(linear=np.diag(truth.hessian)) if "owned" in kind else sg.StaleGradients()
    return JobFile(
        model=ModelFunction("planned_model:model", arguments), kernel={"name": "SGLD", "step_size": step},
        settings=Settings(steps=burn_in + kept * RELAXATION, burn_in=burn_in, architecture=architecture),
        engine=engine,
    )  # fmt: skip


def starts(kind: str, truth: Truth, servers: int, seed: int) -> Any:
    """Where chains begin: draws from the posterior, or far away."""
    z = np.random.default_rng(seed).normal(size=(servers, len(truth.mean)))
    near = truth.mean + np.linalg.solve(np.linalg.cholesky(truth.hessian).T, z.T).T
    return near if kind == "near" else near + 20 * truth.deviation


def error_as_written(truth: Truth, potential: sg.potentials.Linear, step: float, kept: int) -> float:
    """Of posterior means in deviations, a root mean square over weights: SGLD with fresh gradients, one chain.

    Along an eigenvector of the Hessian it is an autoregression, x ← a x + noise with a = 1 − hλ, whose noise has the
    variance 2h + h²v, v being that of minibatch gradients at the posterior mean. A mean of n has the variance
    σ² ((1 + a)/(1 − a) n − 2a (1 − aⁿ)/(1 − a)²)/n².
    """
    curvatures, vectors = np.linalg.eigh(truth.hessian)
    batches, point = potential.minibatches, np.ascontiguousarray(truth.mean, potential.dtype)
    gradients = np.array([potential.gradient(point, batches.draw_outside_run(1, count)) for count in range(2000)])
    noise = (gradients @ vectors).var(axis=0)
    a = 1 - step * curvatures
    variance = (2 * step + step**2 * noise) / (1 - a**2)
    of_mean = variance * ((1 + a) / (1 - a) * kept - 2 * a * (1 - a**kept) / (1 - a) ** 2) / kept**2
    weights = (vectors**2) @ of_mean / truth.deviation**2
    return float(np.sqrt(weights.mean()))


@dataclass(frozen=True)
class Outcome:
    """What a layout did."""

    updates_per_second: float
    """Of a chain."""
    mean_staleness: float
    variance: float
    """Along the stiffest direction, over the exact one."""
    variance_error: float
    """Standard error of that, from what repetitions differ by."""
    error: float
    """Of posterior means, in deviations, a root mean square over weights and repetitions."""
    repeats: int

    def to_precision(self, layout: Layout, wanted: float) -> float:
        """Seconds after which the error would be the one wanted: what follows the burn-in divides its square."""
        kept = (layout.steps - layout.burn_in) * (self.error / wanted) ** 2
        return (layout.burn_in + kept) / self.updates_per_second


def outcome(runs: list[sg.Run], truth: Truth) -> Outcome:
    """What came out of repetitions."""
    draws = np.concatenate([_with_repeats(run.draws) for run in runs])
    means = draws.mean(axis=(1, 2))
    exact = 1 / float(truth.stiffest @ truth.hessian @ truth.stiffest)
    along = (((draws - truth.mean) @ truth.stiffest) ** 2).mean(axis=(1, 2)) / exact
    chains = [chain for run in runs for chain in run.trace.chains]
    return Outcome(
        float(np.mean([updates_per_second(chain) for chain in chains])),
        float(np.mean([chain.staleness[chain.accepted].mean() for chain in chains])),
        float(along.mean()),
        float(along.std(ddof=1) / len(along) ** 0.5),
        float(np.sqrt((((means - truth.mean) / truth.deviation) ** 2).mean())),
        len(draws),
    )


def _with_repeats(draws: Any) -> Any:
    draws = np.asarray(draws)
    return draws if draws.ndim == 4 else draws[None]


def run_of(
    job: JobFile, layout: Layout, kind: str, truth: Truth, seed: int, more: dict[str, Any], **settings: Any
) -> sg.Run:
    """A layout for as many updates as planned, with more arguments of the model."""
    kernel = sg.SGLD(step_size=layout.factor * job.kernel["step_size"])  # type: ignore[index,call-overload]
    return sg.sample(
        model(**job.model.arguments | more), kernel, steps=layout.steps, burn_in=layout.burn_in,
        thin=max(1, (layout.steps - layout.burn_in) // 1000), servers=layout.servers, workers=layout.workers,
        architecture=job.settings.architecture, seed=seed, initial=starts(kind, truth, layout.servers, seed),
        progress=False, **settings,
    )  # fmt: skip


def simulated(
    job: JobFile,
    layout: Layout,
    calibration: Calibration,
    machines: Machines,
    kind: str,
    truth: Truth,
    gradients: float,
    here: Any,
) -> Outcome:
    """A layout on the simulated cluster, for about so many gradients."""
    parts = parts_of(calibration, machines, layout.servers, layout.workers, here)
    engine = Inline(LogNormal(parts.gradient, calibration.variation), parts.network, parts.served)
    repeats = int(np.clip(gradients / (layout.servers * layout.steps), 2, 32))
    return outcome([run_of(job, layout, kind, truth, 7, QUICK, engine=engine, repeats=repeats)], truth)


def real(job: JobFile, layout: Layout, kind: str, truth: Truth, seeds: int) -> Outcome:
    """A layout on this machine."""
    runs = [run_of(job, layout, kind, truth, seed, {}, engine=job.engine) for seed in range(1, seeds + 1)]
    return outcome(runs, truth)


@dataclass(frozen=True)
class Plan:
    """A job on a cluster, and what plan says of it."""

    name: str
    kind: str
    job: JobFile
    made: Forecast
    rows: list[Layout]
    best: Layout
    reasons: list[str]

    @classmethod
    def of(cls, name: str, kind: str, seconds: float, engine: str, kept: int = KEPT, work: int | None = None) -> "Plan":
        """Measured here, predicted there."""
        machines, arguments = CLUSTERS[name]
        more = arguments if work is None else arguments | {"work": work}
        job = job_of(kind, more, Truth.of(model(**arguments, **QUICK)), engine, kept)
        made = forecast(job, seconds=seconds, max_workers=1, machines=machines)
        rows = layouts(job, made.calibration, made.step_sizes, machines, Targets(), here=made.layouts_here)
        return cls(name, kind, job, made, rows, *advise_layout(rows, made.calibration, Targets()))


def compared(plan: Plan, seeds: int, gradients: float, chains: Sequence[int] = ()) -> dict[str, Any]:
    """What plan says of every layout, or of those with so many chains, and what it then does."""
    machines, arguments = CLUSTERS[plan.name]
    potential = model(**arguments, **QUICK)
    truth, calibration, sizes = Truth.of(potential), plan.made.calibration, plan.made.step_sizes
    assert sizes is not None, plan.made.unchecked
    step: float = plan.job.kernel["step_size"]  # type: ignore[index,call-overload,assignment]
    wanted = error_as_written(truth, potential, step, plan.job.settings.steps - plan.job.settings.burn_in)
    lines = []
    for layout in plan.rows:
        if chains and layout.servers not in chains:
            continue
        if layout.measured:
            got = real(plan.job, layout, plan.kind, truth, seeds)
        else:
            got = simulated(
                plan.job, layout, calibration, machines, plan.kind, truth, gradients, plan.made.layouts_here
            )
        lines.append({
            "servers": layout.servers, "workers": layout.workers, "bottleneck": layout.bottleneck,
            "factor": layout.factor, "steps": layout.steps, "burn_in": layout.burn_in,
            "predicted": {
                "updates_per_second": layout.updates_per_second, "seconds": layout.seconds,
                "mean_staleness": layout.mean_staleness, "variance": 1 + (layout.error or 0.0),
            },
            "found": {
                **vars(got), "error": got.error / wanted, "seconds": got.to_precision(layout, wanted),
            },
        })  # fmt: skip
    first = min(lines, key=lambda line: line["found"]["seconds"])
    return {
        "layouts": lines, "recommended": [plan.best.servers, plan.best.workers], "reasons": plan.reasons,
        "fastest": [first["servers"], first["workers"]], "error_as_written": wanted,
        "real": plan.best.measured, "gradient": calibration.alone.gradient, "exchange": calibration.exchange,
        "served": calibration.alone.served, "noise_error": sizes.noise_error,
        "busy_elsewhere": calibration.busy_elsewhere,
    }  # fmt: skip


def shown(name: str, kind: str, found: dict[str, Any]) -> Table:
    """A line for every layout."""
    machines, _ = CLUSTERS[name]
    title = (
        f"{name}, {kind}: {machines.count} × {machines.cores} cores, {'real runs' if found['real'] else 'simulated'}"
    )
    table = Table(title=title, title_justify="left", box=None, pad_edge=False)
    for heading in ("S × W", "updates/s", "run", "τ", "run", "variance off", "run", "seconds", "run", "ratio"):
        table.add_column(heading, justify="right", no_wrap=True)
    for line in found["layouts"]:
        said, got = line["predicted"], line["found"]
        chosen = [line["servers"], line["workers"]] == found["recommended"]
        table.add_row(
            f"{'→ ' * chosen}{line['servers']} × {line['workers']}",
            f"{line['servers'] * said['updates_per_second']:,.0f}",
            f"{line['servers'] * got['updates_per_second']:,.0f}",
            f"{said['mean_staleness']:.1f}", f"{got['mean_staleness']:.1f}",
            f"{100 * said['variance'] - 100:.1f} %",
            f"{100 * got['variance'] - 100:.1f} ± {100 * got['variance_error']:.1f} %",
            f"{said['seconds']:.3g}", f"{got['seconds']:.3g}", f"{said['seconds'] / got['seconds']:.2f}",
        )  # fmt: skip
    return table


def main() -> None:
    """Plan, run and compare."""
    parser = argparse.ArgumentParser(description="Predictions of plan --machines against runs.")
    parser.add_argument("--seconds", type=float, default=10.0, help="of each calibration (default %(default)s)")
    parser.add_argument("--gradients", type=float, default=2e6, help="of a simulated layout, about")
    parser.add_argument("--seeds", type=int, default=8, help="real runs of a layout (default %(default)s)")
    parser.add_argument("--jobs", type=int, default=2, help="clusters to simulate at once (default %(default)s)")
    parser.add_argument("--only", nargs="+", default=list(CLUSTERS), choices=list(CLUSTERS))
    parser.add_argument("--kinds", nargs="+", default=["near", "far", "far, owned"])
    parser.add_argument("--engine", default="processes", help="of the jobs (default %(default)s)")
    parser.add_argument("--kept", type=int, default=KEPT, help="relaxation times after the burn-in")
    parser.add_argument("--work", type=int, help="how often each gradient is computed: 10 times take about 0.1 ms")
    parser.add_argument("--chains", type=int, nargs="+", default=[], help="only layouts of so many: few take longest")
    parser.add_argument("--plans", type=Path, help="file that keeps what was measured: if it is there, nothing is")
    parser.add_argument("--json", help="file for the numbers")
    given = parser.parse_args()
    console = Console(stderr=given.json == "-", width=120)
    if given.plans is not None and given.plans.exists():
        kept = pickle.loads(given.plans.read_bytes())
        plans = [plan for plan in kept if plan.name in given.only and plan.kind in given.kinds]
    else:
        plans = [
            Plan.of(name, kind, given.seconds, given.engine, given.kept, given.work)
            for name in given.only
            for kind in given.kinds
        ]
        if given.plans is not None:
            given.plans.write_bytes(pickle.dumps(plans))
            return
    everything: dict[str, dict[str, Any]] = {}
    asked = given.seeds, given.gradients, given.chains
    measured = {id(plan): compared(plan, *asked) for plan in plans if plan.best.measured}
    with ProcessPoolExecutor(given.jobs, mp_context=get_context("spawn")) as pool:  # quiet cores were for the above
        left = [plan for plan in plans if id(plan) not in measured]
        later = {id(plan): pool.submit(compared, plan, *asked) for plan in left}
        for plan in plans:
            found = measured[id(plan)] if id(plan) in measured else later[id(plan)].result()
            everything.setdefault(plan.name, {})[plan.kind] = found
            console.print(shown(plan.name, plan.kind, found))
            console.print(*found["reasons"], sep="\n")
            taken = f"{found['busy_elsewhere']:.0%} of the time taken by others"
            console.print(f"first at the job's precision: {found['fastest']}; {taken}\n")
            if given.json != "-":
                harness.write_json(everything, given.json)  # each time: the rest may take long
    harness.write_json(everything, given.json)


if __name__ == "__main__":
    main()
