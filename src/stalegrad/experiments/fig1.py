"""Figure 1: the MSE of stale SGLD at equal budgets per unit of staleness, and what it is made of.

Model: d_i ~ N(θ, 1), θ ~ N(0, 1), N = 1000, minibatches of J = 10, φ = θ².

*First panel*, the paper's: τ ∈ {1, 2, 5, 10, 15, 20}, L = 500 τ updates with h = C τ^(−2/3) L^(−1/3), C = 1/30, which
the theory says gives equal MSE at the end. The constant only makes sense per datum: with U unscaled, h(N + 1) ≈ 4.2 and
every curve diverges. So the step here is h/N. Then T = Lh ≈ 2.1 for every τ, so the start-up transient is most of the
MSE.

*Second panel*, ours: a chain that mixes. The same model with centred data and exact gradients, at one step size for all
τ and after burn-in, where bias and variance can be told apart: the bias grows linearly with τ, the variance hardly
moves. Lines are the closed form of :mod:`stalegrad.theory`, bars are 95 % intervals.
"""

import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from stalegrad._internal.numbers_file import write_numbers_and_picture
from stalegrad._internal.types import Array
from stalegrad.analysis.estimates import precision
from stalegrad.experiments.shades import shades
from stalegrad.kernels import SGLD
from stalegrad.potentials import GaussianMean
from stalegrad.protocol.trace import Trace
from stalegrad.runs.sample import replay
from stalegrad.theory import stale_sgld, stale_step_size


@dataclass(frozen=True)
class Settings:
    """The constants of figure 1; the second panel's begin with ``mixing_``."""

    runs: int = 200
    seed: int = 0
    tau: tuple[int, ...] = (1, 2, 5, 10, 15, 20)
    n_data: int = 1000
    batch_size: int = 10
    constant: float = 1 / 30
    steps_per_tau: int = 500
    mixing_tau: tuple[int, ...] = (0, 1, 2, 5, 10, 15, 20)
    mixing_step_size: float = 0.0025
    mixing_steps: int = 44_000
    mixing_burn_in: int = 4_000
    mixing_thin: int = 20
    mixing_runs: int = 2_000


def square(theta: Array) -> Array:
    """φ = θ², of many draws at once."""
    squares: Array = theta[..., 0] ** 2
    return squares


def reproduce(settings: Settings | None = None) -> dict[str, Any]:
    """Run both panels; everything that the picture shows, as plain numbers."""
    settings = settings or Settings()
    begun = time.perf_counter()
    numbers = {
        **asdict(settings),
        **paper_panel(settings),
        "mixing": mixing_panel(settings),
    }
    return {**numbers, "seconds": round(time.perf_counter() - begun, 2)}


def data(settings: Settings) -> Array:
    """θ from its prior, then N data."""
    rng = np.random.Generator(np.random.Philox(key=settings.seed))
    theta = rng.standard_normal()
    return theta + rng.standard_normal(settings.n_data)


def paper_panel(settings: Settings) -> dict[str, Any]:
    """MSE of φ̂ against iteration for every τ, from ``runs`` repetitions of one constant-staleness trace each."""
    potential = GaussianMean(data(settings), batch_size=settings.batch_size, dtype=np.float64)
    mean, variance = (float(np.squeeze(moment)) for moment in potential.posterior())
    truth = mean**2 + variance
    curves, end, error, step_sizes = [], [], [], []
    for tau in settings.tau:
        steps = settings.steps_per_tau * tau
        h = float(stale_step_size(steps, tau, constant=settings.constant))
        trace = Trace.constant_staleness(tau, steps, seed=settings.seed)
        kernel = SGLD(step_size=h / settings.n_data)
        run = replay(trace, potential, kernel, repeats=settings.runs)
        running = run.running(square, batched=True)[:, 0]
        keep = np.unique(np.geomspace(1, steps, 200).astype(int)) - 1
        result = precision(running[:, keep], truth)
        curves.append({"iteration": (keep + 1).tolist(), "mse": result.mse.tolist()})
        end.append(float(result.mse[-1]))
        error.append(float(result.mse_error[-1]))
        step_sizes.append(h)
    return {
        "posterior": {"mean": mean, "variance": variance, "phi": truth},
        "step_size": step_sizes,
        "end_mse": end,
        "end_mse_error": error,
        "end_ratio": max(end) / min(end),
        "curves": curves,
    }


