"""Put the page together and write it."""

from collections.abc import Mapping, Sequence
from html import escape
from pathlib import Path
from typing import Any

import numpy as np

from stalegrad._internal import files
from stalegrad.analysis.diagnostics import Findings
from stalegrad.analysis.diagnostics.checks.mixing import RHAT_LIMIT
from stalegrad.analysis.plots import DARK, LIGHT, Functions, Quantity, Theme, choose, pictures, png
from stalegrad.analysis.plots.quantities import chain_draws, virtual_time
from stalegrad.analysis.report.captions import shown
from stalegrad.analysis.report.execution import execution
from stalegrad.analysis.report.markup import Fact, facts, page, paragraph, section, table
from stalegrad.analysis.report.material import Material
from stalegrad.analysis.report.recipe import reproduce
from stalegrad.analysis.report.settings import lead, settings
from stalegrad.analysis.report.summaries import estimates_table, largest_rhat, least_ess, summarise
from stalegrad.analysis.report.text_table import rounded
from stalegrad.analysis.report.trust import trust, verdict
from stalegrad.analysis.sampled import Sampled
from stalegrad.protocol.staleness_counts import StalenessCounts

MOST_PARAMETERS = 6
"""Parameters that are shown by default."""

_CONTENTS = {
    "estimates": "Estimates",
    "trust": "How far to trust it",
    "execution": "What happened",
    "settings": "What was run",
    "reproduce": "How to reproduce it",
}

_FOOTER = (
    "<footer>Made by stalegrad. Method: Chen, Ding, Li, Zhang and Carin, <i>Stochastic Gradient MCMC with Stale "
    "Gradients</i>, NeurIPS 2016.</footer>"
)


def write_report(
    run: Sampled,
    out: Path,
    *,
    title: str = "A run with stale gradients",
    findings: Findings | None = None,
    about: Mapping[str, Any] | None = None,
    functions: Functions | None = None,
    parameters: Sequence[str] | None = None,
) -> Path:
    """Write a page for a browser: what was run, how far to trust it, what happened, and how to do it again.

    Args:
        run: the run.
        out: a file whose name ends in .html, or a folder for report.html; it is made if it is not there.
        title: of the page.
        findings: from ``run.diagnose()``; None without a diagnosis.
        about: what else is known, in plain types, such as what a store keeps. All of it is shown; ``path``, ``state``,
            ``failure``, ``created`` and ``configuration`` also where they belong.
        functions: test functions by name, or their values as ``run.evaluate`` gives them.
        parameters: names such as ``"weights[0, 3]"``; see :func:`stalegrad.analysis.plots.choose`.

    Returns:
        The file.
    """
    out = Path(out)
    path = out if out.suffix == ".html" else out / "report.html"
    path.parent.mkdir(
        parents=True, exist_ok=True
    )  # before the work: a place that cannot be written to should not cost it
    files.write_output(path, report(run, title, findings, about or {}, functions, parameters).encode())
    return path


def report(
    run: Sampled,
    title: str,
    findings: Findings | None,
    about: Mapping[str, Any],
    functions: Functions | None = None,
    parameters: Sequence[str] | None = None,
) -> str:
    """The page itself; the arguments are those of :func:`write_report`."""
    chosen = choose(run, functions, parameters, most=MOST_PARAMETERS)
    material = Material(
        run=run,
        chosen=chosen,
        summaries=tuple(map(summarise, chosen.quantities)),
        findings=findings,
        about=about,
        light=_drawn(run, chosen.quantities, LIGHT),
        dark=_drawn(run, chosen.quantities, DARK),
    )
    return page(
        title,
        "\n\n".join([
            f"<h1>{escape(title)}</h1>",
            paragraph(lead(material), "lead"),
            verdict(material),
            _facts(material),
            _contents(),
            _estimates(material),
            trust(material),
            execution(material),
            settings(material),
            reproduce(material),
            _FOOTER,
        ]),
    )  # fmt: skip


def _drawn(run: Sampled, quantities: Sequence[Quantity], theme: Theme) -> dict[str, bytes]:
    return {name: png(figure) for name, figure in pictures(run, quantities, theme).items()}


def _contents() -> str:
    return "<nav>" + " ".join(f'<a href="#{name}">{escape(title)}</a>' for name, title in _CONTENTS.items()) + "</nav>"


def _facts(material: Material) -> str:
    """The numbers to be seen first."""
    run, rhat, ess = material.run, largest_rhat(material.summaries), least_ess(material.summaries)
    counts = StalenessCounts.together(chain.staleness_counts for chain in run.trace.chains)
    end = max(chain.seconds for chain in run.trace.chains)
    second = "virtual second" if virtual_time(run) else "second"
    tiles = [Fact(f"{sum(map(len, chain_draws(run))):,}", "draws of the posterior")]
    if np.isfinite(ess):
        tiles.append(Fact(f"{ess:,.0f}", "effective draws of the slowest quantity shown"))
    if np.isfinite(rhat):
        warn = rhat >= RHAT_LIMIT and (material.findings is None or len(material.findings) > 0)
        tiles.append(Fact(f"{rhat:.3f}", "the largest R-hat of those shown; 1 is perfect agreement", warn))
    if counts.accepted:
        tiles.append(Fact(f"{counts.mean:.2f}", f"mean staleness; the largest was {counts.largest:,}"))
    if counts.accepted < counts.arrived:
        share = 1 - counts.accepted / counts.arrived
        tiles.append(Fact(f"{share:.2%}", "of the gradients came too late and were dropped"))
    if end > 0:
        tiles.append(Fact(rounded(counts.accepted / end), f"updates a {second}, from start to end"))
    return facts(tiles)


def _estimates(material: Material) -> str:
    note = (
        "φ̂ weighs draws by their step sizes and chains by their length, as run.estimate does. Its standard error "
        "(s.e.) is what more draws would make smaller: the error of a finite step, of minibatches and of staleness is "
        "not in it. The standard deviation (s.d.) is the posterior's own."
    )
    if not material.summaries:
        return section("estimates", _CONTENTS["estimates"], paragraph("There are no draws yet."))
    travelling = [each.name for each in material.summaries if not each.problem and np.isnan(each.error)]
    if travelling:
        note = (
            f"A chain of {', '.join(travelling)} is still on its way to the posterior: what is shown is an average "
            f"over the way, which has no standard error. {note}"
        )
    lengths = {len(chain) for chain in chain_draws(material.run)}
    uneven = (
        f"The chains differ in length. Averages are over the {min(lengths):,} draws that each of them has, as in "
        "run.estimate; the traces below show all."
    ) * (len(lengths) > 1)
    return section(
        "estimates", _CONTENTS["estimates"], paragraph(material.chosen.how), paragraph(uneven),
        table(estimates_table(material.summaries, note)), shown(material, "densities"), shown(material, "forest"),
        shown(material, "running_averages"),
    )  # fmt: skip
