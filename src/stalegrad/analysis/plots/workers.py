"""Who computed when, and how stale gradients were over time: the pictures of the live page, of a whole run."""

import math
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import PowerNorm

from stalegrad.analysis.plots.style import LIGHT, Theme, percent, show_message, style_axes
from stalegrad.protocol.trace_bins import EDGES, TraceBins

_MOST_NAMES = 12
_UNITS = ((3 * 3600.0, 3600.0, "hours"), (600.0, 60.0, "minutes"), (0.0, 1.0, "seconds"))


def draw_workers(axes: Axes, bins: TraceBins, theme: Theme = LIGHT, *, virtual: bool = False) -> None:
    """A row a worker: the stronger the colour, the larger the share of that time in which it computed.

    Args:
        axes: to draw on.
        bins: of the run's traces.
        theme: colours.
        virtual: whether the times are those of a simulated cluster.
    """
    style_axes(axes, theme)
    busy = bins.busy_by_lane()
    if not busy.any():
        show_message(axes, "how long gradients took is not known", theme)
        return
    _mesh(axes, bins, np.arange(bins.lanes + 1) - 0.5, np.minimum(busy, 1.0), theme, "share of time computing")
    axes.set_ylim(max(bins.lanes, 2) - 0.5, -0.5)
    shown = range(0, bins.lanes, math.ceil(bins.lanes / _MOST_NAMES))
    pairs = [divmod(lane * bins.per_lane, bins.workers) for lane in shown]
    names = [f"chain {s}, worker {w}" if bins.servers > 1 else f"worker {w}" for s, w in pairs]
    axes.set_yticks(list(shown), names)
    _time_axis(axes, bins, virtual)


def draw_staleness_over_time(axes: Axes, bins: TraceBins, theme: Theme = LIGHT, *, virtual: bool = False) -> None:
    """A column a moment: the stronger the colour, the larger the share of its gradients that had that staleness.

    Args:
        axes: to draw on.
        bins: of the run's traces.
        theme: colours.
        virtual: whether the times are those of a simulated cluster.
    """
    style_axes(axes, theme)
    heat = bins.heat_by_time()
    if not heat.size:
        show_message(axes, "no gradients", theme)
        return
    _mesh(axes, bins, np.arange(heat.shape[1] + 1) - 0.5, heat.T, theme, "share of the gradients")
    step = math.ceil(heat.shape[1] / _MOST_NAMES)
    axes.set_yticks(range(0, heat.shape[1], step), [f"{tau:,}" for tau in EDGES[: heat.shape[1] : step]])
    axes.set_ylabel("staleness τ")
    _time_axis(axes, bins, virtual)


def _mesh(axes: Axes, bins: TraceBins, rows: Any, share: Any, theme: Theme, label: str) -> None:
    unit, _ = _unit(bins)
    edges = np.minimum(np.arange(bins.count + 1) * bins.width, bins.end) / unit
    mesh = axes.pcolormesh(
        edges, rows, np.ma.masked_equal(share, 0.0), cmap=theme.heat, norm=PowerNorm(0.5, 0.0, 1.0), rasterized=True
    )
    axes.spines[["left", "bottom"]].set_visible(False)
    axes.tick_params(axis="y", length=0)
    bar = axes.figure.colorbar(mesh, ax=axes, pad=0.015, aspect=18, format=percent)
    bar.ax.tick_params(colors=theme.ink, labelsize=9, which="both")
    bar.ax.set_frame_on(False)
    bar.set_label(label, color=theme.ink)


def _unit(bins: TraceBins) -> tuple[float, str]:
    return next((seconds, name) for least, seconds, name in _UNITS if bins.end >= least)


def _time_axis(axes: Axes, bins: TraceBins, virtual: bool) -> None:
    unit, name = _unit(bins)
    axes.set(xlim=(0, bins.end / unit), xlabel=f"{'virtual ' * virtual}{name}")