def mixing_panel(settings: Settings) -> dict[str, Any]:
    """Bias and variance of φ̂ against τ at one step size, measured and in closed form.

    With exact gradients all that matters of N centred data is their mean, which is one datum 0 with noise 1/√N; and
    coordinates that share no data are independent runs. So one chain with a coordinate for every run is all of them.
    """
    n = settings.n_data
    potential = GaussianMean(np.zeros((1, settings.mixing_runs)), noise_scale=n**-0.5, dtype=np.float64)
    variance = float(potential.posterior()[1][0])
    h = settings.mixing_step_size / n
    kept = settings.mixing_steps - settings.mixing_burn_in
    rows = []
    for tau in settings.mixing_tau:
        trace = Trace.constant_staleness(tau, settings.mixing_steps, seed=settings.seed)
        run = replay(trace, potential, SGLD(step_size=h), burn_in=settings.mixing_burn_in, thin=settings.mixing_thin)
        values = np.square(run.draws[0]).mean(axis=0) / variance  # φ̂ of every run, in units of the posterior variance
        measured = precision(values, 1.0)
        exact = stale_sgld(1 / variance, h, tau)
        rows.append(
            {
                "tau": tau,
                "bias": float(measured.bias),
                "bias_error": float(measured.bias_error),
                "variance": float(measured.variance),
                "variance_error": float(measured.variance_error),
                "exact_bias": exact.variance / variance - 1,
                "exact_variance": exact.asymptotic_variance(linear=0.0, quadratic=1.0) / kept / variance**2,
            }
        )
    return {name: [row[name] for row in rows] for name in rows[0]}


def save(numbers: dict[str, Any], out: Path) -> tuple[Path, Path]:
    """Write fig1.json and fig1.png into the folder ``out``."""
    return write_numbers_and_picture(out, "fig1", numbers, draw)


def draw(numbers: dict[str, Any], path: Path) -> None:
    """Write the picture of figure 1 from its numbers."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(11, 4.2), layout="constrained")
    left, right = figure.subplots(1, 2)
    colours = shades(len(numbers["tau"]))
    for tau, curve, colour in zip(numbers["tau"], numbers["curves"], colours, strict=True):
        left.loglog(curve["iteration"], curve["mse"], color=colour, label=f"τ = {tau}")
        left.plot(curve["iteration"][-1], curve["mse"][-1], "o", color=colour, markersize=5)
    left.axhline(float(np.mean(numbers["end_mse"])), color="0.6", linewidth=0.8, zorder=0)
    left.set(xlabel="iteration", ylabel="MSE of φ̂, φ = θ²")
    left.set_title(
        f"MSE over {numbers['runs']} runs; end points differ by a factor {numbers['end_ratio']:.2f}", fontsize=10
    )
    left.legend(frameon=False, fontsize=9)

    mixing = numbers["mixing"]
    tau = mixing["tau"]
    for name, marker, colour in (("bias", "o", "C3"), ("variance", "s", "C0")):
        right.plot(tau, mixing[f"exact_{name}"], "-", color=colour, linewidth=1, label=f"{name}, closed form")
        right.errorbar(
            tau, mixing[name], yerr=1.96 * np.array(mixing[f"{name}_error"]), fmt=marker, color=colour,
            markersize=5, capsize=3, linestyle="none", label=f"{name}, {numbers['mixing_runs']} runs",
        )  # fmt: skip
    right.axhline(0, color="0.6", linewidth=0.8, zorder=0)
    right.set(xlabel="staleness τ", ylabel="in units of the posterior variance")
    right.set_title("A chain that mixes: the bias grows with τ, the variance hardly", fontsize=10)
    right.legend(frameon=False, fontsize=9)
    figure.savefig(path, dpi=150)
