"""Do the scales of the posterior differ so much that no one step suits all of them?"""

import numpy as np

from stalegrad._internal.types import Array
from stalegrad.analysis.diagnostics.checks.transient import need_no_transient
from stalegrad.analysis.diagnostics.evidence import Evidence, NotChecked
from stalegrad.analysis.diagnostics.findings import Finding, Measurement
from stalegrad.analysis.diagnostics.recommendation import Advice
from stalegrad.analysis.estimates import effective_sample_size

LIMIT = 100.0


def check_scales(evidence: Evidence) -> tuple[Measurement, Finding | None]:
    """The widest direction against the narrowest: a hundredfold and more.

    A step that the narrowest direction stands takes (widest/narrowest)² updates, or a few times as many, to forget
    where it was along the widest (to the power of 1 and not of 2 with a momentum and little friction).

    Widths are standard deviations of the draws along the eigenvectors of their covariance, as far as there are ten
    effective draws a parameter, else of the parameters themselves. With the model the narrowest may also be
    1/√(largest curvature), which a chain with too long a step cannot show. In coordinates of a metric that was learnt
    the scales are those that the sampler sees.
    """
    evidence.need_draws()
    weights = evidence.need_weights()
    need_no_transient(evidence)
    if len(weights.names) < 2:
        raise NotChecked("there is one parameter")
    if evidence.warmed:
        raise NotChecked("the warm-up has seen to it")
    values, index = evidence.parameters
    curvature = evidence.curvature_if_known
    if curvature is not None and isinstance(evidence.scale, np.ndarray):
        values = values / evidence.scale[index]
    widest, narrowest = _widths(values)
    how = "of the draws"
    if curvature is not None and curvature.value > 0 and curvature.value**-0.5 < narrowest:
        narrowest, how = curvature.value**-0.5, "of the draws and of the largest curvature"
    ratio = widest / narrowest if narrowest > 0 else 1.0
    what = f"the widest direction {how} is {ratio:,.3g} times as wide as the narrowest"
    measured = Measurement("scales", ratio, LIMIT, what)
    if ratio < LIMIT:
        return measured, None
    return measured, Finding(
        measured,
        "warning",
        f"A step that the narrow one stands needs some {ratio**2:,.2g} updates to cross the wide one.",
        "Coordinates in which all directions are alike: leave them to the warm-up.",
        Advice(warmup=True),
    )


def _widths(values: Array) -> tuple[float, float]:
    """Standard deviations along the widest and the narrowest direction, of parameters that move."""
    flat = values.reshape(-1, values.shape[2])
    moving = np.flatnonzero(flat.std(axis=0) > 0)
    if len(moving) < 2:
        raise NotChecked("fewer than two parameters move")
    effective = float(np.median(effective_sample_size(values[..., moving])))
    if effective >= 10 * len(moving):
        variances = np.linalg.eigvalsh(np.cov(flat[:, moving], rowvar=False))
        return float(np.sqrt(variances[-1])), float(np.sqrt(max(variances[0], 0.0)))
    deviations = flat[:, moving].std(axis=0)
    return float(deviations.max()), float(deviations.min())
