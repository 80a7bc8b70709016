"""Figure 1: the MSE of stale SGLD at equal budgets per unit of staleness, and what it is made of.

Model: d_i ~ N(θ, 1), θ ~ N(0, 1), N = 1000, minibatches of J = 10, φ = θ².

*First panel*, the paper's: τ ∈ {1, 2, 5, 10, 15, 20}, L = 500 τ updates with h = C τ^(−2/3) L^(−1/3), C = 1/30, which
the theory says gives equal MSE at the end. The constant only makes sense per datum: with U unscaled, h(N + 1) ≈ 4.2 and
every curve diverges. So the step here is h/N. Then T = Lh ≈ 2.1 for every τ, so the start-up transient is most of the
MSE.

*Second panel*: the bound c (τ/L)^(2/3) that this step size is made for. The same with other budgets L/τ: the end points
of all τ should lie on one curve that in the end falls no more slowly than the bound; c is such that it touches them.

*Third panel*, ours: a chain that mixes. The same model with centred data and exact gradients, at one step size for all
τ and after burn-in, where bias and variance can be told apart: the bias grows linearly with τ, the variance hardly
moves. Lines are the closed form of :mod:`stalegrad.theory`, bars are 95 % intervals.
"""

import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from scipy.stats import norm

from stalegrad._internal.numbers_file import write_numbers_and_picture
from stalegrad._internal.types import Array
from stalegrad.analysis.estimates import precision
from stalegrad.experiments.axes import label_few
from stalegrad.experiments.parts import NOT_KEPT, Parts
from stalegrad.experiments.shades import shades
from stalegrad.experiments.verdicts import Verdict, all_of, below, within
from stalegrad.kernels import SGLD
from stalegrad.potentials import GaussianMean
from stalegrad.protocol.trace import Trace
from stalegrad.runs.replay import replay
from stalegrad.theory import mse_rate, stale_sgld, stale_step_size


@dataclass(frozen=True)
class Settings:
    """The constants of figure 1; the second panel's begin with ``bound_``, the third's with ``mixing_``."""

    runs: int = 200
    seed: int = 0
    tau: tuple[int, ...] = (1, 2, 5, 10, 15, 20)
    n_data: int = 1000
    batch_size: int = 10
    constant: float = 1 / 30
    steps_per_tau: int = 500
    bound_tau: tuple[int, ...] = (1, 2, 5)
    bound_steps_per_tau: tuple[int, ...] = (125, 500, 2000, 8000)
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


def reproduce(settings: Settings | None = None, parts: Parts = NOT_KEPT) -> dict[str, Any]:
    """Run all panels; everything that the picture shows, as plain numbers.

    Args:
        settings: the constants.
        parts: keeps the chains of every τ, so that an interrupted figure goes on.
    """
    settings = settings or Settings()
    begun = time.perf_counter()
    numbers = {
        **asdict(settings),
        **paper_panel(settings, parts),
        "bound": bound_panel(settings, parts),
        "mixing": mixing_panel(settings, parts),
    }
    numbers["verdicts"] = [each.plain() for each in verdicts(numbers)]
    return {**numbers, "seconds": round(time.perf_counter() - begun, 2)}


def data(settings: Settings) -> Array:
    """θ from its prior, then N data."""
    rng = np.random.Generator(np.random.Philox(key=settings.seed))
    theta = rng.standard_normal()
    return theta + rng.standard_normal(settings.n_data)


