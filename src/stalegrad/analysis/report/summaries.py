"""What a quantity's draws say: its average with errors, its spread, and how well its chains mix."""

from dataclasses import dataclass
from math import nan

import numpy as np

from stalegrad._internal.types import Array
from stalegrad.analysis.diagnostics import convergence
from stalegrad.analysis.diagnostics.checks.mixing import RHAT_LIMIT
from stalegrad.analysis.estimates import estimate
from stalegrad.analysis.estimates.arrival import arrived
from stalegrad.analysis.estimates.posterior_average import plus_minus
from stalegrad.analysis.plots import Quantity
from stalegrad.analysis.report.text_table import TextTable, minus, rounded

_TAILS = (0.05, 0.95)
_NOTHING = "–"


@dataclass(frozen=True)
class Summary:
    """One row of the tables.

    Args:
        name: of the quantity.
        draws: that all chains have, of all together.
        problem: why the numbers below are NaN; empty if they are not.
        value: φ̂.
        error: its Monte Carlo standard error; NaN where a chain has not arrived, and there is none.
        spread: the posterior's standard deviation.
        low, high: between them lie 90 % of the posterior.
        rhat: rank-normalised split R-hat; of a single chain, that of its two halves.
        ess: bulk effective sample size; NaN likewise.
    """

    name: str
    draws: int
    problem: str = ""
    value: float = nan
    error: float = nan
    spread: float = nan
    low: float = nan
    high: float = nan
    rhat: float = nan
    ess: float = nan


def summarise(quantity: Quantity) -> Summary:
    """The numbers of one quantity; draws count by their step sizes, as in ``run.estimate``."""
    draws = len(quantity.chains) * quantity.length
    if quantity.problem:
        return Summary(quantity.name, draws, quantity.problem)
    values, weights = quantity.common, quantity.weights
    average = estimate(values, step_sizes=weights)
    there = bool(arrived(values))
    mixing = convergence(_halves(values) if len(values) == 1 and quantity.length >= 8 else values)
    low, high = np.quantile(values, _TAILS, weights=weights, method="inverted_cdf")
    return Summary(
        quantity.name,
        draws,
        value=float(average),
        error=float(average.standard_error) if there else nan,
        spread=float(np.sqrt(np.average((values - float(average)) ** 2, weights=weights))),
        low=float(low),
        high=float(high),
        rhat=float(mixing.rhat),
        ess=float(mixing.ess) if there else nan,
    )


def estimates_table(summaries: tuple[Summary, ...], note: str) -> TextTable:
    """Average, error, spread and 90 % interval of every quantity."""
    rows = [
        (each.name, each.problem, "", "")
        if each.problem
        else (
            each.name,
            minus(plus_minus(each.value, each.error, digits=2)),
            rounded(each.spread),
            minus(f"{rounded(each.low)} to {rounded(each.high)}"),
        )
        for each in summaries
    ]
    return TextTable("", ("φ", "φ̂ ± s.e.", "s.d.", "90% of the posterior"), tuple(rows), note=note)


def mixing_table(summaries: tuple[Summary, ...], note: str) -> TextTable:
    """How well it is known."""
    rows = [
        (
            each.name,
            _rhat(each.rhat),
            _number(each.ess),
            _share(each.ess, each.draws),
            _share(each.error, each.spread),
        )
        if not each.problem
        else (each.name, *[_NOTHING] * 4)
        for each in summaries
    ]
    return TextTable("", ("φ", "R-hat", "ESS", "ESS per draw", "s.e. / s.d."), tuple(rows), note=note)


def largest_rhat(summaries: tuple[Summary, ...]) -> float:
    """The worst of them; NaN if none has any."""
    return max((each.rhat for each in summaries if np.isfinite(each.rhat)), default=nan)


def least_ess(summaries: tuple[Summary, ...]) -> float:
    """The worst of them; NaN if none has any."""
    return min((each.ess for each in summaries if np.isfinite(each.ess)), default=nan)


def _halves(values: Array) -> Array:
    half = values.shape[1] // 2
    return np.stack([values[0, :half], values[0, -half:]])


def _rhat(value: float) -> str:
    return _NOTHING if not np.isfinite(value) else f"{value:.3f}" + " !" * (value >= RHAT_LIMIT)


def _number(value: float) -> str:
    return f"{value:,.0f}" if np.isfinite(value) else _NOTHING


def _share(part: float, whole: float) -> str:
    return f"{part / whole:.1%}" if np.isfinite(part) and whole > 0 else _NOTHING
