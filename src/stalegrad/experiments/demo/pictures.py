"""The three pictures: speed against the clock, variances of old gradients, and a run that was killed."""

import numpy as np

from stalegrad.analysis.plots.style import (
    DARK,
    LIGHT,
    Picture,
    Theme,
    legend_above,
    picture,
    png,
    set_title,
    style_axes,
)
from stalegrad.analysis.report.markup import Versions
from stalegrad.experiments.demo.speed import Speed
from stalegrad.experiments.demo.staleness import Staleness
from stalegrad.experiments.demo.survival import Survival

WIDE, NARROW = 8.4, 4.4
"""Inches: for a page of a book's width, and for a phone."""


def versions(speed: Speed, staleness: Staleness, survival: Survival) -> dict[str, Versions]:
    """All three pictures by name: for light and dark screens, wide and narrow."""
    drawn = [draw(speed, staleness, survival, theme, width) for width in (WIDE, NARROW) for theme in (LIGHT, DARK)]
    return {name: Versions(*(each[name] for each in drawn)) for name in drawn[0]}


def draw(
    speed: Speed, staleness: Staleness, survival: Survival, theme: Theme = LIGHT, width: float = WIDE
) -> dict[str, bytes]:
    """All three pictures by name, as PNG files."""
    return {
        "speed": png(draw_speed(speed, theme, width)),
        "staleness": png(draw_staleness(staleness, theme, width)),
        "survival": png(draw_survival(survival, theme, width)),
    }


def draw_speed(speed: Speed, theme: Theme = LIGHT, width: float = WIDE) -> Picture:
    """φ̂ against the clock, and the error of the posterior means: beside each other, or one below the other."""
    beside = width >= WIDE
    figure = picture(width, 3.5 if beside else 6.0, theme)
    left, right = figure.subplots(1, 2) if beside else figure.subplots(2, 1)
    colours = {1: theme.weak, 2: theme.strong}
    for axes in (left, right):
        style_axes(axes, theme)
        axes.set_xlabel("seconds")
    seen = set()
    for curve in speed.curves:
        label = "" if curve.workers in seen else f"{curve.workers} worker{'s' * (curve.workers != 1)}, two runs"
        seen.add(curve.workers)
        left.plot(curve.seconds, curve.average, color=colours[curve.workers], linewidth=1.5, label=label)
        right.loglog(curve.seconds, curve.error, color=colours[curve.workers], linewidth=1.5)
    left.axhline(1, color=theme.right, linewidth=1.2, linestyle="--", label="exact")
    left.set_ylim(0.85, 1.2)
    set_title(left, "φ̂: variance of the weights over the exact one", theme)
    set_title(right, "error of posterior means, in deviations", theme)
    legend_above(figure, [left], theme)
    return figure


def draw_staleness(staleness: Staleness, theme: Theme = LIGHT, width: float = WIDE) -> Picture:
    """The variance of every weight over the exact one."""
    figure = picture(width, 2.7, theme)
    axes = figure.subplots()
    style_axes(axes, theme)
    everything = np.concatenate(list(staleness.variances.values()))
    edges = np.linspace(min(0.9, everything.min()) - 0.02, max(1.1, everything.max()) + 0.02, 60)
    colours = {"as they are": theme.weak, "compensated": theme.strong}
    for name, values in staleness.variances.items():
        axes.hist(values, edges.tolist(), color=colours[name], alpha=0.85, label=f"old gradients, {name}")
    axes.axvline(1, color=theme.right, linewidth=1.6, linestyle="--", label="exact")
    axes.set(xlabel="variance of a weight over the exact one", ylabel="weights")
    legend_above(figure, [axes], theme)
    return figure


def draw_survival(survival: Survival, theme: Theme = LIGHT, width: float = WIDE) -> Picture:
    """Updates against the clock of the run, with what happened to it."""
    figure = picture(width, 2.7, theme)
    axes = figure.subplots()
    style_axes(axes, theme)
    every = max(1, len(survival.seconds) // 2000)
    axes.plot(
        survival.seconds[::every], np.arange(1, len(survival.seconds) + 1)[::every], color=theme.strong, linewidth=1.6
    )
    for (name, update), colour in zip(survival.moments.items(), (theme.weak, theme.chains[4]), strict=False):
        at = survival.seconds[min(max(int(update) - 1, 0), len(survival.seconds) - 1)]
        axes.plot([at], [update], "o", color=colour, markersize=9, label=name)
    axes.set(xlabel="seconds at work, over both sessions", ylabel="updates")
    axes.yaxis.set_major_formatter(lambda value, _: f"{value:,.0f}")
    axes.set_ylim(bottom=0)
    legend_above(figure, [axes], theme)
    return figure