def paper_panel(settings: Settings, parts: Parts = NOT_KEPT) -> dict[str, Any]:
    """MSE of φ̂ against iteration for every τ, from ``runs`` repetitions of one constant-staleness trace each."""
    potential = GaussianMean(data(settings), batch_size=settings.batch_size, dtype=np.float64)
    mean, variance = (float(np.squeeze(moment)) for moment in potential.posterior())
    truth = mean**2 + variance

    def of(tau: int) -> dict[str, Any]:
        steps = settings.steps_per_tau * tau
        h = float(stale_step_size(steps, tau, constant=settings.constant))
        trace = Trace.constant_staleness(tau, steps, seed=settings.seed)
        kernel = SGLD(step_size=h / settings.n_data)
        run = replay(trace, potential, kernel, repeats=settings.runs)
        running = run.running(square, batched=True)[:, 0]
        keep = np.unique(np.geomspace(1, steps, 200).astype(int)) - 1
        result = precision(running[:, keep], truth)
        return {
            "curve": {"iteration": (keep + 1).tolist(), "mse": result.mse.tolist()},
            "end": float(result.mse[-1]), "error": float(result.mse_error[-1]), "step_size": h,
        }  # fmt: skip

    rows = [
        parts.numbers(f"tau{tau}", [*_common(settings), settings.steps_per_tau, tau], lambda tau=tau: of(tau))  # type: ignore[misc]
        for tau in settings.tau
    ]
    end = [row["end"] for row in rows]
    return {
        "posterior": {"mean": mean, "variance": variance, "phi": truth},
        "step_size": [row["step_size"] for row in rows],
        "end_mse": end,
        "end_mse_error": [row["error"] for row in rows],
        "end_ratio": max(end) / min(end),
        "curves": [row["curve"] for row in rows],
    }


def _common(settings: Settings) -> list[Any]:
    """What all chains on data depend on."""
    return [settings.runs, settings.seed, settings.n_data, settings.batch_size, settings.constant]


def bound_panel(settings: Settings, parts: Parts = NOT_KEPT) -> dict[str, Any]:
    """The MSE at the end for several budgets L/τ, beside the bound c (τ/L)^(2/3).

    ``slope`` is that of log MSE against log L/τ between the two largest budgets, by weighted least squares: before
    these a chain has hardly left its start, and the MSE is what it was there. The bound's is −2/3.
    """

    def of(tau: int, each: int) -> dict[str, Any]:
        mse, error = end_mse(settings, tau, each)
        return {"tau": tau, "steps_per_tau": each, "mse": mse, "error": error}

    rows = [
        parts.numbers(
            f"bound-tau{tau}-l{each}",
            [*_common(settings), each, tau],
            lambda tau=tau, each=each: of(tau, each),  # type: ignore[misc]
        )
        for tau in settings.bound_tau
        for each in settings.bound_steps_per_tau
    ]
    budget, mse, error = (np.array([row[name] for row in rows]) for name in ("steps_per_tau", "mse", "error"))
    bound = mse_rate(budget, 1)
    late = budget >= np.unique(budget)[-2]
    design, weight = np.column_stack([np.ones(late.sum()), np.log(budget[late])]), (mse / error)[late] ** 2
    information = design.T @ (weight[:, None] * design)
    slope = np.linalg.solve(information, design.T @ (weight * np.log(mse[late])))[1]
    return {
        "rows": rows,
        "constant": float(np.max(mse / bound)),
        "slope": float(slope),
        "slope_error": float(np.sqrt(np.linalg.inv(information)[1, 1])),
    }


def end_mse(settings: Settings, tau: int, steps_per_tau: int) -> tuple[float, float]:
    """MSE of φ̂ after L = steps_per_tau · τ updates with the step that suits them, and its standard error."""
    potential = GaussianMean(data(settings), batch_size=settings.batch_size, dtype=np.float64)
    mean, variance = (float(np.squeeze(moment)) for moment in potential.posterior())
    steps = steps_per_tau * tau
    h = float(stale_step_size(steps, tau, constant=settings.constant))
    trace = Trace.constant_staleness(tau, steps, seed=settings.seed)
    run = replay(trace, potential, SGLD(step_size=h / settings.n_data), repeats=settings.runs)
    result = precision(np.square(run.draws[..., 0]).mean(-1)[:, 0], mean**2 + variance)
    return float(result.mse), float(result.mse_error)


