"""Would half the step size give other estimates?"""

from collections.abc import Mapping

import numpy as np

from stalegrad._internal.errors import GradientError
from stalegrad._internal.types import Array
from stalegrad.analysis.diagnostics.evidence import Evidence, NotChecked
from stalegrad.analysis.diagnostics.findings import Finding, Measurement
from stalegrad.analysis.diagnostics.recommendation import Advice
from stalegrad.analysis.diagnostics.step_halving import Functions, step_halving

LIMIT = 0.1
_SURE = 5.0  # standard errors


def check_step_halving(evidence: Evidence, functions: Functions | None = None) -> tuple[Measurement, Finding | None]:
    """A test function whose bias at h, by comparison with h/2, is above a tenth of its posterior standard deviation.

    A finding needs that and a difference of five standard errors, which know of the autocorrelation. The comparison
    makes no assumption about posterior or sampler, takes twice the gradients of the run, and sees a bias only where the
    run is long enough for its standard error to be smaller.

    Args:
        evidence: the run, with its model and kernels.
        functions: by default the squared deviation from the mean, of all parameters and along the stiffest direction.
    """
    evidence.need_draws()
    kernels, potential = evidence.need_kernels(), evidence.model
    if evidence.trace.thinning.explore or _was_tempered(evidence):
        raise NotChecked("its temperature changes, and the run at half the step size would be heated otherwise")
    try:
        compared = step_halving(evidence.draws, evidence.trace, potential, kernels, functions or _spreads(evidence))
    except GradientError as error:
        raise NotChecked(f"the run at half the step size failed: {error}") from None
    entries = [
        (abs(float(bias)), max(LIMIT, _SURE * float(error)), name)
        for name, halved in compared.items()
        for bias, error in zip(np.ravel(halved.bias), np.ravel(halved.bias_error), strict=True)
    ]
    figure, limit, name = max(entries, key=lambda entry: entry[0] / entry[1])
    what = f"against half the step size, the bias of {name} is {figure:.2g} of its posterior standard deviation"
    measured = Measurement("step halving", figure, limit, what)
    if figure <= limit:
        return measured, None
    return measured, Finding(
        measured,
        "serious" if figure > 5 * LIMIT else "warning",
        "Standard errors do not contain this bias, and more draws at the same step size do not make it smaller.",
        "A shorter step, and as many more of them.",
        Advice(step=max(LIMIT / (2 * figure), 0.1)),
    )


def _spreads(evidence: Evidence) -> Functions:
    centre = np.asarray(evidence.draws[:, :: -(-evidence.draws.shape[1] // 256)]).mean(axis=(0, 1), dtype=np.float64)
    stiffest = evidence.curvature.direction / evidence.scale

    def all_parameters(theta: Array) -> float:
        return float(np.square(theta - centre).mean())

    def along_stiffest(theta: Array) -> float:
        return float(stiffest @ (theta - centre)) ** 2

    return {"the spread of the parameters": all_parameters, "the spread along the stiffest direction": along_stiffest}


def _was_tempered(evidence: Evidence) -> bool:
    record = evidence.trace.record
    return record is not None and any(isinstance(table.get("temperature"), Mapping) for table in record.kernels)
