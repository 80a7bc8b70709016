"""Samplers with a known fault: the checks must notice, with the same machinery that the right ones pass."""

from dataclasses import dataclass, replace

import stalegrad as sg
from stalegrad.protocol.trace import Trace

from .cases import STALENESS, Case, case
from .conjugate import NormalMean


@dataclass(frozen=True)
class Wrong:
    """A sampler, its staleness, and the models behind the data and behind its potential.

    Args:
        case: the sampler.
        relative_step: of it.
        model: from which parameters and data come.
        believed: from which the sampler's potential comes.
        staleness: a constant, or None for the random staleness that the right samplers meet.
    """

    case: Case
    relative_step: float
    model: NormalMean
    believed: NormalMean
    staleness: int | None = None

    def trace(self, steps: int) -> Trace:
        """The trace that it executes."""
        tau = self.staleness
        return STALENESS["random"](steps) if tau is None else sg.Trace.constant_staleness(tau, steps)


def _hot(model: NormalMean, relative_step: float, temperature: float) -> Wrong:
    """The temperature is off."""
    return Wrong(case("SGHMC-splitting", model, relative_step, temperature=temperature), relative_step, model, model)


def _coarse(model: NormalMean, relative_step: float, temperature: float) -> Wrong:
    """hλ = 1, where fresh SGLD has twice the variance."""
    return Wrong(case("SGLD", model, 1.0), 1.0, model, model, staleness=0)


def _stale(model: NormalMean, relative_step: float, temperature: float) -> Wrong:
    """hλτ = 0.8, half way to where the chain blows up, with a step that is harmless by itself."""
    return Wrong(case("SGLD", model, 0.02), 0.02, model, model, staleness=40)


def _prior(model: NormalMean, relative_step: float, temperature: float) -> Wrong:
    """The potential has another prior than the parameters: half its scale."""
    believed = replace(model, prior_scale=model.prior_scale / 2)
    return Wrong(case("SGNHT-each-euler", model, relative_step), relative_step, model, believed)


def _metric(model: NormalMean, relative_step: float, temperature: float) -> Wrong:
    """pSGLD whose metric follows θ, because its memory is short and its gradients are exact: the bias it documents."""
    exact = replace(model, batch_size=model.n_data)
    right = case("PSGLD", exact, relative_step)
    return Wrong(replace(right, kernel=replace(right.kernel, decay=0.5)), relative_step, exact, exact)


FAULTS = {"temperature": _hot, "step": _coarse, "staleness": _stale, "prior": _prior, "metric": _metric}
"""From the model, the relative step of the right samplers and a temperature to a wrong sampler."""
