"""How far to trust a run: the verdict at the top of the page, findings, and how well the chains mix."""

from html import escape

import numpy as np

from stalegrad.analysis.diagnostics import Finding, Findings
from stalegrad.analysis.diagnostics.checks.mixing import RHAT_LIMIT
from stalegrad.analysis.report.captions import shown
from stalegrad.analysis.report.markup import code, definitions, folded, paragraph, section, table
from stalegrad.analysis.report.material import Material
from stalegrad.analysis.report.summaries import largest_rhat, mixing_table


def verdict(material: Material) -> str:
    """One box that says whether to read on with confidence."""
    findings = material.findings
    serious = any(finding.severity == "serious" for finding in findings or ())
    if findings:
        kind, words = "serious" if serious else "warning", f"{len(findings)} warning{'s' * (len(findings) != 1)} fired."
    elif findings is None:
        kind, words = "", _agreement(material)
    else:
        kind, words = "good", "No warning fired."
    lines = [finding.measurement.what for finding in findings or ()] or [_passed(findings)]
    if material.run.interrupted:
        kind = kind if serious else "warning"
        lines.insert(0, "The run was stopped before its end.")
    if failure := material.about.get("failure"):
        kind = "serious"
        lines.insert(0, f"The run failed: {failure}")
    body = "".join(paragraph(_sentence(line)) for line in lines if line)
    return f'<div class="verdict {kind}"><b>{escape(words)}</b>{body}</div>'


def trust(material: Material) -> str:
    """The section with the findings, what the checks measured, and how well the chains mix."""
    return section(
        "trust", "How far to trust it", *map(_finding, material.findings or ()),
        _recommended(material), _checks(material),
        table(mixing_table(material.summaries, _note(material))) if material.summaries else "",
        shown(material, "traces"), shown(material, "ranks"), shown(material, "autocorrelation"),
        shown(material, "pairs"), shown(material, "noted"),
    )  # fmt: skip


def _finding(finding: Finding) -> str:
    what = escape(_sentence(finding.measurement.what), quote=False)
    kind = "serious" if finding.severity == "serious" else ""
    return (
        f'<div class="finding {kind}"><p class="what">{what}</p>{paragraph(finding.why)}'
        f"{paragraph(f'What helps: {finding.remedy}')}</div>"
    )


def _recommended(material: Material) -> str:
    """What to do about all findings together, as a call to make."""
    recommendation = None if material.findings is None else material.findings.recommendation
    if recommendation is None:
        return ""
    batch = recommendation.batch_size
    words = [
        paragraph("What to do about all of it together:"),
        paragraph(recommendation.model),
        paragraph("" if batch is None else f"Make the potential with batch_size={batch:,}, then"),
        code(recommendation.call()),
        paragraph("Start, step size, friction and coordinates are found first." * recommendation.warmup),
    ]
    return "".join(words)


def _agreement(material: Material) -> str:
    """What R-hat says, where there are no findings."""
    worst = largest_rhat(material.summaries)
    if not np.isfinite(worst):
        return "There are too few draws to say whether the chains agree."
    which = "The chains" if len(material.run.trace) > 1 else "The halves of the chain"
    return f"{which} {'agree' if worst < RHAT_LIMIT else 'do not agree yet'}: the largest R-hat shown is {worst:.3f}."


def _passed(findings: Findings | None) -> str:
    if findings is None:
        return "This page was made without the other checks, those of run.diagnose()."
    made = len(findings.measurements)
    return f"{made} check{'s were' if made != 1 else ' was'} made, and all figures are in order." if made else ""


def _checks(material: Material) -> str:
    """What every check measured and which could not be made; nothing where there was no diagnosis."""
    if material.findings is None:
        return ""
    rows = [(each.name, each.what) for each in material.findings.measurements]
    rows += [(name, f"not checked: {reason}") for name, reason in material.findings.skipped.items()]
    return folded("All checks and what they measured", definitions(dict(rows))) if rows else ""


def _sentence(text: str) -> str:
    return f"{text[:1].upper()}{text[1:]}" + "." * (not text.endswith((".", "!", "?")))


def _note(material: Material) -> str:
    one = len(material.run.trace) == 1
    return (
        f"R-hat compares {'the two halves of the chain' if one else 'the chains and their halves'}: 1 is perfect, and "
        f"above {RHAT_LIMIT} one should look closer, though the worst of very many parameters may be there by chance. "
        "ESS is the number of independent draws that these are worth (ArviZ, bulk). The last column is how well the "
        "centre of the posterior is known, as a part of the posterior's own spread."
    )
