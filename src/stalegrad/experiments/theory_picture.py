"""The theory in one picture: its bounds, the exact Gaussian oracle and measured chains, on top of each other.

Target N(0, 1), φ = θ², stale SGLD from θ_0 = 2 for L updates with step h and constant staleness τ. The *oracle* is
:func:`stalegrad.theory.stale_sgld`, exact for every h, τ and L. *Measured* are as many independent runs as a chain has
coordinates. The *bounds* hold up to constants, so they are drawn with the smallest ones (by linear programming) with
which each lies nowhere below the oracle, for all h and τ at once: what they claim is their shape.

The last panel has S chains side by side: their variance is 1/S of one chain's, their bias is that of one.
"""

import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

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
from stalegrad.theory import stale_sgld

_QUANTITIES = ("bias", "variance", "mse")
_AGREES = 4.9  # standard errors: one of a million true statements is further off


@dataclass(frozen=True)
class Settings:
    """The constants of the picture."""

    runs: int = 2_000
    seed: int = 0
    steps: int = 4_000
    start: float = 2.0
    tau: tuple[int, ...] = (0, 4, 16)
    step_sizes: tuple[float, ...] = (0.002, 0.004, 0.008, 0.016, 0.032, 0.064)
    servers: tuple[int, ...] = (1, 2, 4, 8)
    servers_batches: int = 4
    """How many times so many runs the panel with servers has."""
    servers_tau: int = 4
    servers_step_size: float = 0.016


def reproduce(settings: Settings | None = None, parts: Parts = NOT_KEPT) -> dict[str, Any]:
    """Everything that the picture shows, as plain numbers.

    Args:
        settings: the constants.
        parts: keeps what was measured, so that an interrupted picture goes on.
    """
    settings = settings or Settings()
    begun = time.perf_counter()
    same = [settings.runs, settings.seed, settings.steps, settings.start]
    cells = [(tau, h) for tau in settings.tau for h in settings.step_sizes]
    rows = [
        parts.numbers(
            f"tau{tau}-h{h:g}", [*same, tau, h, number],
            lambda tau=tau, h=h, number=number: _row(settings, tau, h, number),  # type: ignore[misc]
        )
        for number, (tau, h) in enumerate(cells)
    ]  # fmt: skip
    constants = {name: _constants(settings, rows, name) for name in _QUANTITIES}
    for row in rows:
        for name in _QUANTITIES:
            row[name]["bound"] = float(_terms(settings, row, name) @ constants[name])
    numbers = {**asdict(settings), "rows": rows, "constants": constants}
    several = [*same, settings.servers, settings.servers_batches, settings.servers_tau, settings.servers_step_size]
    numbers["chains"] = parts.numbers("servers", several, lambda: _several(settings))
    numbers["verdicts"] = [each.plain() for each in _verdicts(settings, numbers)]
    return {**numbers, "seconds": round(time.perf_counter() - begun, 1)}


def estimates(settings: Settings, tau: int, h: float, batch: int = 0) -> Array:
    """φ̂ of every run: coordinates that share no data are independent runs, so one chain is all of them."""
    potential = GaussianMean(
        np.zeros((1, settings.runs)), noise_scale=2**0.5, prior_scale=2**0.5, dtype=np.float64
    )  # curvature ½ + ½
    trace = Trace.constant_staleness(tau, settings.steps, seed=settings.seed + batch)
    start = np.full(settings.runs, settings.start)
    run = replay(trace, potential, SGLD(step_size=h), initial=start)
    return np.asarray(np.square(run.draws[0]).mean(axis=0))


def _row(settings: Settings, tau: int, h: float, batch: int) -> dict[str, Any]:
    recursion = stale_sgld(1.0, h, tau)
    exact = recursion.finite_run(recursion.start(settings.start), settings.steps, linear=0.0, quadratic=1.0)
    found = precision(estimates(settings, tau, h, batch), 1.0)
    row: dict[str, Any] = {"tau": tau, "step_size": h}
    for name in _QUANTITIES:
        row[name] = {
            "exact": float(getattr(exact, name)[-1]), "measured": float(getattr(found, name)),
            "error": float(getattr(found, f"{name}_error")),
        }  # fmt: skip
    return row


