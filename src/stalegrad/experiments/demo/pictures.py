"""The four pictures, each in light and in dark."""

from collections.abc import Callable
from typing import Any

import numpy as np

from stalegrad._internal.types import Array
from stalegrad.analysis.estimates import Reliability
from stalegrad.analysis.plots import Theme, draw_staleness, png
from stalegrad.analysis.plots.style import picture, style_axes
from stalegrad.datasets.digits import Digits
from stalegrad.experiments.demo.analysis import Analysis


def pictures(analysis: Analysis, data: Digits, theme: Theme) -> dict[str, bytes]:
    """All four as PNG, by name."""
    draw: dict[str, Callable[[], Any]] = {
        "estimate": lambda: estimate(analysis, theme),
        "digits": lambda: digits(analysis, data, theme),
        "reliability": lambda: reliability(analysis, theme),
        "staleness": lambda: staleness(analysis, theme),
    }
    return {name: png(make()) for name, make in draw.items()}


def estimate(analysis: Analysis, theme: Theme) -> Any:
    """The log-likelihood of the averaged prediction as the run went on."""
    figure, axes = _figure(theme, 8.4, 3.8)
    p, numbers = analysis.predictions, analysis.numbers
    single = p.draw_scores["mean_log_likelihood"]
    exact = numbers["reference"]["averaged"]["mean_log_likelihood"]
    for chain, curve in enumerate(p.chain_curves):
        colour = theme.chain(chain, len(p.chain_curves))
        axes.plot(analysis.updates, curve, color=colour, linewidth=1.3, label=f"chain {chain}")
    axes.plot(analysis.updates, p.curve, color=theme.ink, linewidth=2.2, label="all chains")
    axes.axhline(exact, color=theme.right, linewidth=1.2, linestyle=":", label="exact posterior, averaged")
    axes.axhline(single, color=theme.weak, linewidth=1.2, linestyle=(0, (6, 3)), label="a single draw, on average")
    burn_in = numbers["settings"]["burn_in"]
    axes.axvspan(0, burn_in, color=theme.faint, alpha=0.35, linewidth=0)
    top, low = max(p.chain_curves.max(), exact), min(single, float(np.quantile(p.chain_curves, 0.02)))
    axes.text(
        burn_in / 2, (top + low) / 2, "left out", color=theme.ink, fontsize=9, rotation=90, ha="center", va="center"
    )
    axes.set(xlabel="updates of each chain", ylabel="test log-likelihood", xlim=(0, analysis.updates[-1] * 1.01))
    axes.set_ylim(low - 0.15 * (top - low), top + 0.15 * (top - low))
    axes.xaxis.set_major_formatter(lambda x, _: f"{x:,.0f}")
    axes.legend(frameon=False, fontsize=9, labelcolor=theme.ink, loc="center right")
    return figure


def staleness(analysis: Analysis, theme: Theme) -> Any:
    """How stale the gradients were, by chain."""
    figure, axes = _figure(theme, 8.4, 3.2)
    draw_staleness(axes, analysis.chains, theme)
    axes.legend(frameon=False, fontsize=9, labelcolor=theme.ink)
    return figure


def reliability(analysis: Analysis, theme: Theme) -> Any:
    """How often predictions were right against how sure they were, and how many there were."""
    figure, (axes, counts) = _figure(theme, 6.2, 5.6, rows=2, height_ratios=(3.4, 1), sharex=True)
    single, averaged = analysis.predictions.draw_reliability, analysis.reliability
    axes.plot([0, 1], [0, 1], color=theme.faint, linewidth=1.2, zorder=0)
    axes.annotate(
        "as sure as right", (0.7, 0.7), (8, -4), textcoords="offset points", color=theme.ink, fontsize=9, va="top"
    )
    _curve(axes, single, theme.weak, "s", "single draws, all together", bars=False)
    _curve(axes, averaged, theme.strong, "o", "averaged prediction, ± 1 s.e.", bars=True)
    axes.set(ylabel="share that was right", xlim=(0, 1), ylim=(0, 1.03))
    axes.legend(frameon=False, fontsize=9, labelcolor=theme.ink, loc="upper left")
    centre, width = (averaged.edges[1:] + averaged.edges[:-1]) / 2, np.diff(averaged.edges) * 0.4
    for curve, side, colour in ((averaged, -0.5, theme.strong), (single, 0.5, theme.weak)):
        counts.bar(centre + side * width, curve.count / curve.count.sum(), width, color=colour)
    counts.yaxis.set_major_formatter(lambda x, _: f"{100 * x:.0f}%")
    counts.set(xlabel="probability given to the digit that was named", ylabel="predictions")
    return figure


def _curve(axes: Any, curve: Reliability, colour: str, marker: str, label: str, *, bars: bool) -> None:
    full = curve.count > 1e-4 * curve.count.sum()
    x, y, n = curve.confidence[full], curve.accuracy[full], curve.count[full]
    axes.plot(x, y, color=colour, linewidth=1.2, marker=marker, markersize=5, label=label)
    if bars:
        axes.errorbar(x, y, yerr=_binomial_error(y, n), fmt="none", ecolor=colour, elinewidth=1, capsize=2, alpha=0.7)


def _binomial_error(share: Array, n: Array) -> Array:
    """Standard error as if there had been one more right and one more wrong: 0 of 3 is not certain. Cut at 0 and 1."""
    smoothed = (share * n + 1) / (n + 2)
    error = np.sqrt(smoothed * (1 - smoothed) / (n + 2))
    return np.stack([np.minimum(error, share), np.minimum(error, 1 - share)])


def digits(analysis: Analysis, data: Digits, theme: Theme) -> Any:
    """The digits that the averaged prediction is least sure of, with its probabilities and the draws' spread."""
    figure = picture(8.4, 6.6, theme)
    cells = figure.subplots(4, 4, height_ratios=(1, 1.25) * 2)
    for index, row in enumerate(analysis.hardest):
        image, bars = cells[index // 4 * 2 : index // 4 * 2 + 2, index % 4]
        truth, p = int(data.test_y[row]), analysis.hardest_mean[index]
        named = int(p.argmax())
        image.imshow(data.test_images[row], cmap=theme.image, vmin=0, vmax=16)
        image.set_title(f"it is a{'n' * (truth == 8)} {truth}", fontsize=10, color=theme.right)
        image.axis("off")
        bars.bar(range(10), p, color=[theme.right if k == truth else theme.strong for k in range(10)], width=0.75)
        bars.vlines(range(10), *analysis.hardest_interval[:, index], color=theme.ink, linewidth=1.2)
        verdict = f"says {named}, with {p[named]:.0%}"
        bars.set_title(verdict, fontsize=10, color=theme.right if named == truth else theme.weak)
        bars.set(ylim=(0, 1), xticks=range(10), yticks=(0, 0.5, 1))
        style_axes(bars, theme)
        bars.tick_params(length=2)
        bars.set_yticklabels(["0", "½", "1"] if index % 4 == 0 else [])
    return figure


def _figure(theme: Theme, width: float, height: float, rows: int = 1, **grid: Any) -> Any:
    figure = picture(width, height, theme)
    axes = figure.subplots(rows, 1, **grid)
    for each in np.atleast_1d(axes):
        style_axes(each, theme)
    return figure, axes
