"""Speedups at equal MSE: chains of W workers, plain and compensated, against exact posterior means.

Clusters of W workers of which one in eight takes four times as long, in virtual time. *Plain* chains use gradients as
they come, *compensated* ones own the linear part, which in whitened coordinates is A = 1.

*Speedup at equal MSE*: chains start at the mode and are averaged from update 3/h on. For every number of updates L the
best step size is taken, separately for each W and form. At a level of the MSE that both reach, the speedup is L of one
worker over L/W of W workers; in seconds, the virtual time of one worker over that of W. Intervals are bootstraps over
repetitions, which all chains share their noise in.
"""

import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from stalegrad._internal.progress_bar import Report
from stalegrad._internal.types import Array
from stalegrad.engines.simulation import LogNormal, simulate
from stalegrad.experiments.parts import kept_array
from stalegrad.kernels import SGLD
from stalegrad.potentials.base import Potential
from stalegrad.protocol.architectures import StaleGradients
from stalegrad.protocol.trace import Trace
from stalegrad.runs.replay import replay

PHI = ("test loss", "variance")
"""The test functions: the mean loss on the test set, and the mean of z² over the coordinates."""

Functions = Callable[[Array], Array]
"""φ of every row of z, (K, n) → (K, 2)."""


@dataclass(frozen=True)
class Settings:
    """The constants of such an experiment."""

    name: str = "a9a"
    workers: tuple[int, ...] = (1, 4, 16, 64)
    runs: int = 128
    block: int = 128
    """How many repetitions are sampled together, and kept in one file."""
    steps: int = 6000
    thin: int = 60
    batch_size: int = 50
    step_sizes: tuple[float, ...] = (0.002, 0.004, 0.008, 0.016)
    """Of fresh and compensated chains; plain ones of more than one worker have half of them."""
    common_step: float = 0.004
    """At which biases are compared; among ``step_sizes``."""
    relaxations: float = 3.0
    truth_steps: int = 1500
    seed: int = 0


@dataclass(frozen=True)
class Form:
    """W workers, with or without compensation, at some step size."""

    workers: int
    compensated: bool
    step_size: float

    @property
    def name(self) -> str:
        """All of it in one word, part of the name of its file."""
        return f"w{self.workers}-{'own' if self.compensated else 'plain'}-h{self.step_size:g}"


def forms(settings: Settings) -> list[Form]:
    """Every W, form and step size that is sampled."""
    wanted = []
    for workers in settings.workers:
        for compensated in (False, True) if workers > 1 else (False,):
            share = 0.5 if workers > 1 and not compensated else 1.0
            steps = {h * share for h in settings.step_sizes} | {settings.common_step}
            wanted += [Form(workers, compensated, h) for h in sorted(steps)]
    return wanted


