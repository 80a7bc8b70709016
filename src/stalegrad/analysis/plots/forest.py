"""Intervals of many quantities below each other, a line a chain."""

from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes

from stalegrad._internal.types import Array
from stalegrad.analysis.plots.quantities import Quantity
from stalegrad.analysis.plots.style import LIGHT, Theme, plain_label, show_message, style_axes

INNER, OUTER = 0.5, 0.94
"""Shares of the draws within the thick and within the thin line."""


def interval(values: Array, share: float) -> tuple[float, float]:
    """From the quantile (1 − share)/2 to the one as far from the other end.

    >>> interval(np.arange(101.0), 0.5)
    (25.0, 75.0)
    """
    low, high = np.quantile(values, [(1 - share) / 2, (1 + share) / 2])
    return float(low), float(high)


def draw_forest(axes: Axes, quantities: Sequence[Quantity], theme: Theme = LIGHT) -> None:
    """For each quantity the median, half and 94 % of the draws of each chain.

    Quantities are in units of their own standard deviations, from their own medians, so that all fit on one axis.
    """
    style_axes(axes, theme)
    known = [quantity for quantity in quantities if not quantity.problem and np.ptp(quantity.common) > 0]
    if not known:
        show_message(axes, "there are too few draws", theme)
        return
    count = len(known[0].chains)
    for row, quantity in enumerate(known):
        middle, unit = np.median(quantity.common), quantity.common.std()
        for s, chain in enumerate(quantity.common):
            scaled = (chain - middle) / unit
            at = row + (s - (count - 1) / 2) * min(0.22, 0.7 / count)
            colour = theme.chain(s, count)
            axes.plot(interval(scaled, OUTER), [at, at], color=colour, linewidth=1.2, solid_capstyle="butt")
            axes.plot(interval(scaled, INNER), [at, at], color=colour, linewidth=3.4, solid_capstyle="butt")
            label = theme.label(s, count) if row == 0 else ""
            axes.plot([np.median(scaled)], [at], "o", color=colour, markersize=4, label=label)
    axes.axvline(0, color=theme.faint, linewidth=1, zorder=0)
    axes.set_yticks(range(len(known)), [plain_label(quantity.name) for quantity in known])
    axes.set_ylim(len(known) - 0.4, -0.6)
    axes.set_xlabel("distance from the median of all draws, in their standard deviations")
    axes.tick_params(axis="y", length=0)
    axes.spines["left"].set_visible(False)
