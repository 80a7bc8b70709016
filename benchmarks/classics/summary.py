"""Means and standard deviations of draws, with how far Monte Carlo lets them be known."""

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np


class Summary(NamedTuple):
    """Of k quantities, arrays (k,) each."""

    mean: Any
    sd: Any
    mean_error: Any
    """Monte Carlo standard error of the mean."""
    sd_error: Any
    """Monte Carlo standard error of the standard deviation."""
    ess: Any
    """Effective draws, as the mean counts them."""
    rhat: Any
    """Split R-hat."""


def summarise(draws: Mapping[str, Any]) -> dict[str, Summary]:
    """Of arrays (chain, draw, k) by name."""
    return {name: _summary(np.asarray(values, np.float64)) for name, values in draws.items()}


def _summary(values: Any) -> Summary:
    from arviz_stats.base import array_stats

    from stalegrad.analysis.diagnostics.convergence import split_rhat

    axes = {"chain_axis": 0, "draw_axis": 1}
    sd = values.reshape(-1, values.shape[2]).std(axis=0, ddof=1)
    with np.errstate(invalid="ignore", divide="ignore"):  # a quantity that does not move
        ess = np.asarray(array_stats.ess(values, method="mean", **axes))
        sd_error = np.asarray(array_stats.mcse(values, method="sd", **axes))
    return Summary(values.mean(axis=(0, 1)), sd, sd / np.sqrt(ess), sd_error, ess, split_rhat(values))