def _terms(settings: Settings, row: dict[str, Any], name: str) -> Array:
    """The terms of a bound, without their constants: 1/(Lh), τh and h, the last two squared but for the bias."""
    h, tau = row["step_size"], row["tau"]
    power = 1 if name == "bias" else 2
    stale = 0.0 if name == "variance" else (tau * h) ** power
    return np.array([1 / (settings.steps * h), stale, h**power])


def _constants(settings: Settings, rows: list[dict[str, Any]], name: str) -> list[float]:
    """The smallest M₀, M₁, M₂ ≥ 0, by the mean of bound over exact, with which the bound holds at every row."""
    from scipy.optimize import linprog

    exact = np.array([abs(row[name]["exact"]) for row in rows])
    relative = np.array([_terms(settings, row, name) for row in rows]) / exact[:, None]
    found = linprog(relative.mean(0), A_ub=-relative, b_ub=-np.ones(len(rows)), bounds=(0, None))
    return [float(value) for value in np.asarray(found.x)]


def _several(settings: Settings) -> dict[str, Any]:
    """Bias, variance and MSE of the average over S chains, measured over groups of the runs, and exact."""
    recursion = stale_sgld(1.0, settings.servers_step_size, settings.servers_tau)
    exact = recursion.finite_run(recursion.start(settings.start), settings.steps, linear=0.0, quadratic=1.0)
    values = np.concatenate([
        estimates(settings, settings.servers_tau, settings.servers_step_size, batch)
        for batch in range(100, 100 + settings.servers_batches)
    ])  # fmt: skip
    bias, variance = float(exact.bias[-1]), float(exact.variance[-1])
    rows = []
    for servers in settings.servers:
        found = precision(values[: len(values) // servers * servers].reshape(-1, servers).mean(1), 1.0)
        exacts = {"bias": bias, "variance": variance / servers, "mse": bias**2 + variance / servers}
        rows.append({
            "servers": servers,
            **{
                name: {"exact": exacts[name], "measured": float(getattr(found, name)),
                       "error": float(getattr(found, f"{name}_error"))}
                for name in _QUANTITIES
            },
        })  # fmt: skip
    return {"rows": rows}


def _verdicts(settings: Settings, numbers: dict[str, Any]) -> list[Verdict]:
    cells = [row[name] for row in numbers["rows"] for name in _QUANTITIES]
    furthest = max(abs(cell["measured"] - cell["exact"]) / cell["error"] for cell in cells)
    agree = Verdict(
        "Measured chains have the oracle's bias, variance and MSE", below(furthest, 0.0, _AGREES),
        f"the furthest of {len(cells)} is {furthest:.1f} standard errors away",
    )  # fmt: skip
    first = min(settings.step_sizes)
    at = {row["tau"]: row["variance"] for row in numbers["rows"] if row["step_size"] == first}
    least, most = at[min(settings.tau)], at[max(settings.tau)]
    ratio = most["measured"] / least["measured"]
    error = 1.96 * ratio * np.hypot(most["error"] / most["measured"], least["error"] / least["measured"])
    free = Verdict(
        f"Staleness {max(settings.tau)} leaves the variance within a fifth of that of fresh gradients (h = {first:g})",
        within(ratio - error, ratio + error, 0.8, 1.2), f"ratio {ratio:.3f} ± {error:.3f}",
    )  # fmt: skip
    rows = numbers["chains"]["rows"]
    parts = [row["variance"]["measured"] * row["servers"] / rows[0]["variance"]["measured"] for row in rows]
    errors = [
        1.96 * part * row["variance"]["error"] / row["variance"]["measured"]
        for part, row in zip(parts, rows, strict=True)
    ]
    several = Verdict(
        "S chains have 1/S of the variance of one, within a fifth",
        all_of([within(p - e, p + e, 0.8, 1.2) for p, e in zip(parts[1:], errors[1:], strict=True)]),
        ", ".join(f"S = {r['servers']}: {p:.2f} ± {e:.2f}" for r, p, e in zip(rows, parts, errors, strict=True)),
    )
    return [agree, free, several]


def save(numbers: dict[str, Any], out: Path) -> tuple[Path, Path]:
    """Write theory.json and theory.png into the folder ``out``."""
    return write_numbers_and_picture(out, "theory", numbers, draw)


def draw(numbers: dict[str, Any], path: Path) -> None:
    """Bias, variance and MSE against the step size, and the MSE against the number of chains."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(17, 4.4), layout="constrained")
    panels = figure.subplots(1, 4)
    colours = dict(zip(numbers["tau"], shades(len(numbers["tau"])), strict=True))
    formulas = {
        "bias": r"$|$bias$|$; bound $M_0/(Lh) + M_1\tau h + M_2 h$",
        "variance": r"variance; bound $M_0/(Lh) + M_2 h^2$, no $\tau$",
        "mse": r"MSE; bound $M_0/(Lh) + M_1\tau^2h^2 + M_2 h^2$",
    }
    for panel, name in zip(panels, _QUANTITIES, strict=False):
        for tau, colour in colours.items():
            rows = [row for row in numbers["rows"] if row["tau"] == tau]
            h = [row["step_size"] for row in rows]
            cell = {
                key: np.array([abs(row[name][key]) for row in rows]) for key in ("exact", "measured", "error", "bound")
            }
            panel.plot(h, cell["exact"], "-", color=colour, linewidth=1.2)
            if name != "variance" or tau == numbers["tau"][0]:
                panel.plot(h, cell["bound"], "--", color=colour if name != "variance" else "0.4", linewidth=1)
            low = np.minimum(1.96 * cell["error"], 0.9 * cell["measured"])  # a logarithmic axis has no 0
            panel.errorbar(
                h, cell["measured"], yerr=[low, 1.96 * cell["error"]], fmt="o", color=colour, markersize=4, capsize=2
            )
            panel.plot([], [], "o-", color=colour, markersize=4, label=f"τ = {tau}")
        panel.set(xscale="log", yscale="log", xlabel="step size h")
        panel.set_xticks(numbers["step_sizes"], [f"{h:g}" for h in numbers["step_sizes"]], fontsize=8)
        panel.minorticks_off()
        panel.set_title(formulas[name], fontsize=10)
    panels[0].plot([], [], "-", color="0.3", label="oracle (exact)")
    panels[0].plot([], [], "o", color="0.3", markersize=4, label=f"measured, {numbers['runs']:,} runs, 95 %")
    panels[0].plot([], [], "--", color="0.3", label="bound, smallest constants")
    panels[0].legend(frameon=False, fontsize=8)
    _chains(panels[3], numbers)
    figure.savefig(path, dpi=110)


def _chains(panel: Any, numbers: dict[str, Any]) -> None:
    rows = numbers["chains"]["rows"]
    servers = [row["servers"] for row in rows]
    for name, colour, label in (("variance", "C0", "variance"), ("mse", "C2", "MSE"), ("bias", "C3", "bias²")):
        power = 2 if name == "bias" else 1
        exact, measured = (np.array([abs(row[name][key]) ** power for row in rows]) for key in ("exact", "measured"))
        panel.plot(servers, exact, "-", color=colour, linewidth=1.2)
        panel.plot(servers, measured, "o", color=colour, markersize=4, label=label)
    panel.plot([], [], "-", color="0.3", label="oracle")
    panel.set(xscale="log", yscale="log", xlabel="chains S", xticks=servers, xticklabels=servers)
    panel.minorticks_off()
    label_few(panel.yaxis)
    tau, h = numbers["servers_tau"], numbers["servers_step_size"]
    panel.set_title(f"S chains (τ = {tau}, h = {h:g})", fontsize=10)
    panel.legend(frameon=False, fontsize=8)
