"""Is the chain as hot as it should be? Two thermometers: its momentum, and its position against the exact forces."""

import numpy as np

from stalegrad._internal.types import Array
from stalegrad.analysis.diagnostics.evidence import Evidence, NotChecked
from stalegrad.analysis.diagnostics.findings import Finding, Measurement, Severity
from stalegrad.analysis.diagnostics.recommendation import Advice
from stalegrad.analysis.estimates import effective_sample_size, mcse

LIMIT = 0.1
_SURE = 5.0  # standard errors
_FEWEST_PROBES = 8
_FEWEST_EFFECTIVE = 10.0


def check_kinetic_temperature(evidence: Evidence) -> tuple[Measurement, Finding | None]:
    """The mean of qᵀq/n against what the sampler gives to a momentum that no force acts on.

    The latter is T up to the integrator's error in the friction alone, which is known and does no harm to θ (see
    :meth:`stalegrad.kernels.Kernel.free_kinetic_temperature`). What is left is the work of the
    forces: of steps too long for the curvature, of stale and of noisy gradients. The mean of a chain in order is off by
    O(h^K). A finding needs more than 10 % in either direction, and five standard errors that know of the
    autocorrelation: for normal errors that is one false alarm in a million and a half.

    A thermostat (SGNHT) holds this temperature at T whatever else is wrong. Off T it has not settled yet.
    """
    evidence.need_draws()
    kernels = evidence.need_kernels()
    expected = [k.free_kinetic_temperature(float(h)) for k, h in zip(kernels, evidence.steps, strict=True)]
    chains = [s for s, temperature in enumerate(expected) if temperature is not None]
    if not chains:
        raise NotChecked("the kernel has no momentum, or does not say what its temperature should be")
    ratios = np.stack([evidence.kinetic_temperature[s] / expected[s] for s in chains])
    excess, error = float(ratios.mean()) - 1, float(mcse(ratios))
    what = f"the kinetic temperature is {_off(excess)} what it should be (± {error:.1%})"
    measured = Measurement("kinetic temperature", abs(excess), max(LIMIT, _SURE * error), what)
    if abs(excess) <= measured.limit:
        return measured, None
    if any(kernels[s].thermostat is not None for s in chains):
        burn_in = evidence.trace.burn_in + evidence.settings.steps // 2
        advice, remedy = (
            Advice(burn_in=burn_in, if_unexplained=0.5),
            "A longer burn-in for the thermostat to settle in.",
        )
    else:
        advice, remedy = Advice(if_unexplained=0.5), "A shorter step, or larger minibatches if their noise is the cause"
        remedy += ": diagnose(potential) tells." if evidence.potential is None else "."
    why = "The momentum does not have its stationary law, so the draws need not have theirs."
    return measured, Finding(measured, _severity(excess, evidence), why, remedy, advice)


def check_configurational_temperature(evidence: Evidence) -> tuple[Measurement, Finding | None]:
    """The mean of (θ − θ̄)ᵀ∇U(θ)/n, which is T for draws from the posterior, whatever the sampler.

    Integration by parts gives E (θ − c)ᵀ∇U(θ) = nT for every constant c. On a Gaussian, for draws from another law, it
    is the mean over all directions of variance times curvature, flat and stiff ones with equal weight: 1.3 says that
    variances are 30 % too large on average. Gradients are taken afresh at some draws, minibatches will do.

    It looks at θ alone. So it also sees what a thermostat hides, whose kinetic temperature is T by construction:
    beyond the limit of stability SGNHT does not overflow, and is many times too hot or too cold.

    c is the mean of the chain, which costs 1/ESS of the variance in every direction; that is added back, and below ten
    effective draws a chain nothing is concluded from a temperature that is too low. A finding needs 10 % and five
    standard errors.
    """
    evidence.need_draws()
    values = _virials(evidence)
    if values.size < _FEWEST_PROBES:
        raise NotChecked(f"fewer than {_FEWEST_PROBES} draws could be looked at")
    draws, _ = evidence.parameters
    lost = float(np.mean([np.mean(1 / np.maximum(effective_sample_size(chain[None]), 2)) for chain in draws]))
    ratio, error = float(values.mean()) / (1 - lost), _error(values)
    excess = ratio - 1
    what = f"the configurational temperature is {_off(excess)} what it should be (± {error:.1%})"
    unknown = excess < 0 and lost > 1 / _FEWEST_EFFECTIVE
    measured = Measurement("configurational temperature", abs(excess), max(LIMIT, _SURE * error), what)
    if unknown or abs(excess) <= measured.limit:
        return measured, None
    return measured, Finding(
        measured,
        _severity(excess, evidence),
        f"Averaged over all directions, posterior variances come out {abs(excess):.0%} too {_size(excess)}.",
        "A shorter step, unless another finding names the cause.",
        Advice(if_unexplained=0.5),
    )


def _virials(evidence: Evidence) -> Array:
    """(θ − θ̄)ᵀg̃(θ)/nT at every probe, (chain, probe)."""
    kernels, probes = evidence.need_kernels(), evidence.probes
    product = np.einsum("smn,smn->sm", probes.deviations, (probes.first + probes.second) / 2, dtype=np.float64)
    temperatures = np.array([[kernels[s].temperature] for s in probes.chains])
    return np.asarray(product / (temperatures * evidence.draws.shape[2]))


def _error(values: Array) -> float:
    independent = float(values.std(ddof=1) / np.sqrt(values.size))
    return max(independent, float(mcse(values))) if values.shape[1] >= _FEWEST_PROBES else independent


def _off(excess: float) -> str:
    return f"{abs(excess):.1%} {'above' if excess > 0 else 'below'}"


def _size(excess: float) -> str:
    return "large" if excess > 0 else "small"


def _severity(excess: float, evidence: Evidence) -> Severity:
    """By half, or by a fifth in coordinates of a warm-up, which has chosen a step that heats nothing by so much."""
    most = 1.2 if evidence.warmed else 1.5
    return "serious" if not 1 / most <= 1 + excess <= most else "warning"
