"""Pictures of a run: what was drawn, how well it mixes, how late gradients came and how fast it went.

``run.plot()`` puts all in one figure. Every panel is also a function of its own that draws on matplotlib axes of yours:

    from stalegrad.analysis import plots

    (loss,) = plots.choose(run, {"loss": test_loss}).quantities
    plots.draw_running_average(axes, loss)

matplotlib is imported here and nowhere below, without pyplot, so that figures vanish with their last reference.
"""

from stalegrad.analysis.plots.autocorrelation import autocorrelation, draw_autocorrelation
from stalegrad.analysis.plots.overview import overview
from stalegrad.analysis.plots.pictures import panels, pictures, plot_run
from stalegrad.analysis.plots.quantities import Chosen, Functions, Quantity, choose, noted
from stalegrad.analysis.plots.running_averages import RunningEstimate, draw_running_average, running_estimate
from stalegrad.analysis.plots.staleness import draw_staleness, draw_staleness_by_worker
from stalegrad.analysis.plots.style import DARK, LIGHT, Picture, Theme, png
from stalegrad.analysis.plots.throughput import draw_throughput
from stalegrad.analysis.plots.traces import draw_traces
from stalegrad.analysis.plots.workers import draw_staleness_over_time, draw_workers
from stalegrad.analysis.sampled import Sampled

__all__ = [
    "DARK",
    "LIGHT",
    "Chosen",
    "Functions",
    "Picture",
    "Quantity",
    "RunningEstimate",
    "Sampled",
    "Theme",
    "autocorrelation",
    "choose",
    "draw_autocorrelation",
    "draw_running_average",
    "draw_staleness",
    "draw_staleness_by_worker",
    "draw_staleness_over_time",
    "draw_throughput",
    "draw_traces",
    "draw_workers",
    "noted",
    "overview",
    "panels",
    "pictures",
    "plot_run",
    "png",
    "running_estimate",
]
