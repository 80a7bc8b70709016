"""Gradients that arrived too late to be used."""

import numpy as np

from stalegrad.diagnostics.evidence import Evidence
from stalegrad.diagnostics.findings import Finding, Measurement

LIMIT = 0.1


def check_dropped(evidence: Evidence) -> tuple[Measurement, Finding | None]:
    """More than a tenth of all gradients dropped by the bound on staleness. An exact count: chance plays no part."""
    accepted = np.concatenate([np.asarray(chain.accepted, bool) for chain in evidence.trace.chains])
    staleness = np.concatenate([chain.staleness for chain in evidence.trace.chains])
    share = 1 - float(accepted.mean()) if accepted.size else 0.0
    what = f"{share:.1%} of {accepted.size:,} gradients were dropped"
    measured = Measurement("dropped gradients", share, LIMIT, what)
    if share <= LIMIT:
        return measured, None
    enough = int(np.quantile(staleness, 0.99, method="higher"))
    why = "Their work is lost, and what is lost is not lost at random: slow workers, and data that are slow to compute."
    remedy = (
        f"Set max_staleness={enough}, which 99% of the gradients kept to (with a step size that stands it), or "
        "policy='wait', or fewer workers."
    )
    return measured, Finding(measured, "serious" if share > 0.5 else "warning", why, remedy)