def verdicts(numbers: dict[str, Any]) -> list[Verdict]:
    """What these runs say about the paper's statements."""
    ends, errors = np.array(numbers["end_mse"]), np.array(numbers["end_mse_error"])
    count = len(ends)
    wide = float(norm.isf(0.025 / count))  # for all τ together
    middle = float(np.exp(np.log(ends).mean()))
    low, high = (ends * np.exp(side * wide * errors / ends) / middle for side in (-1, 1))
    equal = Verdict(
        "With h = Cτ^(−2/3)L^(−1/3) the MSE at L = 500τ is the same for all τ, within a factor of 1.5",
        all_of([within(a, b, 1 / 1.5, 1.5) for a, b in zip(low, high, strict=True)]),
        ", ".join(
            f"τ = {t}: {e / middle:.2f} ({a:.2f}–{b:.2f})"
            for t, e, a, b in zip(numbers["tau"], ends, low, high, strict=True)
        ),
    )
    bound = numbers["bound"]
    slope, half = bound["slope"], 1.96 * bound["slope_error"]
    falls = Verdict(
        "The MSE of long runs falls with L/τ at least as fast as the bound, (L/τ)^(−2/3)",
        below(slope, half, -2 / 3), f"measured exponent {slope:.2f} ± {half:.2f} between the two largest budgets",
    )  # fmt: skip
    mixing = {name: np.array(values) for name, values in numbers["mixing"].items()}
    last, first = int(np.argmax(mixing["tau"])), int(np.argmin(mixing["tau"]))
    growth = mixing["bias"][last] - mixing["bias"][first]
    error = 1.96 * float(np.hypot(mixing["bias_error"][last], mixing["bias_error"][first]))
    bias = Verdict(
        "In a chain that mixes the bias grows with τ", below(-growth, error),
        f"from τ = {mixing['tau'][first]} to {mixing['tau'][last]} by {growth:.4f} ± {error:.4f} posterior variances",
    )  # fmt: skip
    ratio = mixing["variance"][last] / mixing["variance"][first]
    spread = (
        1.96 * ratio * float(np.hypot(*(mixing["variance_error"][k] / mixing["variance"][k] for k in (last, first))))
    )
    variance = Verdict(
        "In a chain that mixes the variance does not depend on τ, within a quarter",
        within(ratio - spread, ratio + spread, 0.75, 1.25), f"ratio {ratio:.3f} ± {spread:.3f}",
    )  # fmt: skip
    return [equal, falls, bias, variance]


def mixing_panel(settings: Settings, parts: Parts = NOT_KEPT) -> dict[str, Any]:
    """Bias and variance of φ̂ against τ at one step size, measured and in closed form.

    With exact gradients all that matters of N centred data is their mean, which is one datum 0 with noise 1/√N; and
    coordinates that share no data are independent runs. So one chain with a coordinate for every run is all of them.
    """
    n = settings.n_data
    potential = GaussianMean(np.zeros((1, settings.mixing_runs)), noise_scale=n**-0.5, dtype=np.float64)
    variance = float(potential.posterior()[1][0])
    h = settings.mixing_step_size / n
    kept = settings.mixing_steps - settings.mixing_burn_in

    def of(tau: int) -> dict[str, Any]:
        trace = Trace.constant_staleness(tau, settings.mixing_steps, seed=settings.seed)
        run = replay(trace, potential, SGLD(step_size=h), burn_in=settings.mixing_burn_in, thin=settings.mixing_thin)
        values = np.square(run.draws[0]).mean(axis=0) / variance  # φ̂ of every run, in units of the posterior variance
        measured = precision(values, 1.0)
        exact = stale_sgld(1 / variance, h, tau)
        return {
            "tau": tau,
            "bias": float(measured.bias),
            "bias_error": float(measured.bias_error),
            "variance": float(measured.variance),
            "variance_error": float(measured.variance_error),
            "exact_bias": exact.variance / variance - 1,
            "exact_variance": exact.asymptotic_variance(linear=0.0, quadratic=1.0) / kept / variance**2,
        }

    constants = [n, settings.seed, h, settings.mixing_steps, settings.mixing_burn_in, settings.mixing_thin]
    constants.append(settings.mixing_runs)
    rows = [
        parts.numbers(f"mixing-tau{tau}", [*constants, tau], lambda tau=tau: of(tau))  # type: ignore[misc]
        for tau in settings.mixing_tau
    ]
    return {name: [row[name] for row in rows] for name in rows[0]}


