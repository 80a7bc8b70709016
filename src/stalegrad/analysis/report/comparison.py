"""Runs beside each other on one page: what differs in how they were made, what they say, and how fast they said it."""

from collections.abc import Mapping, Sequence
from html import escape
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from stalegrad._internal import files
from stalegrad._internal.errors import ArgumentError
from stalegrad.analysis.estimates.posterior_average import plus_minus
from stalegrad.analysis.plots import DARK, LIGHT, Quantity, Theme, choose, png
from stalegrad.analysis.plots.densities import density
from stalegrad.analysis.plots.quantities import virtual_time
from stalegrad.analysis.plots.style import Picture, legend_above, picture, plain_label, set_title, style_axes
from stalegrad.analysis.report.markup import Versions, figure, page, paragraph, picture_of_any_width, section, table
from stalegrad.analysis.report.summaries import Summary, largest_rhat, least_ess, summarise
from stalegrad.analysis.report.text_table import TextTable, minus, rounded
from stalegrad.analysis.sampled import Sampled
from stalegrad.protocol.staleness_counts import StalenessCounts

_MOST = 8  # parameters
_USUAL = ("steps", "servers", "workers", "burn_in", "thin", "seed", "max_staleness")  # shown as defaults, too
_FAR = 4.0  # standard errors apart from which on two averages are called different


class Compared(NamedTuple):
    """A run and its name."""

    name: str
    run: Sampled


def write_comparison(runs: Mapping[str, Sampled], out: Path, parameters: Sequence[str] | None = None) -> Path:
    """Write a page about two runs or more of the same parameters.

    Args:
        runs: by name; the first is what the others are compared with.
        out: a file whose name ends in .html, or a folder for comparison.html.
        parameters: names; None for those that mix worst in the first run.
    """
    compared = [Compared(name, run) for name, run in runs.items()]
    if len(compared) < 2:
        raise ArgumentError("runs", list(runs), "is not two or more", "Give the folders of two runs.")
    sizes = {each.name: each.run.draws.shape[-1] for each in compared}
    if len(set(sizes.values())) > 1:
        raise ArgumentError("runs", sizes, "differ in how many parameters they have", "Compare runs of one model.")
    path = out if out.suffix == ".html" else out / "comparison.html"
    path.parent.mkdir(parents=True, exist_ok=True)
    files.write_output(path, comparison(compared, parameters).encode())
    return path


def comparison(compared: Sequence[Compared], parameters: Sequence[str] | None = None) -> str:
    """The page itself, as HTML that needs no other file."""
    first = choose(compared[0].run, None, parameters, most=_MOST)
    names = [quantity.name for quantity in first.quantities]
    quantities = [first.quantities, *(choose(each.run, None, names).quantities for each in compared[1:])]
    summaries = [tuple(map(summarise, of_run)) for of_run in quantities]
    title = " and ".join(each.name for each in compared)
    drawn = (
        png(_densities(compared, quantities, theme, columns)) for columns in (2, 1) for theme in (LIGHT, DARK)
    )  # for wide screens, and for narrow ones
    return page(
        title,
        "\n\n".join([
            f"<h1>{escape(title)}</h1>",
            paragraph(_verdict(compared, summaries), "lead"),
            section(
                "estimates", "What they say", paragraph(first.how), table(_estimates(compared, summaries)),
                figure(
                    picture_of_any_width(Versions(*drawn), "Densities of each parameter, a line a run"),
                    "The density of each parameter as each run has it. <b>Lines on top of each other</b> are runs that "
                    "agree; a wider line is a run that is hotter: its steps are too long, its gradients too stale, or "
                    "its minibatches too small.",
                ),
            ),
            section("speed", "How fast they said it", table(_speed(compared, summaries))),
            section("settings", "What differs in how they were made", table(_differences(compared))),
        ]),
    )  # fmt: skip


def apart(one: Summary, other: Summary) -> float:
    """How many standard errors of their difference two averages are apart; NaN where one has none."""
    return abs(one.value - other.value) / float(np.hypot(one.error, other.error) or np.nan)


def _verdict(compared: Sequence[Compared], summaries: Sequence[tuple[Summary, ...]]) -> str:
    said = []
    for each, of_run in zip(compared[1:], summaries[1:], strict=True):
        distances = [apart(*pair) for pair in zip(summaries[0], of_run, strict=True)]
        known = [distance for distance in distances if np.isfinite(distance)]
        if not known:
            said.append(f"{each.name} and {compared[0].name} have no standard errors to be compared by.")
            continue
        differ = sum(distance > _FAR for distance in known)
        what = f"differ in {differ} of {len(known)}" if differ else f"agree in all {len(known)}"
        said.append(
            f"{each.name} and {compared[0].name} {what} averages that can be compared: the largest difference is "
            f"{max(known):.1f} standard errors."
        )
    return " ".join(said)


