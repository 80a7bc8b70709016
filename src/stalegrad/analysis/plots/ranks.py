"""Whether chains take equal parts in all ranks: the most sensitive picture of whether they agree."""

import numpy as np
from matplotlib.axes import Axes
from scipy.stats import rankdata

from stalegrad.analysis.estimates import effective_sample_size
from stalegrad.analysis.plots.quantities import Quantity
from stalegrad.analysis.plots.style import LIGHT, Theme, percent, set_title, show_message, style_axes

_BINS = 20


def draw_ranks(axes: Axes, quantity: Quantity, theme: Theme = LIGHT) -> None:
    """Of each chain, how its draws are spread over the ranks among the draws of all chains (Vehtari et al. 2021).

    Chains that sample one law are level lines, up to chance. The grey band is where 95 % of a bin's counts of so many
    *effective* draws would lie.
    """
    style_axes(axes, theme)
    set_title(axes, quantity.name, theme)
    chains = quantity.common
    if quantity.problem or np.ptp(chains) == 0 or len(chains) < 2:
        alone = "one chain has nobody to compare its ranks with"
        show_message(axes, quantity.problem or (alone if len(chains) < 2 else "the draws do not vary"), theme)
        return
    ranks = (rankdata(chains.ravel()).reshape(chains.shape) - 0.5) / chains.size
    edges = np.linspace(0, 1, _BINS + 1)
    effective = max(1.0, min(float(effective_sample_size(chain)) for chain in chains))
    noise = 2 * np.sqrt((1 - 1 / _BINS) * _BINS / effective) / _BINS
    axes.axhspan(1 / _BINS - noise, 1 / _BINS + noise, color=theme.faint, alpha=0.45, linewidth=0, label="chance, 95%")
    for s, of_chain in enumerate(ranks):
        share = np.histogram(of_chain, edges)[0] / len(of_chain)
        axes.stairs(share, edges, color=theme.chain(s, len(chains)), linewidth=1.3, label=theme.label(s, len(chains)))
    axes.set(xlim=(0, 1), xlabel="rank among the draws of all chains", ylabel="share of the chain's")
    axes.set_ylim(0, max(axes.get_ylim()[1], 2 / _BINS))
    axes.xaxis.set_major_formatter(percent)
    axes.yaxis.set_major_formatter(percent)
