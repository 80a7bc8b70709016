"""How late the gradients came: by chain, and by worker."""

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import LogNorm

from stalegrad._internal.types import IntArray
from stalegrad.analysis.plots.style import LIGHT, Theme, percent, show_message, style_axes
from stalegrad.protocol.chain_trace import ChainTrace
from stalegrad.protocol.staleness_counts import StalenessCounts

_MOST_BINS = 40
_LEAST_BINS = 5  # that the axis has room for, though there may be fewer
_RARE = 0.001
_MOST_NAMES = 12  # workers that are named


class Bins(NamedTuple):
    """Bins of τ: one a value, or several values each where they are many. The last may be open."""

    edges: IntArray
    """One more than there are bins. Bin k holds edges[k] ≤ τ < edges[k + 1]."""
    open: bool
    """Whether the last bin stands for all greater τ and has the width of the others on the axis."""

    @property
    def names(self) -> list[str]:
        """What the axis says below each bin."""
        starts = [f"{start:,}" for start in self.edges[:-1]]
        return [*starts[:-1], f"≥ {starts[-1]}"] if self.open else starts


def staleness_bins(chains: Sequence[ChainTrace]) -> Bins:
    """The same bins for all chains and workers of a picture: at most 40, and an open one.

    Every τ of a gradient that was used has a bin of its own if 40 are enough. If not, the bins are made for 99.9 % of
    all gradients, and the open one takes the stalest.

    >>> from stalegrad.protocol.trace import Trace
    >>> staleness_bins(Trace.from_staleness([0, 1, 1, 3]).chains).names
    ['0', '1', '2', '3']
    >>> staleness_bins(Trace.from_staleness([2] * 5000 + [2000]).chains).names
    ['0', '1', '2', '≥ 3']
    """
    counts = StalenessCounts.together(chain.staleness_counts for chain in chains)
    usual = counts.largest
    if usual >= _MOST_BINS:
        usual = counts.quantile(1 - _RARE)
    width = math.ceil((usual + 1) / _MOST_BINS)
    edges = np.arange(0, usual + width + 1, width)
    largest = int(counts.tau.max(initial=0))
    return Bins(np.append(edges, largest + 1), open=True) if largest >= edges[-1] else Bins(edges, open=False)


def counts_by_worker(chains: Sequence[ChainTrace], bins: Bins) -> list[tuple[int, int, IntArray]]:
    """(chain, worker, how many of its gradients are in each bin), the dropped included, for all that sent any."""
    rows, width = [], len(bins.edges) - 1
    for s, chain in enumerate(chains):
        of_worker: dict[int, IntArray] = {}
        for block in chain.blocks():
            place = np.searchsorted(bins.edges, block.staleness, side="right") - 1
            counts = np.bincount(block.worker * np.int64(width) + place, minlength=width)
            counts = np.pad(counts, (0, -len(counts) % width)).reshape(-1, width)
            for worker in np.flatnonzero(counts.any(axis=1)).tolist():
                of_worker[worker] = of_worker.get(worker, 0) + counts[worker]
        rows += [(s, worker, of_worker[worker]) for worker in sorted(of_worker)]
    return rows


def draw_staleness(axes: Axes, chains: Sequence[ChainTrace], theme: Theme = LIGHT) -> None:
    """The share of each staleness among a chain's gradients, in logarithms; those that were dropped are paler."""
    style_axes(axes, theme)
    bins = _tau_axis(axes, chains)
    axes.set_ylabel("share of the gradients")
    if not any(map(len, chains)):
        show_message(axes, "no gradients", theme)
        return
    groups = [[chain] for chain in chains] if len(chains) <= len(theme.chains) else [list(chains)]
    width, smallest = 0.8 / len(groups), 1.0
    for s, group in enumerate(groups):
        counts = StalenessCounts.together(chain.staleness_counts for chain in group)
        at = np.arange(len(bins.names)) + (s - (len(groups) - 1) / 2) * width
        name = theme.label(s, len(chains))
        label = f"{name}: mean {counts.mean:.2f}, largest {counts.largest:,}" if counts.accepted else name
        used, dropped = (
            np.histogram(counts.tau, bins.edges, weights=part)[0] / max(counts.arrived, 1)
            for part in (counts.used, counts.dropped)
        )
        axes.bar(at, used, width, color=theme.chain(s, len(chains)), label=label)
        axes.bar(at, dropped, width, bottom=used, color=theme.chain(s, len(chains)), alpha=0.4)
        shares = np.concatenate([used, dropped])
        smallest = min(smallest, shares[shares > 0].min(initial=1.0))
    if lost := sum(len(chain) - chain.steps for chain in chains):
        axes.bar([0], [0], color=theme.soft, alpha=0.4, label=f"dropped, {lost:,}")
    axes.set_yscale("log")
    axes.set_ylim(min(0.004, smallest / 1.7), 1.3)
    axes.yaxis.set_major_formatter(percent)


def draw_staleness_by_worker(axes: Axes, chains: Sequence[ChainTrace], theme: Theme = LIGHT) -> None:
    """A row a worker: the stronger the colour, the more of its gradients had that staleness."""
    style_axes(axes, theme)
    bins = _tau_axis(axes, chains)
    rows = counts_by_worker(chains, bins)
    if not rows:
        show_message(axes, "no gradients", theme)
        return
    counts = np.array([count for *_, count in rows])
    share = counts / counts.sum(axis=1, keepdims=True)
    mesh = axes.pcolormesh(
        np.arange(len(bins.names) + 1) - 0.5, np.arange(len(rows) + 1) - 0.5, np.ma.masked_equal(share, 0.0),
        cmap=theme.heat, norm=LogNorm(min(0.01, share[share > 0].min()), 1.0), edgecolors=theme.paper,
        linewidth=0.8 if len(rows) <= 4 * _MOST_NAMES else 0.0,
    )  # fmt: skip
    axes.set_ylim(max(len(rows), 2) - 0.5, -0.5)
    axes.spines[["left", "bottom"]].set_visible(False)
    axes.tick_params(axis="y", length=0)
    shown = range(0, len(rows), math.ceil(len(rows) / _MOST_NAMES))
    names = [f"chain {s}, worker {worker}" if len(chains) > 1 else f"worker {worker}" for s, worker, _ in rows]
    axes.set_yticks(list(shown), [names[k] for k in shown])
    bar = axes.figure.colorbar(mesh, ax=axes, pad=0.015, aspect=18, format=percent)
    bar.ax.tick_params(colors=theme.ink, labelsize=9, which="both")
    bar.ax.minorticks_off()
    bar.ax.set_frame_on(False)
    bar.set_label("share of its gradients", color=theme.ink)


def _tau_axis(axes: Axes, chains: Sequence[ChainTrace]) -> Bins:
    """Bins side by side, as many of them named as there is room for."""
    bins = staleness_bins(chains)
    names = bins.names
    step = math.ceil(len(names) / 20)
    shown = [k for k in range(0, len(names), step) if not bins.open or k <= len(names) - 1 - step]
    shown += [len(names) - 1] if bins.open else []
    axes.set_xticks(shown, [names[k] for k in shown])
    axes.set_xlim(-0.6, max(len(names), _LEAST_BINS) - 0.4)
    axes.set_xlabel("staleness τ: updates made while the gradient was under way")
    return bins
