"""What the warm-up saw of the posterior before the run."""

from stalegrad.analysis.diagnostics.evidence import Evidence, NotChecked
from stalegrad.analysis.diagnostics.findings import Finding, Measurement
from stalegrad.analysis.diagnostics.recommendation import SHAPE, Advice


def check_warm_up(evidence: Evidence) -> tuple[Measurement, Finding | None]:
    """How many reasons the warm-up found not to trust what comes after it.

    Its pilot chains went from several starts through the neighbourhood of the mode. If they did not agree, were still
    finding new places, or met curvatures that no one step suits, the chains of the run, which start where those ended,
    may look healthy by every other figure and have seen a part of the posterior only.
    """
    record = evidence.trace.record
    if record is None or record.warmup is None:
        raise NotChecked("there was none")
    concerns = [str(concern) for concern in record.warmup["concerns"]]
    what = "; ".join(concerns) or "the warm-up saw nothing that speaks against the run"
    measured = Measurement("warm-up", float(len(concerns)), 0.0, what)
    if not concerns:
        return measured, None
    return measured, Finding(
        measured,
        "serious",
        "No step and no coordinates that the warm-up knows of suit all of such a posterior.",
        "Neither more steps nor a shorter one help: change the model's parameters, or the method.",
        Advice(model=SHAPE),
    )
