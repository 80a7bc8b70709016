"""Chains or workers after a warm-up, measured on a regression that is not Gaussian.

    python benchmarks/chains_or_workers.py [--seeds 3] [--cores 16] [--json FILE]

Sixteen cores of a simulated cluster, on which a gradient takes 20 ms and an update 0.2 ms, divided into S chains of W
workers: a core for every worker and one for every server, but one for both where a chain has one worker. The call is
``sg.sample(potential, steps=…, servers=S, workers=W)``, which finds the mode, coordinates, starts within the posterior
and the step, either as it is (*compensated*: the server owns the linear part of gradients) or with
``architecture=sg.StaleGradients()`` (*as they come*: a step that is short enough for their age). Every layout has the
same virtual seconds after the warm-up. What comes out is the error of the posterior means in posterior deviations, a
root mean square over parameters and seeds, against importance sampling around the mode.
"""

import argparse
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

import harness
import stalegrad as sg
from stalegrad.engines import Inline
from stalegrad.planning import Machines, Targets, advise_layout
from stalegrad.planning import layouts as planned
from stalegrad.planning.calibration import Calibration
from stalegrad.planning.timing import RoundTrip
from stalegrad.runs.jobs import JobFile

GRADIENT, UPDATE, LATENCY, VARIATION = 20e-3, 2e-4, 1e-4, 0.2
SECONDS = 60.0  # virtual, after the warm-up
PRIOR_SCALE = 5.0
WAYS = ("compensated", "as they come")


def model() -> sg.potentials.Logistic:
    """The regression."""
    return sg.potentials.Logistic(*data(), prior_scale=PRIOR_SCALE, batch_size=200)


def data(n_data: int = 10_000, size: int = 20) -> tuple[Any, Any]:
    """Correlated features, and a tenth of ones."""
    rng = np.random.default_rng(4)
    X = rng.normal(size=(n_data, size)) @ np.linalg.cholesky(0.7 * np.ones((size, size)) + 0.3 * np.eye(size)).T
    X[:, 0] = 1.0
    y = rng.random(n_data) < 1 / (1 + np.exp(3.0 - X @ rng.normal(size=size) / 3))
    return X, y


