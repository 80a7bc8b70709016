"""The autocorrelation of draws at each lag."""

import numpy as np
from matplotlib.axes import Axes

from stalegrad._internal.types import Array
from stalegrad.analysis.estimates import autocovariance, effective_sample_size
from stalegrad.analysis.plots.quantities import Quantity
from stalegrad.analysis.plots.style import LIGHT, Theme, count_axis, set_title, show_message, style_axes

_LEAST_LAGS = 20


def autocorrelation(values: Array) -> Array:
    """ρ_k = γ_k/γ_0 of one chain for k = 0, …, L − 1, with γ from :func:`stalegrad.analysis.estimates.autocovariance`.

    >>> autocorrelation(np.array([1.0, -1.0, 1.0, -1.0]))
    array([ 1.  , -0.75,  0.5 , -0.25])
    """
    gamma = autocovariance(values)
    return np.asarray(gamma / gamma[0])


def draw_autocorrelation(axes: Axes, quantity: Quantity, theme: Theme = LIGHT, *, lags: int | None = None) -> None:
    """ρ_k against the lag k, a line a chain, and where 95 % of the ρ_k of independent draws would lie.

    Args:
        axes: to draw on.
        quantity: of which.
        theme: colours.
        lags: the largest k; None for six autocorrelation times.
    """
    style_axes(axes, theme)
    axes.set(xlabel=_lag_label(quantity), ylabel="autocorrelation")
    set_title(axes, quantity.name, theme)
    problem = quantity.problem or ("a chain does not vary" if np.ptp(quantity.common, axis=1).min() == 0 else "")
    if problem:
        show_message(axes, problem, theme)
        return
    count, length = quantity.common.shape
    memory = max(length / float(effective_sample_size(chain)) for chain in quantity.common)
    lags = min(length - 1, lags or max(_LEAST_LAGS, round(6 * memory)))
    noise = 2 / np.sqrt(length)
    axes.axhspan(-noise, noise, color=theme.faint, alpha=0.45, linewidth=0, label="independent draws, 95%")
    for s, chain in enumerate(quantity.common):
        rho = autocorrelation(chain)[: lags + 1]
        axes.plot(
            np.arange(lags + 1),
            rho,
            color=theme.chain(s, count),
            linewidth=1.3,
            label=theme.label(s, len(quantity.chains)),
        )
    axes.set(xlim=(0, lags), ylim=(min(axes.get_ylim()[0], -0.15), 1.03))
    count_axis(axes)


def _lag_label(quantity: Quantity) -> str:
    apart = np.diff(quantity.updates[0][:2])
    return f"lag, in draws of {apart[0]:,} updates" if apart.size and apart[0] > 1 else "lag, in draws"
