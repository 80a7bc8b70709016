"""The step size to go on with after a chain has diverged."""

import re
from math import floor, inf, isfinite, log10

from stalegrad.analysis.diagnostics.checks.stiffness import LIMIT, Lag, expected_error
from stalegrad.analysis.diagnostics.checkup import FEWEST_GRADIENTS
from stalegrad.analysis.diagnostics.curvature import largest_curvature
from stalegrad.engines import Outcome, Timing
from stalegrad.kernels import Kernel
from stalegrad.runs.prepare import Prepared

_SHORTER = 10.0  # times at least: the chain diverged, whatever the curvature at its start says
_HALVINGS = 200
_PATIENCE = 10.0  # seconds that the curvature may take


def step_to_try(prepared: Prepared, outcome: Outcome) -> float:
    """A tenth of the step size, or less if the curvature where the run began asks for that; one digit.

    What is asked for is the one from which on theory has the variance along the stiffest direction right to 10 %, with
    gradients that are W − 1 updates old. It takes 64 gradients; where they take too long, where the sampler has no
    theory or the model no curvature, a tenth it is.

    Args:
        prepared: the run.
        outcome: how far it came, and what its gradients took.
    """
    updates = min((chain.steps for chain in outcome.chains), default=0)
    step = max(float(kernel.schedule(updates)) for kernel in prepared.kernels)
    return _one_digit(min(step / _SHORTER, step * _factor(prepared, updates, outcome.timing)))


def with_remedy(reason: str, step: float) -> str:
    """What a store remembers of a run that has diverged."""
    return f"{reason.rstrip('.')}. With step_size={step:g} it should hold"


def remembered_step(failure: str | None) -> float | None:
    """The step size of such a text.

    >>> remembered_step(with_remedy("chain 0 has diverged", 0.003))
    0.003
    """
    found = re.search(r"With step_size=(\S+) it should hold", failure or "")
    return None if found is None else float(found[1])


def _factor(prepared: Prepared, updates: int, timing: Timing | None) -> float:
    """By what steps must be multiplied to suit the curvature; infinite if that is not known."""
    each = timing.gradients / timing.count if timing is not None and timing.count else 0.0
    kernels = [kernel.at(updates) for kernel in prepared.kernels]
    theory = all(kernel.has_theory() and kernel.temperature != 0 for kernel in kernels)
    if not (theory and prepared.team.leads and FEWEST_GRADIENTS * each <= _PATIENCE):
        return inf
    try:
        found = largest_curvature(prepared.target, prepared.start[:1], gradients=FEWEST_GRADIENTS)
    except Exception:  # the model's own, which is not what the user is to be told of now
        return inf
    if not (found.value > 0 and isfinite(found.value)):
        return inf
    return min(_stood(kernel, float(kernel.schedule(updates)), found.value, prepared) for kernel in kernels)


def _stood(kernel: Kernel, step: float, curvature: float, prepared: Prepared) -> float:
    """The first of 1, ½, ¼, … times the step at which the error that theory expects is small."""
    workers, architecture = prepared.settings.workers, prepared.settings.architecture
    factor, lag = 1.0, Lag.of_mean(workers - 1.0)
    for _ in range(_HALVINGS):
        shorter = kernel.with_step_size(factor * step)
        ahead = architecture.point_ahead(shorter, factor * step, workers)
        if abs(expected_error(shorter, lag, curvature, curvature, ahead=ahead)) <= LIMIT / 2:
            break
        factor /= 2
    return factor


def _one_digit(number: float) -> float:
    """Rounded down.

    >>> _one_digit(0.00379), _one_digit(0.1)
    (0.003, 0.1)
    """
    exponent = floor(log10(number) + 1e-9)
    return float(f"{floor(number / 10.0**exponent + 1e-9)}e{exponent}")