def layouts(cores: int) -> list[tuple[int, int]]:
    """(S, W) from one chain to one chain a core."""
    return [(s, max(1, cores // s - 1)) for s in (1, 2, 4, cores) if cores % s == 0]


def engine() -> Inline:
    """A chain's part of the cluster."""
    return Inline(sg.LogNormal(GRADIENT, VARIATION), sg.Network(latency=LATENCY), UPDATE)


def steps_in(seconds: float, workers: int) -> int:
    """Updates that a chain makes in so many virtual seconds."""
    trial = sg.simulate(
        workers=workers, steps=400 * workers, compute=sg.LogNormal(GRADIENT, VARIATION), network=LATENCY, update=UPDATE
    ).chains[0]
    return int(seconds * trial.steps / trial.seconds)


def reference(potential: sg.potentials.Logistic, draws: int = 30_000) -> tuple[Any, Any, float]:
    """Means and deviations of the posterior by importance sampling, and the share of draws that counts, 1/(n Σw²).

    Draws are from a t distribution around the mode with the curvature there; the posterior of so many data is close.
    """
    rng, (X, y), size = np.random.default_rng(7), data(), potential.size
    mode, curvature = _mode(X, y)
    factor, freedom = np.linalg.inv(np.linalg.cholesky(curvature)).T, 20
    sums, counted, weights = np.zeros(size), np.zeros(size), []
    for _ in range(draws // 500):
        z = rng.normal(size=(500, size)) / np.sqrt(rng.chisquare(freedom, size=(500, 1)) / freedom)
        theta = mode + z @ factor.T
        log_proposal = -(freedom + size) / 2 * np.log1p((z**2).sum(axis=1) / freedom)
        weight = np.exp(log_density(theta, X, y) - log_density(mode[None], X, y) - log_proposal)
        sums, counted = sums + weight @ theta, counted + weight @ (theta - mode) ** 2
        weights.append(weight)
    total = np.concatenate(weights)
    mean = sums / total.sum()
    deviation = np.sqrt(counted / total.sum() - (mean - mode) ** 2)
    return mean, deviation, float(total.sum() ** 2 / (total**2).sum() / len(total))


def log_density(theta: Any, X: Any, y: Any) -> Any:
    """Of the posterior at rows θ, up to a constant."""
    logits = theta @ X.T
    return (y * logits - np.logaddexp(0, logits)).sum(axis=1) - (theta**2).sum(axis=1) / (2 * PRIOR_SCALE**2)


def _mode(X: Any, y: Any) -> tuple[Any, Any]:
    """The mode, by Newton's method, and the Hessian there."""
    theta = np.zeros(X.shape[1])
    for _ in range(30):
        p = 1 / (1 + np.exp(-X @ theta))
        hessian = (X.T * (p * (1 - p))) @ X + np.eye(len(theta)) / PRIOR_SCALE**2
        theta = theta - np.linalg.solve(hessian, X.T @ (p - y) + theta / PRIOR_SCALE**2)
    return theta, hessian


def means_of(potential: sg.potentials.Logistic, way: str, layout: tuple[int, int], steps: int, seed: int) -> Any:
    """Posterior means that a layout has found, and the mean staleness."""
    servers, workers = layout
    settings: dict[str, Any] = {"architecture": sg.StaleGradients()} if way == "as they come" else {}
    run = sg.sample(
        potential, steps=steps, servers=servers, workers=workers, engine=engine(), seed=seed, progress=False,
        **settings,
    )  # fmt: skip
    return np.asarray(run.draws, np.float64).mean(axis=(0, 1)), float(run.trace.chains[0].staleness.mean())


def advice(cores: int, burn_in: int = 0) -> tuple[Any, list[str]]:
    """What ``stalegrad plan --machines 1 --cores 16`` says where these times are measured."""
    job = JobFile.from_table({"steps": 44_000 + burn_in, "burn_in": burn_in, "model": "stalegrad.testing:small_model"})
    trip = RoundTrip(1, GRADIENT, UPDATE, 1 / (GRADIENT + UPDATE + 2 * LATENCY), 0.0)
    measured = Calibration(
        engine="processes", cores=2, servers=1, parameters=20, message_bytes=80, wire_bytes=(80, 80), n_data=10_000,
        batch_size=200, gradients={200: GRADIENT}, variation=VARIATION, update=UPDATE, busy_elsewhere=0.0,
        round_trips=(trip,),
    )  # fmt: skip
    return advise_layout(planned(job, measured, None, Machines(1, cores), Targets()), measured, Targets())


def main() -> None:
    """Every layout in both ways."""
    parser = argparse.ArgumentParser(description="Chains or workers after a warm-up.")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--first-seed", type=int, default=0)
    parser.add_argument("--cores", type=int, default=16)
    parser.add_argument("--json", help="file for the numbers")
    given = parser.parse_args()
    potential, seeds = model(), range(given.first_seed, given.first_seed + given.seeds)
    mean, deviation, share = reference(potential)
    print(f"reference: {share:.0%} of the draws count", flush=True)
    table = Table(title=f"{given.cores} cores, {SECONDS:g} virtual seconds", title_justify="left", box=None)
    for heading in ("S × W", "updates a chain", "τ", *(f"error, {way}" for way in WAYS)):
        table.add_column(heading, justify="right", no_wrap=True)
    rows = []
    for layout in layouts(given.cores):
        steps = steps_in(SECONDS, layout[1])
        row: dict[str, Any] = {"servers": layout[0], "workers": layout[1], "steps": steps, "error": {}}
        for way in WAYS:
            found = [means_of(potential, way, layout, steps, seed) for seed in seeds]
            errors = [float(np.sqrt(np.square((means - mean) / deviation).mean())) for means, _ in found]
            row["error"][way] = {"rms": float(np.sqrt(np.square(errors).mean())), "of_each": errors}
            row["mean_staleness"] = found[0][1]
        rows.append(row)
        print(row, flush=True)
        shown = (f"{row['error'][way]['rms']:.3f}" for way in WAYS)
        table.add_row(f"{layout[0]} × {layout[1]}", f"{steps:,}", f"{row['mean_staleness']:.1f}", *shown)
    console = Console(stderr=given.json == "-")
    console.print(table)
    for burn_in in (0, 20_000):
        best, reasons = advice(given.cores, burn_in)
        console.print(f"plan, with a burn-in of {burn_in:,}: {best.servers} × {best.workers}. {reasons[0]}")
    harness.write_json({"rows": rows, "seconds": SECONDS, "gradient": GRADIENT, "update": UPDATE}, given.json)


if __name__ == "__main__":
    main()
