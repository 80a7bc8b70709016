"""Do step sizes that depend on staleness keep the accuracy of few workers?

Update l is made with h_l = h f(τ_l), where f falls with the staleness and has the mean 1 over the run, and averages are
weighted by h_l. The rules f are those of :mod:`stalegrad.experiments.staleness_rules`.

*Model*: figure 1's, with centred data: d_i ~ N(θ, 1), θ ~ N(0, 1), N = 1000, φ = θ², with exact gradients (κ = ½) and
with minibatches of J = 10 (κ = 50). *Clusters*: nine equal workers; nine whose times vary by 20 %, as the simulated
cluster of figures 3 and 4 has them; nine with exponential times; and nine of which one is ten times slower.
For every step size the chain makes the same number of updates; all figures are in units of the posterior variance.
"""

import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from stalegrad._internal.numbers_file import write_numbers_and_picture
from stalegrad.analysis.estimates import precision
from stalegrad.engines.simulation import Exponential, Law, LogNormal, simulate
from stalegrad.experiments.shades import shades
from stalegrad.experiments.staleness_rules import RULES, factors
from stalegrad.kernels import SGLD
from stalegrad.potentials import GaussianMean, Potential
from stalegrad.protocol.trace import Trace
from stalegrad.runs.replay import replay

CLUSTERS: dict[str, tuple[int, Law | float]] = {
    "9 equal": (9, 1.0),
    "9 varying": (9, LogNormal(1.0, 0.2)),
    "9 exponential": (9, Exponential(1.0)),
    "9, one slow": (9, LogNormal(1.0, 0.2, factors={0: 10.0})),
}


@dataclass(frozen=True)
class Settings:
    """The constants of the experiment."""

    runs: int = 400
    batch_runs: int = 60
    seed: int = 0
    n_data: int = 1000
    batch_size: int = 10
    steps: int = 4000
    relaxations: float = 5.0
    """Of the chain before draws count."""
    step_sizes: tuple[float, ...] = (0.002, 0.004, 0.008, 0.016, 0.032, 0.064)
    """h λ, on average."""
    few: tuple[int, ...] = (1, 2)
    """Numbers of equal workers whose accuracy is to be kept."""


def reproduce(
    settings: Settings | None = None, report: Callable[[str, float], None] = lambda what, share: None
) -> dict[str, Any]:
    """Everything that the picture shows, as plain numbers."""
    settings = settings or Settings()
    begun = time.perf_counter()
    models = {"exact gradients": exact_model(settings), "minibatches": minibatch_model(settings)}
    clusters = [*(f"{workers} equal" for workers in settings.few), *CLUSTERS]
    results, laws = [], {}
    for number, name in enumerate(clusters):
        trace = trace_of(settings, name)
        tau = trace.chains[0].staleness
        laws[name] = {"mean": float(tau.mean()), "deviation": float(tau.std()), "largest": int(tau.max())}
        for place, (kind, model) in enumerate(models.items()):
            report(f"{name}, {kind}", (number + place / 2) / len(clusters))
            results += [
                {"cluster": name, "model": kind, "rule": rule, **measure(settings, kind, model, trace, rule)}
                for rule in (RULES if name in CLUSTERS else ["constant"])
            ]
    numbers = {**asdict(settings), "staleness": laws, "results": results}
    return {**numbers, "seconds": round(time.perf_counter() - begun, 1)}


def trace_of(settings: Settings, cluster: str) -> Trace:
    """The order of arrivals, long enough for the smallest step size."""
    workers, law = CLUSTERS.get(cluster) or (int(cluster.split()[0]), 1.0)
    longest = settings.steps + burn_in(settings, min(settings.step_sizes))
    return simulate(workers=workers, steps=longest, compute=law, seed=settings.seed)


def exact_model(settings: Settings) -> Potential:
    """All that matters of N centred data is their mean, and coordinates that share no data are independent runs."""
    return GaussianMean(np.zeros((1, settings.runs)), noise_scale=settings.n_data**-0.5, dtype=np.float64)


