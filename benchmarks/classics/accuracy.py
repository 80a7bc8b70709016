"""Whether a run's means and standard deviations are right, with the Monte Carlo errors of both sides in the statement.

Let a quantity have mean m and standard deviation s in the run, m₀ and s₀ in the reference, with standard errors ε(·).
It is off if

    |m − m₀| / s₀ > 0.1 + k √(ε(m)² + ε(m₀)²) / s₀   or   |log s/s₀| > log 1.1 + k √((ε(s)/s)² + (ε(s₀)/s₀)²),

with k such that n quantities that are exactly at the edge are all passed with probability 1 − 10⁻³. So chance alone
does not condemn a run; and lest few draws excuse everything, a run is *right* only if it also knows every mean to 0.1
standard deviations, which takes a hundred effective draws. Otherwise, silent as it may be, it is *imprecise*.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from statistics import NormalDist
from typing import Any

import numpy as np

from classics.summary import Summary

MEAN_TOLERANCE = 0.1
"""Of a posterior standard deviation."""
SD_TOLERANCE = 1.1
"""As a ratio, either way."""
FALSE_ALARMS = 1e-3
"""The chance that a run is condemned by chance alone."""
LARGEST_ERROR = 0.1
"""Standard error of a mean in standard deviations from which on a run is imprecise."""

RIGHT, IMPRECISE, WARNED, NEEDLESS, SILENT, REFUSED = (
    "right", "imprecise", "warned", "right, but warned", "WRONG AND SILENT", "refused",
)  # fmt: skip
"""Within tolerance; within it, with too few effective draws to tell; off or imprecise, with a serious finding; right,
with a serious finding all the same; off, without any; an exception."""


@dataclass(frozen=True)
class Worst:
    """The quantity that is furthest off, after its errors have been allowed for."""

    name: str
    off: float
    """|m − m₀|/s₀, or s/s₀."""
    error: float
    """Its standard error."""
    within: bool


@dataclass(frozen=True)
class Accuracy:
    """How a run compares with its reference."""

    mean: Worst
    sd: Worst
    precise: bool
    ess: float
    """The fewest effective draws of any quantity."""
    rhat: float
    """The largest split R-hat of any quantity."""

    def verdict(self, serious: bool) -> str:
        """In a word, of a run with a serious finding or without one."""
        within = self.mean.within and self.sd.within
        if serious:
            return NEEDLESS if within and self.precise else WARNED
        if not within:
            return SILENT
        return RIGHT if self.precise else IMPRECISE


def compare(ours: Mapping[str, Summary], reference: Mapping[str, Summary]) -> Accuracy:
    """Hold summaries of a run, by site, against those of the reference."""
    if ours.keys() != reference.keys():
        raise ValueError(f"the run has {sorted(ours)}, its reference {sorted(reference)}")
    names = [
        f"{site}[{i}]" if len(each.mean) > 1 else site for site, each in ours.items() for i in range(len(each.mean))
    ]
    m, s, dm, ds, ess, rhat = _columns(ours)
    m0, s0, dm0, ds0, _, _ = _columns(reference)
    k = NormalDist().inv_cdf(1 - FALSE_ALARMS / (4 * len(names)))
    off, error = np.abs(m - m0) / s0, np.hypot(dm, dm0) / s0
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio, ratio_error = s / s0, np.hypot(ds / s, ds0 / s0)
        spread = np.abs(np.log(ratio)) - np.log(SD_TOLERANCE) - k * ratio_error
    mean = _worst(names, off, error, off - MEAN_TOLERANCE - k * error)
    sd = _worst(names, ratio, ratio * ratio_error, spread)
    with np.errstate(invalid="ignore"):
        precise = bool((dm / s0 <= LARGEST_ERROR).all())
    return Accuracy(mean, sd, precise, float(np.nan_to_num(ess).min()), float(np.nan_to_num(rhat, nan=np.inf).max()))


def _columns(sites: Mapping[str, Summary]) -> list[Any]:
    return [np.concatenate([np.atleast_1d(each[place]) for each in sites.values()]) for place in range(6)]


def _worst(names: list[str], off: Any, error: Any, excess: Any) -> Worst:
    """Whatever is no number is the worst of all: a chain that never moved has neither spread nor errors."""
    excess = np.where(np.isfinite(excess), excess, np.inf)
    place = int(np.argmax(excess))
    return Worst(names[place], float(off[place]), float(error[place]), bool(excess[place] <= 0))
