"""How fast the run went, and when something went wrong."""

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import FuncFormatter

from stalegrad._internal.types import Array
from stalegrad.analysis.plots.style import LIGHT, Theme, plain_label, show_message, style_axes
from stalegrad.engines import Event
from stalegrad.protocol.chain_trace import ChainTrace

_WINDOWS = 120
_LEAST_UPDATES = 25  # in a window, on average
_MARKERS = {"died": "X", "raised": "v", "hung": "s", "refused": "d"}
_EVENT_TEXTS = {"raised": "raised an error", "hung": "did not answer", "refused": "sent a bad gradient"}
_UNITS = ((3 * 3600.0, 3600.0, "hours"), (600.0, 60.0, "minutes"), (0.0, 1.0, "seconds"))


def event_text(kind: str) -> str:
    """What a worker did, in words, by the kind of its :class:`~stalegrad.engines.Event`."""
    return _EVENT_TEXTS.get(kind, kind)


def has_times(chains: Sequence[ChainTrace]) -> bool:
    """Whether all chains have made updates at known times."""
    return all(chain.steps and chain.seconds > 0 for chain in chains)


class Throughput(NamedTuple):
    """Gradients a second in windows of equal length."""

    edges: Array
    """Of the windows, in seconds since the start: one more than there are windows."""
    rate: Array


def throughput(times: Iterable[Array], edges: Array) -> Throughput:
    """The rate in each window, from the times at which gradients were dealt with, in blocks and ascending order.

    The count N(t) is a straight line between one time and the next, so that gradients which come in rounds, as those of
    equally fast simulated workers do, show as the steady rate that they are, and Σ rate · length is their number.

    >>> throughput([np.array([1.0, 1.0, 2.0]), np.array([2.0, 3.0, 3.0])], np.array([0.0, 1.5, 3.0])).rate
    array([2., 2.])
    """
    counted = np.zeros(len(edges))
    at, count = np.zeros(1), np.zeros(1)  # the last points of N(t): the next block may add to the very last
    for block in times:
        new, together = np.unique(block, return_counts=True)
        if not new.size:
            continue
        total = count[-1] + np.cumsum(together)
        known = at < new[0]  # all, unless the block goes on at the time at which the last one has ended
        at, count = np.concatenate([at[known], new]), np.concatenate([count[known], total])
        inside = (edges >= at[0]) & (edges < at[-1])
        counted[inside] = np.interp(edges[inside], at, count)
        at, count = at[-2:], count[-2:]
    counted[edges >= at[-1]] = count[-1]
    return Throughput(edges, np.diff(counted) / np.diff(edges))


def draw_throughput(
    axes: Axes,
    chains: Sequence[ChainTrace],
    events: Sequence[Event] = (),
    theme: Theme = LIGHT,
    *,
    virtual: bool = False,
) -> None:
    """Updates a second of each chain and of all, dropped gradients a second, and the moments when workers failed.

    Args:
        axes: to draw on.
        chains: of which.
        events: what went wrong.
        theme: colours.
        virtual: whether the times are those of a simulated cluster.
    """
    style_axes(axes, theme)
    axes.set(xlabel="virtual seconds" if virtual else "seconds", ylabel="updates a second")
    if not has_times(chains):
        show_message(axes, "the trace holds no times", theme)
        return
    end = max(chain.seconds for chain in chains)
    unit, name = next((seconds, name) for least, seconds, name in _UNITS if end >= least)
    windows = int(np.clip(min(chain.steps for chain in chains) // _LEAST_UPDATES, 1, _WINDOWS))
    edges = np.linspace(0, end, windows + 1)
    for s, chain in enumerate(chains if len(chains) > 1 else ()):
        own = np.append(edges[edges < chain.seconds - edges[1] / 2], chain.seconds)  # no sliver of a window at its end
        shown = throughput(_times(chain, accepted=True), own)
        _stairs(axes, shown, unit, theme.chain(s, len(chains)), theme.label(s, len(chains)), 1.0)
    total = _total(chains, edges, accepted=True)
    _stairs(axes, total, unit, theme.ink, "all chains" if len(chains) > 1 else "updates", 1.6)
    if any(chain.steps < len(chain) for chain in chains):
        _stairs(axes, _total(chains, edges, accepted=False), unit, theme.weak, "dropped", 1.2)
    _mark(axes, events, unit, theme)
    axes.set(xlim=(0, end / unit), ylim=(0, 1.12 * total.rate.max()), xlabel=f"{'virtual ' * virtual}{name}")
    axes.yaxis.set_major_formatter(FuncFormatter(lambda y, _: f"{y:,g}"))


def _total(chains: Sequence[ChainTrace], edges: Array, *, accepted: bool) -> Throughput:
    """The rates of all chains, summed."""
    rates = [throughput(_times(chain, accepted=accepted), edges).rate for chain in chains]
    return Throughput(edges, np.sum(rates, axis=0))


def _times(chain: ChainTrace, *, accepted: bool) -> Iterator[Array]:
    """When the chain's gradients were dealt with, those that were accepted or the others, block by block."""
    for block in chain.blocks():
        yield np.asarray(block.time)[np.asarray(block.accepted, bool) == accepted]


def _stairs(axes: Axes, shown: Throughput, unit: float, colour: str, label: str, width: float) -> None:
    axes.stairs(shown.rate, shown.edges / unit, baseline=None, color=colour, label=label, linewidth=width)


def _mark(axes: Axes, events: Sequence[Event], unit: float, theme: Theme) -> None:
    """A mark on the axis for everything that went wrong."""
    for kind in dict.fromkeys(event.kind for event in events):
        when = np.array([event.time for event in events if event.kind == kind])
        axes.plot(
            when / unit, np.zeros(len(when)), _MARKERS.get(kind, "o"), color=theme.weak, markersize=8, clip_on=False,
            zorder=5, markeredgecolor=theme.paper, label=plain_label(f"a worker {event_text(kind)}, {len(when):,}"),
        )  # fmt: skip
