"""What the draws of each chain say of the posterior's density."""

import numpy as np
from matplotlib.axes import Axes

from stalegrad._internal.types import Array
from stalegrad.analysis.plots.quantities import Quantity
from stalegrad.analysis.plots.style import LIGHT, Theme, set_title, show_message, style_axes

_POINTS = 256
_BEYOND = 3  # bandwidths that the axis reaches beyond the outermost draws


def density(values: Array, points: Array, weights: Array | None = None) -> Array:
    """A kernel density estimate with normal kernels, at some points evenly spaced.

    The bandwidth is Silverman's, 0.9 min(s, IQR/1.34) L^(−1/5), for draws whose autocorrelation is not counted in: the
    curve is for the eye. Draws are counted on the points first, so that many of them cost no more than few.

    >>> points = np.linspace(-5, 5, 1001)
    >>> draws = np.random.default_rng(0).normal(size=20_000)
    >>> bool(np.abs(density(draws, points) - np.exp(-points**2 / 2) / np.sqrt(2 * np.pi)).max() < 0.02)
    True
    """
    width = points[1] - points[0]
    edges = np.append(points - width / 2, points[-1] + width / 2)
    counts, _ = np.histogram(values, edges, weights=weights)
    reach = np.arange(-len(points) + 1, len(points)) * width
    kernel = np.exp(-0.5 * (reach / max(bandwidth(values), width)) ** 2)
    smooth = np.convolve(counts, kernel, "full")[len(points) - 1 : 2 * len(points) - 1]
    return np.asarray(smooth / (smooth.sum() * width))


def bandwidth(values: Array) -> float:
    """Silverman's, from whichever is smaller of standard deviation and interquartile range."""
    low, high = np.quantile(values, [0.25, 0.75])
    spread = min(values.std(), (high - low) / 1.34) or values.std()
    return float(0.9 * spread * len(values) ** -0.2)


def draw_density(axes: Axes, quantity: Quantity, theme: Theme = LIGHT) -> None:
    """The density of each chain's draws, and of all together, weighed by step sizes."""
    style_axes(axes, theme)
    axes.set(yticks=[])
    axes.spines["left"].set_visible(False)
    set_title(axes, quantity.name, theme)
    chains = quantity.common
    if quantity.problem or np.ptp(chains) == 0:
        show_message(axes, quantity.problem or "the draws do not vary", theme)
        return
    beyond = _BEYOND * bandwidth(chains.ravel())
    points = np.linspace(chains.min() - beyond, chains.max() + beyond, _POINTS)
    for s, chain in enumerate(chains):
        if np.ptp(chain) > 0:
            axes.plot(
                points, density(chain, points, quantity.weights[s]), color=theme.chain(s, len(chains)), linewidth=1.1,
                alpha=0.9, label=theme.label(s, len(chains)),
            )  # fmt: skip
    if len(chains) > 1:
        together = density(chains.ravel(), points, quantity.weights.ravel())
        axes.plot(points, together, color=theme.ink, linewidth=1.8, label="all chains")
        axes.fill_between(points, together, color=theme.shade, alpha=0.5, linewidth=0)
    axes.set_ylim(bottom=0)
    axes.margins(x=0)
