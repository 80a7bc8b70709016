"""The pictures on the page, each with how to read it."""

import numpy as np

from stalegrad.analysis.report.markup import figure, picture
from stalegrad.analysis.report.material import Material

_ALTERNATIVES = {
    "traces": "Draws of each quantity against updates, a line a chain",
    "running_averages": "Average of each quantity against updates, with a band of two standard errors",
    "autocorrelation": "Autocorrelation of each quantity against the lag, a line a chain",
    "densities": "Density of the draws of each quantity, a line a chain",
    "forest": "Median and intervals of each quantity, a line a chain",
    "ranks": "Histogram of the ranks of each chain's draws among those of all chains, of each quantity",
    "pairs": "Scatter plots of the quantities against each other",
    "noted": "Norm of the gradient and kinetic temperature of each draw against updates",
    "staleness": "Histogram of staleness by chain, and a map of staleness by worker",
    "throughput": "Updates a second against time",
    "workers": "Which workers computed when, and staleness over time, as two maps of colours",
}

_CAPTIONS = {
    "traces": "Every draw, in the order in which they came. <b>A band without a trend</b> is what a chain looks like "
    "that has forgotten its start. A drift says that the burn-in was too short, and slow waves that there are few "
    "independent draws in many.",
    "running_averages": "The average φ̂ as the run went on. <b>The grey band is ± 2 standard errors</b> of the thick "
    "line, as the draws up to that moment would have given them, their autocorrelation counted in. The band should "
    "shrink, and the line should stay where the band was earlier; where it leaves it, the chain had seen too little of "
    "the posterior to know how little.",
    "autocorrelation": "How much a draw tells of the one k draws later. <b>The sooner a line has fallen into the grey "
    "band,</b> the more each draw is worth; there it cannot be told from independent draws. Far out, lines wander by "
    "chance; one that swings up and down like a spring from the very beginning is the mark of gradients too stale for "
    "their step size, or of a momentum with little friction.",
    "densities": "The posterior's density as each chain has seen it, and in black as all have together. <b>Chains that "
    "agree lie on top of each other.</b> Two humps in one chain are two modes between which it moves; humps that only "
    "some chains have are modes that the others have never found.",
    "forest": "The same in intervals: the dot is a chain's median, half of its draws lie within the thick line and "
    "94 % within the thin one. Every quantity has its own unit, the standard deviation of its draws.",
    "ranks": "How the draws of each chain are spread over the ranks among all draws. <b>Level lines</b>, within the "
    "grey band, are chains that sample one law. A slope is a chain that lies higher or lower than the others, and a "
    "valley or a hill one that is wider or narrower, which means and R-hat may not show.",
    "pairs": "Every draw as a point, for each pair of quantities. A slanted cloud is a correlation, which makes small "
    "steps necessary along its narrow side; a funnel, or clouds apart from each other, is what samplers lose their way "
    "in.",
    "noted": "What the sampler noted beside each draw. The norm is that of the minibatch gradient which made the draw: "
    "it falls while a chain is still on its way to the posterior, and then stays level.",
    "staleness": "Above, how stale the gradients of each chain were, in logarithms so that the tail shows; below, the "
    "same for every worker. <b>Rows that look alike</b> are workers that are equally fast, and a row that reaches far "
    "to the right is a straggler. Gradients beyond the bound, if there was one, were dropped.",
    "throughput": "<b>A level line</b> is what one wants. A step down is a worker that has gone, or a machine that got "
    "something else to do. Workers that failed are marked on the axis at the moment when they did.",
    "workers": "Above, who computed when: <b>the stronger the colour, the busier</b> the worker was at that time; what "
    "is pale is exchange and waiting, and a row that ends is a worker that has gone. Below, how stale the gradients of "
    "each moment were. The live page shows the same while a run goes on.",
}


_COLOURS = " Chains that agree are mixed in all colours; a colour that keeps to itself is a chain that is stuck."
_TEMPERATURE = (
    " <b>The kinetic temperature</b> qᵀq/n of the momentum q averages the temperature of the target (dotted) when the "
    "step is small; how far it is from that shows how coarse the step and how noisy the minibatches are."
)


def shown(material: Material, name: str) -> str:
    """A picture with its caption; nothing if it could not be made."""
    if name not in material.light:
        return ""
    caption = _CAPTIONS[name]
    if name == "traces" and len(material.run.trace) > 1:
        caption += _COLOURS
    if name == "noted" and np.isfinite(material.run.stats.kinetic_temperature).any():
        caption += _TEMPERATURE
    return figure(picture(material.light[name], material.dark[name], _ALTERNATIVES[name]), caption)
