"""Quantities against each other: correlations, funnels, separate modes."""

from collections.abc import Sequence

import numpy as np

from stalegrad.analysis.plots.densities import draw_density
from stalegrad.analysis.plots.quantities import Quantity
from stalegrad.analysis.plots.style import LIGHT, Picture, Theme, legend_above, picture, plain_label, style_axes

MOST = 4
"""Quantities of which all pairs are shown."""
_DRAWS = 2000  # of all chains, evenly spaced, in one panel


def draw_pairs(quantities: Sequence[Quantity], theme: Theme = LIGHT) -> Picture | None:
    """Below the diagonal a point a draw, on it the densities; None with fewer than two quantities that vary."""
    known = [q for q in quantities if not q.problem and np.ptp(q.common) > 0][:MOST]
    if len(known) < 2:
        return None
    count, chains = len(known), len(known[0].chains)
    figure = picture(8.4, 0.6 + 1.9 * count, theme)
    axes = figure.subplots(count, count)
    every = max(1, known[0].common.size // _DRAWS)
    for row, below in enumerate(known):
        for column, beside in enumerate(known):
            each = axes[row, column]
            if column > row:
                each.set_axis_off()
                continue
            if column == row:
                draw_density(each, below, theme)
                each.set_title("")
            else:
                style_axes(each, theme)
                for s in range(chains):
                    each.plot(
                        beside.common[s, ::every], below.common[s, ::every], ".", markersize=2.2, alpha=0.5,
                        color=theme.chain(s, chains), markeredgewidth=0,
                    )  # fmt: skip
            each.tick_params(labelsize=7)
            if row == count - 1:
                each.set_xlabel(plain_label(beside.name), fontsize=8)
            if column == 0 and row:
                each.set_ylabel(plain_label(below.name), fontsize=8)
    legend_above(figure, [axes[0, 0]], theme)
    return figure