def _estimates(compared: Sequence[Compared], summaries: Sequence[tuple[Summary, ...]]) -> TextTable:
    rows = []
    for entries in zip(*summaries, strict=True):
        cells = [
            each.problem or minus(f"{plus_minus(each.value, each.error, digits=2)} (s.d. {rounded(each.spread)})")
            for each in entries
        ]
        distances = [apart(entries[0], other) for other in entries[1:]]
        rows.append((entries[0].name, *cells, *(f"{z:.1f}" if np.isfinite(z) else "–" for z in distances)))
    others = ["apart, in s.e."] if len(compared) == 2 else [f"{each.name} apart, in s.e." for each in compared[1:]]
    note = (
        "φ̂ ± its Monte Carlo standard error, and the standard deviation of the draws. Differences beyond "
        f"{_FAR:g} standard errors are no chance. Standard errors do not hold the bias of step size, staleness and "
        "minibatches: where spreads differ, one run at least is biased."
    )
    return TextTable("", ("φ", *(each.name for each in compared), *others), tuple(rows), note=note)


def _speed(compared: Sequence[Compared], summaries: Sequence[tuple[Summary, ...]]) -> TextTable:
    columns = [_figures(each.run, of_run) for each, of_run in zip(compared, summaries, strict=True)]
    rows = tuple((name, *(column[name] for column in columns)) for name in columns[0])
    return TextTable("", ("", *(each.name for each in compared)), rows)


def _figures(run: Sampled, summaries: tuple[Summary, ...]) -> dict[str, str]:
    counts = StalenessCounts.together(chain.staleness_counts for chain in run.trace.chains)
    seconds = max(chain.seconds for chain in run.trace.chains)
    ess, rhat = least_ess(summaries), largest_rhat(summaries)
    unit = "virtual s" if virtual_time(run) else "s"
    return {
        "chains": f"{len(run.trace)}",
        "draws": f"{run.draws.shape[0] * run.draws.shape[1]:,}",
        "time": f"{rounded(seconds)} {unit}" if seconds else "–",
        "updates a second": f"{rounded(counts.accepted / seconds)}" if seconds else "–",
        "mean staleness": f"{counts.mean:.2f}" if counts.accepted else "–",
        "dropped": f"{1 - counts.accepted / max(counts.arrived, 1):.1%}",
        "least ESS of those above": f"{ess:,.0f}" if np.isfinite(ess) else "–",
        "ESS a second": rounded(ess / seconds) if seconds and np.isfinite(ess) else "–",
        "largest R-hat": f"{rhat:.3f}" if np.isfinite(rhat) else "–",
    }


def _differences(compared: Sequence[Compared]) -> TextTable:
    flat = [_flat(_made(each.run)) for each in compared]
    names = dict.fromkeys(name for table in flat for name in table)
    rows = [(name, *(str(table.get(name, "–")) for table in flat)) for name in names]
    differing = tuple(row for row in rows if len(set(row[1:])) > 1)
    note = "" if differing else "Nothing: they have the same settings, sampler, engine and model."
    return TextTable("", ("setting", *(each.name for each in compared)), differing, note=note)


def _made(run: Sampled) -> dict[str, Any]:
    record = run.trace.record
    if record is None:
        return {}
    table = record.table()
    table["settings"] = {name: getattr(record.settings, name) for name in _USUAL} | table["settings"]
    kernels = table.pop("kernels")
    table["kernel"] = kernels[0] if all(kernel == kernels[0] for kernel in kernels) else dict(enumerate(kernels))
    table.pop("warmup", None)
    return table


def _flat(table: Mapping[str, Any], path: str = "") -> dict[str, Any]:
    """Tables within tables with their paths as names."""
    found: dict[str, Any] = {}
    for name, value in table.items():
        where = f"{path}.{name}" if path else str(name)
        found |= _flat(value, where) if isinstance(value, Mapping) else {where: value}
    return found


def _densities(
    compared: Sequence[Compared], quantities: Sequence[Sequence[Quantity]], theme: Theme, columns: int
) -> Picture:
    """A panel a parameter, a line a run."""
    count = len(quantities[0])
    columns = min(columns, count)
    rows = -(-count // columns)
    drawn = picture(4.2 * max(columns, 1 if count > 1 else 2), 0.6 + 1.9 * rows, theme)
    axes = [drawn.add_subplot(rows, columns, k + 1) for k in range(count)]
    for k, each in enumerate(axes):
        style_axes(each, theme)
        set_title(each, quantities[0][k].name, theme)
        each.set(yticks=[])
        values = [of_run[k].common.ravel() for of_run in quantities if not of_run[k].problem]
        if not values or not np.ptp(np.concatenate(values)):
            continue
        points = np.linspace(min(v.min() for v in values), max(v.max() for v in values), 256)
        for s, (of, of_run) in enumerate(zip(compared, quantities, strict=True)):
            if not of_run[k].problem:
                curve = density(of_run[k].common.ravel(), points, of_run[k].weights.ravel())
                colour = theme.chains[s % len(theme.chains)]
                each.plot(points, curve, color=colour, linewidth=1.6, label=plain_label(of.name))
        each.set_ylim(bottom=0)
    legend_above(drawn, axes, theme)
    return drawn
