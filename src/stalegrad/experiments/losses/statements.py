"""The paper's statements about figures 3 and 4, each with what the chains at hand say about it."""

from itertools import pairwise

import numpy as np

from stalegrad.experiments.losses.curves import Extent, summary
from stalegrad.experiments.losses.layouts import Layout
from stalegrad.experiments.verdicts import CANNOT_TELL, DOES_NOT, Verdict, all_of, below

KINDS: dict[str, str] = {"averages": "φ̂", "current": "current draw", "predictive": "averaged prediction"}


def statements(layouts: list[Layout], extent: Extent) -> list[Verdict]:
    """All that apply to these layouts."""
    found = []
    plain = [layout for layout in layouts if not layout.control]
    alone = sorted(layout for layout in plain if layout.servers == 1)
    if len(alone) > 1:
        early = int(max(p for p in extent.round_axis if p <= max(1, extent.iterations / 20)))
        for kind, place in (("averages", early), *((kind, extent.iterations) for kind in KINDS)):
            found.append(_falls(alone, extent, kind, place, "workers"))
        found += _six_and_nine(alone, extent)
    for workers in sorted({layout.workers for layout in plain if layout.servers > 1}):
        several = sorted(layout for layout in plain if layout.workers == workers)
        found += [
            _same_expectation(several, extent),
            _falls(several, extent, "predictive", extent.iterations, "servers"),
        ]
        found.append(_spread(several, extent))
    for layout in layouts:
        if layout.control == "fresh":
            found.append(_staleness_costs(layout, extent))
    return found


def differences(
    first: Layout, second: Layout, extent: Extent, kind: str, place: int, level: float = 0.95
) -> tuple[float, float]:
    """How much the second's loss is above the first's after so many iterations, and half the width of its interval.

    By pairs (:meth:`Extent.pairs`): what they share, such as the start, cancels.
    """
    one, other = extent.pairs(kind, first, second)
    axis = extent.round_axis if kind == "predictive" else extent.axis
    at = int(np.flatnonzero(axis == place)[0]) if place in axis else len(axis) - 1
    mean, half = summary((other - one)[:, at], level)
    return float(mean), float(half)


def _falls(layouts: list[Layout], extent: Extent, kind: str, place: int, what: str) -> Verdict:
    """More workers, or servers, have a lower loss: all steps together, at 95 %. What diverges has none."""
    level = 1 - 0.05 / (len(layouts) - 1)
    parts = [
        (first, second, *differences(first, second, extent, kind, place, level)) for first, second in pairwise(layouts)
    ]
    counts = [getattr(layout, what) for layout in layouts]
    steps = ", ".join(
        f"{getattr(first, what)}→{getattr(second, what)}: {_interval(mean, half)}"
        for first, second, mean, half in parts
    )
    workers = "" if what == "workers" else f" with {_each(layouts[0])}"
    outcomes = [below(mean, half) for *_, mean, half in parts]
    for layout in layouts:
        if count := sum(chain.lost(place) for chain in extent.every(layout)):
            outcomes.append(DOES_NOT)
            steps += f"; {count} of {len(extent.every(layout))} chains with {layout.workers} workers diverged"
    return Verdict(
        f"Loss ({KINDS[kind]}) falls with {what} ({', '.join(map(str, counts))}{workers}) at L̄ = {place:,}",
        all_of(outcomes), steps,
    )  # fmt: skip


def _six_and_nine(alone: list[Layout], extent: Extent) -> list[Verdict]:
    """What the paper says of CIFAR-10: 6 and 9 workers are worse than 4, which a smaller step would change."""
    by_workers = {layout.workers: layout for layout in alone}
    if extent.task.name != "cifar10" or not {4, 6, 9} <= set(by_workers):
        return []
    parts = [
        (w, *differences(by_workers[w], by_workers[4], extent, "averages", extent.iterations, 0.975)) for w in (6, 9)
    ]
    outcome = all_of([below(mean, half) for _, mean, half in parts])
    evidence = ", ".join(f"4 above {w} by {_interval(mean, half)}" for w, mean, half in parts)
    return [Verdict(f"6 and 9 workers end worse than 4 (φ̂) at L̄ = {extent.iterations:,}", outcome, evidence)]


def _same_expectation(layouts: list[Layout], extent: Extent) -> Verdict:
    mean, half = summary(extent.averages(layouts[0])[:, -1])
    counts = ", ".join(str(layout.servers) for layout in layouts)
    return Verdict(
        f"Loss (φ̂) falls with servers ({counts} with {_each(layouts[0])})",
        DOES_NOT,
        f"the chains of all servers have one law, so φ̂ = {mean:.5f} ± {half:.5f} is expected for every S",
    )


def _spread(layouts: list[Layout], extent: Extent) -> Verdict:
    """Of as many servers as there are against one, by Fisher's F: between repetitions and within them."""
    most = layouts[-1]
    ratio, low, high = extent.spread_ratio(most)
    text = ", ".join(f"{layout.servers}: {extent.spread(layout)[0]:.2g}" for layout in layouts)
    against = f"{most.servers} servers have {ratio:.2f} ({low:.2f}–{high:.2f}) of the variance of one"
    if ratio != ratio:
        against = "there is no variance between repetitions of one, or of what diverged"
    return Verdict(
        f"The variance of φ̂ from run to run falls with servers ({_each(most)})",
        below(ratio, high - ratio, 1.0) if high == high else CANNOT_TELL,
        f"{against}, where 1/S is {1 / most.servers:.2f}; standard deviations {text}",
    )


def _staleness_costs(layout: Layout, extent: Extent) -> Verdict:
    stale = Layout(layout.servers, layout.workers)
    mean, half = differences(layout, stale, extent, "averages", extent.iterations)
    return Verdict(
        f"Staleness raises φ̂ of {layout.workers} workers: against one worker with as many updates and the same steps",
        below(-mean, half), f"difference {_interval(mean, half)}",
    )  # fmt: skip


def _each(layout: Layout) -> str:
    return f"{layout.workers} worker{'s' if layout.workers > 1 else ''} each"


def _interval(mean: float, half: float) -> str:
    if mean != mean:
        return "no difference of what diverged"
    return f"{mean:+.2g}" + ("" if half != half else f" ± {half:.2g}")