def minibatch_model(settings: Settings) -> Potential:
    """Figure 1's model on centred data."""
    data = np.random.Generator(np.random.Philox(key=settings.seed)).standard_normal(settings.n_data)
    return GaussianMean(data - data.mean(), batch_size=settings.batch_size, dtype=np.float64)


def burn_in(settings: Settings, step_size: float) -> int:
    """Updates of each chain before its draws count."""
    return int(np.ceil(settings.relaxations / step_size))


def measure(settings: Settings, kind: str, model: Potential, trace: Trace, rule: str) -> dict[str, Any]:
    """Bias and MSE of φ̂ with steps by a rule, for every mean step size."""
    exact = kind == "exact gradients"
    curvature = settings.n_data + 1.0
    kappa = 0.5 if exact else (1 + settings.n_data / settings.batch_size) / 2
    rows = []
    for size in settings.step_sizes:
        first = burn_in(settings, size)
        chain = trace.chains[0].head(first + settings.steps)
        steps = size / curvature * factors(rule, chain.staleness, kappa)
        followed = replace(trace, chains=(replace(chain, step_size=steps),))
        repeats = None if exact else settings.batch_runs
        with np.errstate(over="ignore", invalid="ignore"):
            run = replay(followed, model, SGLD(step_size=size / curvature), burn_in=first, repeats=repeats)
            squares = np.square(run.draws[0] if exact else run.draws[:, 0, :, 0].T) * curvature  # (draw, run)
        estimates = np.average(squares, axis=0, weights=steps[first:])
        found = precision(estimates, 1.0)
        rows.append({"bias": float(found.bias), "bias_error": float(found.bias_error), "mse": float(found.mse),
                     "mse_error": float(found.mse_error)})  # fmt: skip
    best = int(np.argmin([row["mse"] for row in rows]))
    tau = trace.chains[0].staleness
    weights = factors(rule, tau, kappa)
    first_order = float((weights * tau).mean() + kappa * np.square(weights).mean())
    return {
        **{name: [row[name] for row in rows] for name in rows[0]},
        "best_step_size": settings.step_sizes[best],
        "best_mse": rows[best]["mse"],
        "best_mse_error": rows[best]["mse_error"],
        "first_order": first_order,
    }


def save(numbers: dict[str, Any], out: Path) -> tuple[Path, Path]:
    """Write staleness_steps.json and staleness_steps.png into the folder ``out``."""
    return write_numbers_and_picture(out, "staleness_steps", numbers, draw)


def draw(numbers: dict[str, Any], path: Path) -> None:
    """The MSE against the step size for every cluster, one row a model."""
    from matplotlib.figure import Figure

    kinds = list(dict.fromkeys(row["model"] for row in numbers["results"]))
    figure = Figure(figsize=(13, 6.4), layout="constrained")
    axes = figure.subplots(len(kinds), len(CLUSTERS), sharex=True, sharey="row")
    colours = dict(zip(RULES, shades(len(RULES)), strict=True))
    for row, kind in enumerate(kinds):
        for column, cluster in enumerate(CLUSTERS):
            axis, law = axes[row, column], numbers["staleness"][cluster]
            for found in numbers["results"]:
                if found["model"] != kind:
                    continue
                if found["cluster"] == cluster:
                    axis.loglog(numbers["step_sizes"], found["mse"], "o-", markersize=3, color=colours[found["rule"]],
                                label=RULES[found["rule"]].label)  # fmt: skip
                elif found["cluster"] not in CLUSTERS:
                    axis.loglog(numbers["step_sizes"], found["mse"], ":", color="0.4",
                                linewidth=1 + found["cluster"].startswith("2"), label=found["cluster"])  # fmt: skip
            if row == 0:
                axis.set_title(f"{cluster}: τ = {law['mean']:.1f} ± {law['deviation']:.1f}", fontsize=10)
            if row == len(kinds) - 1:
                axis.set_xlabel("mean h λ")
            if column == 0:
                axis.set_ylabel(f"MSE of φ̂, {kind}")
    axes[0, 0].legend(frameon=False, fontsize=8, loc="lower left")
    figure.savefig(path, dpi=150)