def trace_of(workers: int, settings: Settings) -> Trace:
    """One in eight workers takes four times as long, from four on at least one."""
    slow = dict.fromkeys(range(max(workers // 8, min(1, workers // 4))), 4.0)
    law = LogNormal(5e-3, 0.3, factors=slow)
    return simulate(workers=workers, steps=settings.steps, compute=law, update=2e-5, network=5e-5, seed=settings.seed)


def measured(
    out: Path,
    settings: Settings,
    model: Potential,
    functions: Functions,
    truth: dict[str, Any],
    report: Report,
    start: Array | None = None,
    deadline: float = float("inf"),
) -> dict[str, Any]:
    """Biases at one step size, and speedups at equal MSE.

    Args:
        out: the experiment's folder; repetitions that are in it are not made again.
        settings: the constants.
        model: in whitened coordinates around its mode.
        functions: φ.
        truth: exact posterior means of φ and their standard errors.
        report: called with what is being done and the share that is done.
        start: z of all chains at first; None for the mode, 0.
        deadline: by :func:`time.time`, after which no further block of repetitions is begun, if there is one.
    """
    start = np.zeros(model.size) if start is None else start
    wanted = forms(settings)
    found: dict[Form, list[Array]] = {form: [] for form in wanted}
    firsts = range(0, settings.runs, settings.block)
    for first in firsts:
        paths = {form: out / "units" / _file_name(settings, form, first) for form in wanted}
        if first and time.time() >= deadline and not all(path.exists() for path in paths.values()):
            break
        for number, form in enumerate(wanted):
            share = (first / settings.block + number / len(wanted)) / len(firsts)
            report(f"{settings.name}: {form.name}, from repetition {first}", share)
            found[form].append(
                kept_array(paths[form], lambda form=form: sampled(settings, model, form, functions, start, first))  # type: ignore[misc]  # noqa: B023
            )
    whole = {form: np.concatenate(blocks).astype(np.float64) for form, blocks in found.items()}
    return {**summary(settings, whole, truth), "runs": len(whole[wanted[0]]), "runs_planned": settings.runs}


def _count(settings: Settings, first: int) -> int:
    return min(settings.block, settings.runs - first)


def _file_name(settings: Settings, form: Form, first: int) -> str:
    """With all that its numbers depend on."""
    last = first + _count(settings, first)
    return f"{settings.name}-{form.name}-l{settings.steps}-j{settings.batch_size}-s{settings.seed}-r{first}-{last}.npy"


def sampled(
    settings: Settings, model: Potential, form: Form, functions: Functions, start: Array, first: int = 0
) -> Array:
    """φ of every ``thin``-th draw of the repetitions of a block, (R, draws, 2)."""
    run = replay(
        trace_of(form.workers, settings), model, SGLD(step_size=form.step_size), seed=settings.seed,
        thin=settings.thin, repeats=_count(settings, first), first_repeat=first, initial=start,
        architecture=StaleGradients(linear=1.0 if form.compensated else 0.0),
    )  # fmt: skip
    draws = run.draws[:, 0]
    phi = functions(draws.reshape(-1, draws.shape[-1])).reshape(*draws.shape[:2], len(PHI))
    return np.asarray(phi, np.float32)


def averages(settings: Settings, form: Form, phi: Array) -> Array:
    """φ̂ after every ``thin`` updates, (R, draws, 2): NaN until update 3/h, and from there on an average."""
    first = int(np.ceil(settings.relaxations / form.step_size / settings.thin))
    result = np.full(phi.shape, np.nan)
    if first < phi.shape[1]:
        count = np.arange(1, phi.shape[1] - first + 1)
        result[:, first:] = np.cumsum(phi[:, first:], axis=1) / count[:, None]
    return result


def summary(settings: Settings, found: dict[Form, Array], truth: dict[str, Any]) -> dict[str, Any]:
    """Biases, speedups and curves of the MSE as plain numbers."""
    exact = np.array(truth["mean"])
    estimates = {form: averages(settings, form, phi) - exact for form, phi in found.items()}
    bias = [
        {
            "workers": form.workers, "compensated": form.compensated, "step_size": form.step_size,
            "bias": errors[:, -1].mean(0).tolist(),
            "error": np.hypot(errors[:, -1].std(0, ddof=1) / np.sqrt(len(errors)), truth["error"]).tolist(),
        }
        for form, errors in estimates.items()
    ]  # fmt: skip
    speedups, curves = [], []
    for place, name in enumerate(PHI):
        groups: dict[tuple[int, bool], Array] = {}
        for form in found:
            group = (form.workers, form.compensated)
            mine = estimates[form][:, :, place][None]
            groups[group] = mine if group not in groups else np.concatenate([groups[group], mine])
        one = groups[1, False]
        for (workers, compensated), many in groups.items():
            curve = best_mse(many)
            curves.append({"phi": name, "workers": workers, "compensated": compensated, "mse": curve.tolist()})
            if workers > 1:
                row = {"phi": name, "workers": workers, "compensated": compensated}
                speedups.append({**row, **speedup(one, many, workers, settings)})
    chains = {w: trace_of(w, settings).chains[0] for w in settings.workers}
    return {
        **asdict(settings), "phi": list(PHI), "truth": truth, "bias": bias, "curves": curves,
        "speedup": in_seconds(speedups, settings),
        "updates": (settings.thin * np.arange(1, curve.size + 1)).tolist(),
        "staleness": {f"{w}": [float(c.staleness.mean()), int(c.staleness.max())] for w, c in chains.items()},
    }  # fmt: skip


def in_seconds(speedups: list[dict[str, Any]], settings: Settings) -> list[dict[str, Any]]:
    """The same rows with what the cluster makes of them in virtual time.

    Updates come at an even rate, so the ratio of seconds is that of updates a worker, times how many updates a second
    W workers make, over W times those of one: slow workers and a busy server take their share.
    """

    def rate(workers: int) -> float:
        return settings.steps / trace_of(workers, settings).chains[0].seconds

    alone = rate(1)
    shares = {w: rate(w) / (w * alone) for w in settings.workers}
    return [
        {**row, "share": shares[row["workers"]],
         "seconds": [shares[row["workers"]] * row[name] for name in ("speedup", "low", "high")]}
        for row in speedups
    ]  # fmt: skip


def best_mse(errors: Array) -> Array:
    """The least MSE over step sizes for every L, never rising with L: errors are (step size, R, L)."""
    mse = np.mean(errors**2, axis=1)
    least = np.min(np.where(np.isnan(mse), np.inf, mse), axis=0)
    return np.asarray(np.minimum.accumulate(least))


def updates_to(level: float, curve: Array, thin: int) -> float:
    """How many updates take a best MSE to a level, interpolated between logarithms; NaN if they do not."""
    below = np.flatnonzero(curve <= level)
    if not below.size:
        return float("nan")
    k = int(below[0])
    if k == 0 or not np.isfinite(curve[k - 1]) or curve[k - 1] <= curve[k]:
        return thin * (k + 1.0)
    share = np.log(curve[k - 1] / level) / np.log(curve[k - 1] / curve[k])
    return float(thin * np.exp(np.log(max(k, 1)) + share * (np.log(k + 1) - np.log(max(k, 1)))))


def speedup(one: Array, many: Array, workers: int, settings: Settings, resamples: int = 500) -> dict[str, Any]:
    """L of one worker over L/W of W, at several levels between what both reach; with a 95 % bootstrap interval."""

    def ratio(chosen: Any) -> float:
        curves = [best_mse(errors[:, chosen]) for errors in (one, many)]
        floor = max(curve[-1] for curve in curves)
        ratios = []
        for level in floor * np.array([1.0, 1.25, 1.6]):
            first, second = (updates_to(level, curve, settings.thin) for curve in curves)
            ratios.append(np.log(workers * first / second))
        return float(np.exp(np.mean(ratios)))

    runs = one.shape[1]
    random = np.random.Generator(np.random.Philox(key=settings.seed))
    spread = [ratio(random.integers(runs, size=runs)) for _ in range(resamples)]
    low, high = np.nanquantile(spread, [0.025, 0.975])
    return {"speedup": ratio(np.arange(runs)), "low": float(low), "high": float(high)}
