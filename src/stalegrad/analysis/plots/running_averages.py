"""The estimate as the run went on, with the error that it had at every moment."""

from typing import NamedTuple

import numpy as np
from matplotlib.axes import Axes

from stalegrad._internal.types import Array, IntArray
from stalegrad.analysis.estimates import estimate, running_average
from stalegrad.analysis.estimates.draws import LEAST_DRAWS
from stalegrad.analysis.plots.quantities import Quantity
from stalegrad.analysis.plots.style import LIGHT, Theme, count_axis, set_title, show_message, style_axes

_POINTS = 100
_SETTLED = 0.1  # of the draws: the axis fits what comes after them, and lets the first wild averages leave it


class RunningEstimate(NamedTuple):
    """φ̂ and its standard error after so many draws of each chain."""

    draws: IntArray
    value: Array
    error: Array


def running_estimate(quantity: Quantity, points: int = _POINTS) -> RunningEstimate:
    """φ̂ of the first l draws of all chains and its Monte Carlo standard error, for up to so many l.

    Each error is :func:`stalegrad.analysis.estimates.mcse` of these l draws alone: it accounts for their
    autocorrelation and for chains that differ, and for nothing that came later. The first is after 4 draws, or a
    hundredth of all.
    """
    first = max(LEAST_DRAWS, quantity.length // points)
    lengths = np.unique(np.linspace(first, quantity.length, points).astype(int))
    values, weights = quantity.common, quantity.weights
    averages = [estimate(values[:, :length], step_sizes=weights[:, :length]) for length in lengths]
    return RunningEstimate(
        lengths, np.array([float(each) for each in averages]), np.array([each.standard_error for each in averages])
    )


def draw_running_average(axes: Axes, quantity: Quantity, theme: Theme = LIGHT) -> None:
    """φ̂_s of each chain and φ̂ ± 2 standard errors of all, against updates."""
    style_axes(axes, theme)
    axes.set(xlabel="updates of each chain", ylabel="φ̂")
    set_title(axes, quantity.name, theme)
    if quantity.problem:
        show_message(axes, quantity.problem, theme)
        return
    updates, chains = quantity.updates[0], len(quantity.chains)
    averages = running_average(quantity.common, quantity.weights, axis=1)
    for s, average in enumerate(averages if chains > 1 else ()):
        axes.plot(
            updates[: quantity.length],
            average,
            color=theme.chain(s, chains),
            linewidth=1,
            label=theme.label(s, len(quantity.chains)),
        )
    running = running_estimate(quantity)
    at, low, high = updates[running.draws - 1], running.value - 2 * running.error, running.value + 2 * running.error
    axes.fill_between(at, low, high, color=theme.ink, alpha=0.14, linewidth=0, label="± 2 standard errors")
    axes.plot(at, running.value, color=theme.ink, linewidth=1.8, label="all chains" if chains > 1 else "average")
    settled = running.draws >= _SETTLED * quantity.length
    late = averages[:, int(_SETTLED * quantity.length) :]
    bottom, top = min(low[settled].min(), late.min()), max(high[settled].max(), late.max())
    room = 0.1 * (top - bottom) or 0.1 * abs(top) or 0.1
    axes.set_ylim(bottom - room, top + room)
    count_axis(axes)
