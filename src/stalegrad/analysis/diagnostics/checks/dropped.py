"""Gradients that arrived too late to be used."""

from stalegrad.analysis.diagnostics.evidence import Evidence
from stalegrad.analysis.diagnostics.findings import Finding, Measurement, Severity
from stalegrad.analysis.diagnostics.recommendation import Advice
from stalegrad.protocol.staleness_counts import StalenessCounts

LIMIT = 0.1


def check_dropped(evidence: Evidence) -> tuple[Measurement, Finding | None]:
    """More than a tenth of all gradients dropped by the bound on staleness. An exact count: chance plays no part."""
    counts = StalenessCounts.together(chain.staleness_counts for chain in evidence.trace.chains)
    share = 1 - counts.accepted / counts.arrived if counts.arrived else 0.0
    what = f"{share:.1%} of {counts.arrived:,} gradients were dropped"
    measured = Measurement("dropped gradients", share, LIMIT, what)
    if share <= LIMIT:
        return measured, None
    enough = counts.quantile(0.99)
    why = "Their work is lost, and what is lost is not lost at random: slow workers, and data that are slow to compute."
    remedy = (
        "A bound that 99% of the gradients keep to, with a step that stands it; or policy='wait', or fewer workers."
    )
    severity: Severity = "serious" if share > 0.5 else "warning"
    return measured, Finding(measured, severity, why, remedy, Advice(max_staleness=enough))
