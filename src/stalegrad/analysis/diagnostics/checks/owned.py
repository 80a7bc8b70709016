"""Is what the server owns of the curvature right where the chain goes?

With ``sg.StaleGradients(linear=A)`` staleness costs what A is off by: to first order a variance is wrong by (λ − a) τh,
a being the owned part of the curvature λ along a direction. A is mostly the curvature at the mode. Where draws see less
of it, tails longer than a Gaussian's, too much is owned, and variances come out too small. The check of the stiffest
direction (:mod:`~stalegrad.analysis.diagnostics.checks.stiffness`) sees where too little is owned, this one where too
much.
"""

from stalegrad._internal.types import Array, IntArray
from stalegrad.analysis.diagnostics.checks.stiffness import FRESH, LIMIT, Checked, Lag, expected_error, lags_of
from stalegrad.analysis.diagnostics.evidence import Evidence, NotChecked
from stalegrad.analysis.diagnostics.findings import Finding, Measurement, Severity
from stalegrad.analysis.diagnostics.recommendation import Advice
from stalegrad.potentials.wrappers.base import Wrapper

_AIM = LIMIT / 2  # the error that the advised step size leaves
_HALVINGS = 12
_SURE = 2.0  # standard errors of a curvature


class _Surplus(Wrapper):
    """Aθ − g: curved upwards where the server owns more than there is."""

    def gradient(self, theta: Array, indices: IntArray) -> Array:
        """That of the residual, with the other sign."""
        surplus: Array = -self.potential.gradient(theta, indices)
        return surplus


def check_owned(evidence: Evidence) -> Checked:
    """A variance that stale gradients make more than 20 % too small along the direction of which too much is owned.

    The direction is that of the largest a − λ on average over draws, for half of the gradients that may be computed,
    and λ is allowed two standard errors; the error along it is that of theory, less that of fresh gradients.
    """
    kernels, trace = evidence.need_kernels(), evidence.trace
    residual = trace.architecture.residual(evidence.model)
    if residual is None:
        raise NotChecked("the server owns no part of the curvature")
    if not any(chain.staleness_counts.largest for chain in trace.chains):
        raise NotChecked("no gradient was stale")
    surplus = evidence.average_curvature_of(_Surplus(residual))
    owned = trace.architecture.owned_along(evidence.scale * surplus.direction)
    sure = surplus.value - _SURE * surplus.error
    curvature = owned - sure
    if not sure > 0 or not curvature > 0:
        raise NotChecked(
            "the server owns no more than there is" if sure <= 0 else "the potential curves downwards there"
        )

    def added(chain: int, lag: Lag, factor: float = 1.0) -> float:
        kernel = kernels[chain].with_step_size(factor * float(evidence.steps[chain]))
        ahead = trace.architecture.point_ahead(kernel, float(kernel.schedule(0)), trace.workers)
        stale = expected_error(kernel, lag, curvature, curvature, owned=owned, ahead=ahead)
        return stale - expected_error(kernel, FRESH, curvature, curvature, owned=owned)

    lags = lags_of(evidence)
    errors = [added(chain, lag) for chain, lag in enumerate(lags)]
    figure = max(errors, key=abs)
    what = (
        f"on average over draws a direction has the curvature {curvature:.3g}, of which the server owns {owned:.3g}: "
        f"gradients of this age make the variance along it {abs(figure):.0%} too {'small' if figure < 0 else 'large'}"
    )
    measured = Measurement("owned part", abs(figure), LIMIT, what)
    if abs(figure) <= LIMIT:
        return measured, None
    low, high = 0.0, 1.0
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        fine = all(abs(added(chain, lag, middle)) <= _AIM for chain, lag in enumerate(lags))
        low, high = (middle, high) if fine else (low, middle)
    why = "The curvature that the server adds is that of another place, as the mode: the draws see less of it."
    remedy = "A shorter step; or a smaller linear=, the curvature at the draws and not at the mode."
    severity: Severity = "serious" if abs(figure) > 0.5 else "warning"
    return measured, Finding(measured, severity, why, remedy, Advice(step=low or high))