def save(numbers: dict[str, Any], out: Path) -> tuple[Path, Path]:
    """Write fig1.json and fig1.png into the folder ``out``."""
    return write_numbers_and_picture(out, "fig1", numbers, draw)


def draw(numbers: dict[str, Any], path: Path) -> None:
    """Write the picture of figure 1 from its numbers."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(16, 4.3), layout="constrained")
    left, middle, right = figure.subplots(1, 3)
    colours = shades(len(numbers["tau"]))
    for tau, curve, colour in zip(numbers["tau"], numbers["curves"], colours, strict=True):
        left.loglog(curve["iteration"], curve["mse"], color=colour, label=f"τ = {tau}")
        left.plot(curve["iteration"][-1], curve["mse"][-1], "o", color=colour, markersize=5)
    bound = numbers["bound"]
    at_end = bound["constant"] * float(mse_rate(numbers["steps_per_tau"], 1))
    left.axhline(
        at_end, color="0.4", linewidth=1, linestyle="--", zorder=0, label=r"bound $c\,(\tau/L)^{2/3}$ at the ends"
    )
    left.set(xlabel="iteration", ylabel=r"MSE of $\hat\phi$, $\phi = \theta^2$")
    label_few(left.yaxis)
    left.set_title(
        f"MSE over {numbers['runs']} runs; end points differ by a factor {numbers['end_ratio']:.2f}", fontsize=10
    )
    left.legend(frameon=False, fontsize=9)
    _bound(middle, numbers)

    mixing = numbers["mixing"]
    tau = mixing["tau"]
    for name, marker, colour in (("bias", "o", "C3"), ("variance", "s", "C0")):
        right.plot(tau, mixing[f"exact_{name}"], "-", color=colour, linewidth=1, label=f"{name}, closed form")
        right.errorbar(
            tau, mixing[name], yerr=1.96 * np.array(mixing[f"{name}_error"]), fmt=marker, color=colour,
            markersize=5, capsize=3, linestyle="none", label=f"{name}, {numbers['mixing_runs']} runs",
        )  # fmt: skip
    right.axhline(0, color="0.6", linewidth=0.8, zorder=0)
    right.set(xlabel="staleness τ", ylabel="in units of the posterior variance", xticks=tau)
    right.set_title("A chain that mixes: the bias grows with τ, the variance hardly", fontsize=10)
    right.legend(frameon=False, fontsize=9)
    figure.savefig(path, dpi=110)


def _bound(panel: Any, numbers: dict[str, Any]) -> None:
    bound = numbers["bound"]
    for tau, colour, marker in zip(numbers["bound_tau"], shades(len(numbers["bound_tau"])), "os^v", strict=False):
        rows = [row for row in bound["rows"] if row["tau"] == tau]
        budget, mse, error = (np.array([row[name] for row in rows]) for name in ("steps_per_tau", "mse", "error"))
        panel.errorbar(
            budget, mse, yerr=1.96 * error, fmt=marker, color=colour, markersize=5, capsize=3, label=f"τ = {tau}"
        )
    budget = np.array(sorted(numbers["bound_steps_per_tau"]), float)
    panel.plot(budget, bound["constant"] * mse_rate(budget, 1), "--", color="0.4", label=r"bound $c\,(\tau/L)^{2/3}$")
    panel.set(xscale="log", yscale="log", xlabel="budget L/τ", ylabel=r"MSE of $\hat\phi$ at the end")
    panel.set_xticks(budget, [f"{each:,.0f}" for each in budget])
    panel.minorticks_off()
    label_few(panel.yaxis)
    slope, half = bound["slope"], 1.96 * bound["slope_error"]
    panel.set_title(f"One curve for all τ; exponent at the end {slope:.2f} ± {half:.2f}", fontsize=10)
    panel.legend(frameon=False, fontsize=9)
