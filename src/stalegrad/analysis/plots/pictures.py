"""Each picture of a run on its own, and all of them in files."""

from collections.abc import Callable, Sequence
from pathlib import Path

from matplotlib.axes import Axes

from stalegrad._internal import files
from stalegrad.analysis.plots.autocorrelation import draw_autocorrelation
from stalegrad.analysis.plots.densities import draw_density
from stalegrad.analysis.plots.forest import draw_forest
from stalegrad.analysis.plots.overview import overview
from stalegrad.analysis.plots.pairs import draw_pairs
from stalegrad.analysis.plots.quantities import Functions, Quantity, choose, noted, virtual_time
from stalegrad.analysis.plots.ranks import draw_ranks
from stalegrad.analysis.plots.running_averages import draw_running_average
from stalegrad.analysis.plots.staleness import draw_staleness, draw_staleness_by_worker
from stalegrad.analysis.plots.style import LIGHT, Picture, Theme, legend_above, picture, png
from stalegrad.analysis.plots.throughput import draw_throughput, has_times
from stalegrad.analysis.plots.traces import draw_traces
from stalegrad.analysis.plots.workers import draw_staleness_over_time, draw_workers
from stalegrad.analysis.sampled import Sampled
from stalegrad.protocol.past import Past
from stalegrad.protocol.trace_bins import TraceBins

Panel = Callable[[Axes, Quantity, Theme], None]

_WIDTH = 8.4


def pictures(run: Sampled, quantities: Sequence[Quantity], theme: Theme = LIGHT) -> dict[str, Picture]:
    """By name: traces, averages, densities, ranks and more of the quantities, and how the run itself went.

    A picture that would show nothing, because there are too few draws or no times, is left out.

    Args:
        run: the run.
        quantities: from :func:`choose`.
        theme: colours.
    """
    made = {}
    if quantities:
        made["traces"] = panels(quantities, draw_traces, theme, columns=1, height=1.6, same_x=True)
    if known := [quantity for quantity in quantities if not quantity.problem]:
        made["running_averages"] = panels(known, draw_running_average, theme, same_x=True)
        made["autocorrelation"] = panels(known, draw_autocorrelation, theme)
        made["densities"] = panels(known, draw_density, theme, height=1.9)
        made["forest"] = _forest(known, theme)
        if len(run.trace) > 1:
            made["ranks"] = panels(known, draw_ranks, theme, same_x=True)
        if (pairs := draw_pairs(known, theme)) is not None:
            made["pairs"] = pairs
    if beside := noted(run):
        made["noted"] = _noted(run, beside, theme)
    made["staleness"] = _staleness(run, theme)
    if has_times(run.trace.chains):
        made["throughput"] = _throughput(run, theme)
        made["workers"] = _workers(run, theme)
    return made


def panels(
    quantities: Sequence[Quantity],
    draw: Panel,
    theme: Theme = LIGHT,
    *,
    columns: int | None = None,
    height: float | None = None,
    same_x: bool = False,
) -> Picture:
    """A panel a quantity under one legend.

    Args:
        quantities: what to draw.
        draw: draws one of them, such as :func:`draw_traces`.
        theme: colours.
        columns: of panels; None for one up to three quantities, and two for more.
        height: of a panel, in inches.
        same_x: whether the numbers below the lowest panels serve all.
    """
    columns = columns or (1 if len(quantities) <= 3 else 2)
    rows = -(-len(quantities) // columns)
    figure = picture(_WIDTH, 0.6 + (height or (2.6 if columns > 1 or rows == 1 else 2.0)) * rows, theme)
    grid = figure.add_gridspec(rows, columns)
    axes = [figure.add_subplot(grid[k // columns, k % columns]) for k in range(len(quantities))]
    for k, (each, quantity) in enumerate(zip(axes, quantities, strict=True)):
        draw(each, quantity, theme)
        if k + columns < len(quantities):
            each.set_xlabel("")
            each.tick_params(labelbottom=not same_x)
        if k % columns:
            each.set_ylabel("")
    legend_above(figure, axes, theme)
    return figure


def _forest(quantities: Sequence[Quantity], theme: Theme) -> Picture:
    """All quantities below each other."""
    figure = picture(_WIDTH, 1.2 + 0.42 * len(quantities), theme)
    axes = figure.subplots()
    draw_forest(axes, quantities, theme)
    legend_above(figure, [axes], theme)
    return figure


def _staleness(run: Sampled, theme: Theme = LIGHT) -> Picture:
    """By chain above, by worker below."""
    chains = run.trace.chains
    rows = sum(len(Past.of(chain).counts) for chain in chains)  # workers that have sent any
    below = 0.9 + 0.26 * min(max(rows, 3), 12)
    figure = picture(_WIDTH, 2.6 + below, theme)
    above, beneath = figure.subplots(2, 1, height_ratios=(2.6, below))
    draw_staleness(above, chains, theme)
    draw_staleness_by_worker(beneath, chains, theme)
    above.set_xlabel("")
    legend_above(figure, [above], theme)
    return figure


def _throughput(run: Sampled, theme: Theme = LIGHT) -> Picture:
    """Updates a second over the time of the run."""
    figure = picture(_WIDTH, 3.4, theme)
    axes = figure.subplots()
    draw_throughput(axes, run.trace.chains, run.events, theme, virtual=virtual_time(run))
    legend_above(figure, [axes], theme)
    return figure


def _workers(run: Sampled, theme: Theme = LIGHT) -> Picture:
    """Who computed when above, and staleness over time below."""
    bins, virtual = TraceBins.of(run.trace.chains, run.trace.workers), virtual_time(run)
    above = 0.9 + 0.26 * min(max(bins.lanes, 3), 12)
    figure = picture(_WIDTH, above + 2.8, theme)
    upper, lower = figure.subplots(2, 1, height_ratios=(above, 2.8), sharex=True)
    draw_workers(upper, bins, theme, virtual=virtual)
    draw_staleness_over_time(lower, bins, theme, virtual=virtual)
    upper.set_xlabel("")
    return figure


def _noted(run: Sampled, beside: Sequence[Quantity], theme: Theme) -> Picture:
    """The gradient's norm, and the kinetic temperature beside what it would be with a small step."""
    figure = panels(beside, draw_traces, theme, height=1.8, same_x=True)
    for axes in figure.axes:
        axes.set_ylabel("")
    kernels = () if run.trace.record is None else run.trace.record.kernels
    targets = {float(kernel["temperature"]) for kernel in kernels if "temperature" in kernel}
    if len(beside) == 2 and len(targets) == 1:
        figure.axes[1].axhline(targets.pop(), color=theme.ink, linewidth=1.4, linestyle=":")
    return figure


def plot_run(
    run: Sampled, out: Path, functions: Functions | None = None, parameters: Sequence[str] | None = None
) -> list[Path]:
    """Write overview.png and every picture of its own to the folder ``out``, which is made if it is not there.

    Args:
        run: the run.
        out: the folder.
        functions: test functions by name, or their values as ``run.evaluate`` gives them.
        parameters: names of parameters, see :func:`choose`.
    """
    chosen = choose(run, functions, parameters)
    out.mkdir(parents=True, exist_ok=True)
    made = {"overview": overview(run, chosen.quantities), **pictures(run, chosen.quantities)}
    paths = []
    for name, figure in made.items():
        paths.append(out / f"{name}.png")
        files.write_output(paths[-1], png(figure))
    return paths
