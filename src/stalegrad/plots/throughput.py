"""How fast the run went, and when something went wrong."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import FuncFormatter

from stalegrad.engines import Event
from stalegrad.plots.style import LIGHT, Theme, dress, say
from stalegrad.trace import ChainTrace
from stalegrad.types import Array

_WINDOWS = 120
_LEAST_UPDATES = 25  # in a window, on average
_MARKERS = {"died": "X", "raised": "v", "hung": "s", "refused": "d"}
_DEEDS = {"raised": "raised an error", "hung": "did not answer", "refused": "sent a bad gradient"}
_UNITS = ((3 * 3600.0, 3600.0, "hours"), (600.0, 60.0, "minutes"), (0.0, 1.0, "seconds"))


def deed(kind: str) -> str:
    """What a worker did, in words, by the kind of its :class:`~stalegrad.engines.Event`."""
    return _DEEDS.get(kind, kind)


def has_times(chains: Sequence[ChainTrace]) -> bool:
    """Whether all chains have made updates at known times."""
    return all(chain.time is not None and chain.steps and chain.time[-1] > 0 for chain in chains)


class Throughput(NamedTuple):
    """Gradients a second in windows of equal length."""

    edges: Array
    """Of the windows, in seconds since the start: one more than there are windows."""
    rate: Array


def throughput(times: Array, edges: Array) -> Throughput:
    """The rate in each window, from the times at which gradients were dealt with.

    The count N(t) is a straight line between one time and the next, so that gradients which come in rounds, as those of
    equally fast simulated workers do, show as the steady rate that they are, and Σ rate · length is their number.

    >>> throughput(np.array([1.0, 1.0, 2.0, 2.0, 3.0, 3.0]), np.array([0.0, 1.5, 3.0])).rate
    array([2., 2.])
    """
    at, together = np.unique(times, return_counts=True)
    count = np.interp(edges, np.concatenate(([0.0], at)), np.concatenate(([0], np.cumsum(together))))
    return Throughput(edges, np.diff(count) / np.diff(edges))


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
    dress(axes, theme)
    axes.set(xlabel="virtual seconds" if virtual else "seconds", ylabel="updates a second")
    if not has_times(chains):
        say(axes, "the trace holds no times", theme)
        return
    end = max(float(chain.time[-1]) for chain in chains if chain.time is not None)
    unit, name = next((seconds, name) for least, seconds, name in _UNITS if end >= least)
    updates = [np.asarray(chain.updates().time) for chain in chains]
    windows = int(np.clip(min(map(len, updates)) // _LEAST_UPDATES, 1, _WINDOWS))
    edges = np.linspace(0, end, windows + 1)
    for s, time in enumerate(updates if len(chains) > 1 else ()):
        own = np.append(edges[edges < time[-1] - edges[1] / 2], time[-1])  # no sliver of a window at its end
        _stairs(axes, throughput(time, own), unit, theme.chain(s, len(chains)), theme.label(s, len(chains)), 1.0)
    total = throughput(np.concatenate(updates), edges)
    _stairs(axes, total, unit, theme.ink, "all chains" if len(chains) > 1 else "updates", 1.6)
    dropped = np.concatenate([np.asarray(chain.time)[~chain.accepted] for chain in chains])
    if dropped.size:
        _stairs(axes, throughput(dropped, edges), unit, theme.weak, "dropped", 1.2)
    _mark(axes, events, unit, theme)
    axes.set(xlim=(0, end / unit), ylim=(0, 1.12 * total.rate.max()), xlabel=f"{'virtual ' * virtual}{name}")
    axes.yaxis.set_major_formatter(FuncFormatter(lambda y, _: f"{y:,g}"))


def _stairs(axes: Axes, shown: Throughput, unit: float, colour: str, label: str, width: float) -> None:
    axes.stairs(shown.rate, shown.edges / unit, baseline=None, color=colour, label=label, linewidth=width)


def _mark(axes: Axes, events: Sequence[Event], unit: float, theme: Theme) -> None:
    """A mark on the axis for everything that went wrong."""
    for kind in dict.fromkeys(event.kind for event in events):
        when = np.array([event.time for event in events if event.kind == kind])
        axes.plot(
            when / unit, np.zeros(len(when)), _MARKERS.get(kind, "o"), color=theme.weak, markersize=8, clip_on=False,
            zorder=5, markeredgecolor=theme.paper, label=f"a worker {deed(kind)}, {len(when):,}",
        )  # fmt: skip
