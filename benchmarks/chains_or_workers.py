"""Chains or workers after a warm-up, measured on a regression that is not Gaussian.

    python benchmarks/chains_or_workers.py [--seeds 3] [--cores 16] [--json FILE]

Sixteen cores of a simulated cluster, on which a gradient takes 20 ms and an update 0.2 ms, divided into S chains of W
workers: a core for every worker and one for every server, but one for both where a chain has one worker. The call is
``sg.sample(potential, steps=…, servers=S, workers=W)``, which finds the mode, coordinates, starts within the posterior
and the step, either as it is (*compensated*: the server owns the linear part of gradients) or with
``architecture=sg.StaleGradients()`` (*as they come*: a step that is short enough for their age). Every layout has the
same virtual seconds after the warm-up. What comes out is the error of the posterior means in posterior deviations, a
root mean square over parameters and seeds, against a long run with fresh gradients and half the step.
"""

import argparse
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

import harness
import stalegrad as sg
from stalegrad.engines import Inline

GRADIENT, UPDATE, VARIATION = 20e-3, 2e-4, 0.2
SECONDS = 60.0  # virtual, after the warm-up
WAYS = ("compensated", "as they come")


def model(n_data: int = 10_000, size: int = 20) -> sg.potentials.Logistic:
    """A logistic regression of correlated features with a tenth of ones."""
    rng = np.random.default_rng(4)
    X = rng.normal(size=(n_data, size)) @ np.linalg.cholesky(0.7 * np.ones((size, size)) + 0.3 * np.eye(size)).T
    X[:, 0] = 1.0
    y = rng.random(n_data) < 1 / (1 + np.exp(3.0 - X @ rng.normal(size=size) / 3))
    return sg.potentials.Logistic(X, y, prior_scale=5.0, batch_size=200)


def layouts(cores: int) -> list[tuple[int, int]]:
    """(S, W) from one chain to one chain a core."""
    return [(s, max(1, cores // s - 1)) for s in (1, 2, 4, cores) if cores % s == 0]


def engine() -> Inline:
    """A chain's part of the cluster."""
    return Inline(sg.LogNormal(GRADIENT, VARIATION), sg.Network(latency=1e-4), UPDATE)


def steps_in(seconds: float, workers: int) -> int:
    """Updates that a chain makes in so many virtual seconds."""
    trial = sg.simulate(
        workers=workers, steps=400 * workers, compute=sg.LogNormal(GRADIENT, VARIATION), network=1e-4, update=UPDATE
    ).chains[0]
    return int(seconds * trial.steps / trial.seconds)


def reference(potential: sg.potentials.Logistic) -> tuple[Any, Any]:
    """Means and deviations, from eight chains with fresh gradients and half of the step that is found."""
    found = sg.sample(potential, steps=100, servers=8, engine="inline", progress=False)
    kernel = found.trace.record.kernels[0]  # type: ignore[union-attr]
    half = sg.Harmonic(step_size=kernel["step_size"] / 2, friction=kernel["friction"])
    run = sg.sample(potential, half, steps=60_000, servers=8, engine="inline", progress=False, seed=99)
    draws = np.asarray(run.draws, np.float64).reshape(-1, potential.size)
    return draws.mean(axis=0), draws.std(axis=0)


def means_of(potential: sg.potentials.Logistic, way: str, layout: tuple[int, int], steps: int, seed: int) -> Any:
    """Posterior means that a layout has found, and the mean staleness."""
    servers, workers = layout
    settings: dict[str, Any] = {"architecture": sg.StaleGradients()} if way == "as they come" else {}
    run = sg.sample(
        potential, steps=steps, servers=servers, workers=workers, engine=engine(), seed=seed, progress=False,
        **settings,
    )  # fmt: skip
    return np.asarray(run.draws, np.float64).mean(axis=(0, 1)), float(run.trace.chains[0].staleness.mean())


def main() -> None:
    """Every layout in both ways."""
    parser = argparse.ArgumentParser(description="Chains or workers after a warm-up.")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--cores", type=int, default=16)
    parser.add_argument("--json", help="file for the numbers")
    given = parser.parse_args()
    potential = model()
    mean, deviation = reference(potential)
    table = Table(title=f"{given.cores} cores, {SECONDS:g} virtual seconds", title_justify="left", box=None)
    for heading in ("S × W", "updates a chain", "τ", *(f"error, {way}" for way in WAYS)):
        table.add_column(heading, justify="right", no_wrap=True)
    rows = []
    for layout in layouts(given.cores):
        steps = steps_in(SECONDS, layout[1])
        row: dict[str, Any] = {"servers": layout[0], "workers": layout[1], "steps": steps, "error": {}}
        for way in WAYS:
            found = [means_of(potential, way, layout, steps, seed) for seed in range(given.seeds)]
            errors = [float(np.sqrt(np.square((means - mean) / deviation).mean())) for means, _ in found]
            row["error"][way] = {"rms": float(np.sqrt(np.square(errors).mean())), "of_each": errors}
            row["mean_staleness"] = found[0][1]
        rows.append(row)
        print(row, flush=True)
        shown = (f"{row['error'][way]['rms']:.3f}" for way in WAYS)
        table.add_row(f"{layout[0]} × {layout[1]}", f"{steps:,}", f"{row['mean_staleness']:.1f}", *shown)
    Console(stderr=given.json == "-").print(table)
    harness.write_json({"rows": rows, "seconds": SECONDS, "gradient": GRADIENT, "update": UPDATE}, given.json)


if __name__ == "__main__":
    main()
