"""The draws themselves, in the order in which they came."""

import numpy as np
from matplotlib.axes import Axes

from stalegrad._internal.types import Array, IntArray
from stalegrad.analysis.plots.quantities import Quantity
from stalegrad.analysis.plots.style import LIGHT, Theme, count_axis, set_title, show_message, style_axes

_BINS = 800  # columns of a picture; more draws than twice that are shown by the least and the greatest in each
_DOTS = 60  # up to so many draws are shown as dots as well


def draw_traces(axes: Axes, quantity: Quantity, theme: Theme = LIGHT) -> None:
    """φ(x_l) against l, a line a chain. Chains that mix look like one hairy band without a trend."""
    style_axes(axes, theme)
    axes.set(xlabel="updates of the chain", ylabel="φ")
    set_title(axes, quantity.name, theme)
    if not any(map(len, quantity.chains)):
        show_message(axes, "no draws", theme)
        return
    for s, (updates, values) in enumerate(zip(quantity.updates, quantity.chains, strict=True)):
        colour, dots = theme.chain(s, len(quantity.chains)), "." if len(values) <= _DOTS else ""
        line = envelope(updates, values, _BINS)
        axes.plot(
            *line, color=colour, linewidth=0.7, marker=dots, markersize=4, label=theme.label(s, len(quantity.chains))
        )
    axes.margins(x=0.01)
    count_axis(axes)


def envelope(x: IntArray, y: Array, bins: int) -> tuple[Array, Array]:
    """At most 2 · bins points with the outline of the curve: the least and the greatest y of each bin.

    >>> x, y = envelope(np.arange(8), np.array([0.0, 5, 1, 1, 1, 1, 9, 2]), bins=2)
    >>> x.tolist(), y.tolist()
    ([0, 1, 4, 6], [0.0, 5.0, 1.0, 9.0])
    """
    if len(y) <= 2 * bins:
        return x, y
    edges = np.linspace(0, len(y), bins + 1).astype(int)[:-1]
    owner = np.repeat(np.arange(bins), np.diff(np.append(edges, len(y))))
    order = np.lexsort((y, owner))  # within each bin by y: its first is the least, its last the greatest
    least, greatest = order[edges], order[np.append(edges[1:], len(y)) - 1]
    kept = np.unique(np.concatenate([least, greatest]))
    return x[kept], y[kept]
