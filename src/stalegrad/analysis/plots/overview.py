"""Everything about a run in one figure."""

from collections.abc import Sequence

from stalegrad.analysis.plots.autocorrelation import draw_autocorrelation
from stalegrad.analysis.plots.quantities import Quantity, virtual_time
from stalegrad.analysis.plots.running_averages import draw_running_average
from stalegrad.analysis.plots.staleness import draw_staleness_by_worker
from stalegrad.analysis.plots.style import LIGHT, Picture, Theme, legend_above, picture
from stalegrad.analysis.plots.throughput import draw_throughput
from stalegrad.analysis.plots.traces import draw_traces
from stalegrad.analysis.sampled import Sampled


def overview(run: Sampled, quantities: Sequence[Quantity], theme: Theme = LIGHT) -> Picture:
    """A row a quantity with its trace, its average and its autocorrelation; below, how the run went.

    Args:
        run: the run.
        quantities: from :func:`stalegrad.analysis.plots.choose`.
        theme: colours.
    """
    rows = len(quantities)
    figure = picture(13, 2.3 * rows + 3.3, theme)
    above, below = figure.subfigures(2, 1, height_ratios=(max(2.3 * rows, 0.01), 3.3))
    panels = []
    for row, quantity in enumerate(quantities):
        for column, draw in enumerate((draw_traces, draw_running_average, draw_autocorrelation)):
            panels.append(above.add_subplot(rows, 3, 3 * row + column + 1))
            draw(panels[-1], quantity, theme)
            if row < rows - 1:
                panels[-1].set_xlabel("")
    workers, rate = below.subplots(1, 2)
    draw_staleness_by_worker(workers, run.trace.chains, theme)
    draw_throughput(rate, run.trace.chains, run.events, theme, virtual=virtual_time(run))
    legend_above(figure, [*panels, rate], theme)
    return figure
