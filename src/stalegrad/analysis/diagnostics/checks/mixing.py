"""Do chains agree, and are there draws enough?"""

import numpy as np

from stalegrad._internal.types import Array
from stalegrad.analysis.diagnostics.checks.modes import LIMIT as MODES_APART
from stalegrad.analysis.diagnostics.checks.modes import farthest_modes
from stalegrad.analysis.diagnostics.convergence import half_chains, split_rhat
from stalegrad.analysis.diagnostics.evidence import PARAMETERS, PREDICTIONS, Evidence, Quantities
from stalegrad.analysis.diagnostics.findings import Finding, Measurement
from stalegrad.analysis.diagnostics.recommendation import LONGEST, NOTHING, Advice
from stalegrad.analysis.estimates import effective_sample_size, long_run_variance
from stalegrad.analysis.estimates.arrival import FEWEST_DRAWS

RHAT_LIMIT = 1.05
ESS_LIMIT = 100.0
ESS_LIMIT_PER_CHAIN = 25.0

_SURE = 6.0  # standard deviations
_SLOWEST = 0.1  # share
_RESERVE = 1.2  # times the draws that would be enough
_TOO_FEW = 50.0  # effective draws, with which chance is no excuse


def check_agreement(evidence: Evidence) -> tuple[Measurement, Finding | None]:
    """Chains that disagree: R-hat above 1.05 by more than chance.

    R-hat of a healthy chain is about √(1 + 1/ESS) of half a chain, so the largest of hundreds of parameters is often
    beyond any fixed limit in a run that is merely short. A finding needs both: R-hat above the limit, which makes it
    matter, and halves of chains, or their spreads, that differ by more than their standard errors explain, which makes
    it sure. The latter is Cochran's Q = Σ (mean − common mean)²/error² over the halves, on φ and on |φ − median|, about
    χ² with 2S − 1 degrees of freedom for chains that agree, taken as a normal deviate above 6. Of 5,000 stationary
    autoregressions at each of many lengths none reached that with 100 effective draws or more.

    Below 50 effective draws standard errors are too uncertain to excuse anything, and R-hat alone decides.

    With one chain its four quarters are compared, so that it is drift that is found.
    """
    evidence.need_draws()
    compared = [_compared(group) for group in evidence.judged]
    names = [name for group in evidence.judged for name in group.names]
    sure, rhat, effective = (np.concatenate(part) for part in zip(*compared, strict=True))
    differs = (sure > _SURE) | (effective < _TOO_FEW)
    candidates = np.flatnonzero(differs) if np.any(differs) else np.array([np.argmax(sure)])
    worst = candidates[np.argmax(rhat[candidates])]
    figure, chains = float(rhat[worst]), evidence.draws.shape[0]
    between = f"{chains} chains" if chains > 1 else "the quarters of the one chain"
    found = differs[worst] and figure > RHAT_LIMIT
    what = f"R-hat of {names[worst]} is {figure:.3g} over {between}"
    if figure > RHAT_LIMIT and not found:
        what += f", which chance explains at {effective[worst]:.0f} effective draws"
    measured = Measurement("R-hat", figure, RHAT_LIMIT, what + _reported(evidence))
    if not found:
        return measured, None
    advice, remedy = _longer(evidence, float(effective[worst]))
    who = "Chains" if chains > 1 else "Quarters of the chain"
    why = f"{who} have seen different laws, so no average over them is a posterior average yet."
    if sure[worst] <= _SURE:
        few = f"{effective[worst]:.0f} effective draws"
        why = f"{who} disagree, and {few} are too few to call it chance: no average over them is to be trusted."
    return measured, Finding(measured, "serious" if figure > 1.2 else "warning", why, remedy, advice)


def check_effective_draws(evidence: Evidence) -> tuple[Measurement, Finding | None]:
    """Too few effective draws: fewer than 100, where standard errors are a tenth of the posterior's own spread, or
    fewer than 25 a chain, where chains cannot be compared.

    The figure is the tenth percentile over the parameters looked at, or over the predictions, or that of a given
    function if it is less. The least of hundreds would say more about the noise of the estimate, some 30 % at an ESS of
    100, than about the chain.
    """
    evidence.need_arrived()
    if evidence.draws.shape[1] < 4:
        total = float(evidence.draws.shape[0] * evidence.draws.shape[1])
        return _judged(evidence, total, "the draws as there are")
    figures = {}
    for kind, names, values in evidence.judged:
        ess = np.atleast_1d(effective_sample_size(values))
        if kind in (PARAMETERS, PREDICTIONS):
            figures[f"the slowest tenth of the {kind}"] = float(np.quantile(ess, _SLOWEST, method="lower"))
        else:
            figures.update(zip(names, ess.tolist(), strict=True))
    worst = min(figures, key=lambda name: figures[name])
    return _judged(evidence, figures[worst], worst)


def _judged(evidence: Evidence, ess: float, name: str) -> tuple[Measurement, Finding | None]:
    chains, draws, _ = evidence.draws.shape
    limit = _wanted(evidence)
    what = f"{ess:.0f} effective draws of {chains * draws:,} for {name}, wanted are {limit:.0f}"
    measured = Measurement("effective draws", ess, limit, what)
    if ess >= limit:
        return measured, None
    advice, remedy = _longer(evidence, ess)
    return measured, Finding(
        measured,
        "serious" if ess < limit / 5 else "warning",
        f"The standard error of a mean is {1 / np.sqrt(max(ess, 1.0)):.0%} of the posterior's standard deviation, and "
        "is itself uncertain.",
        remedy,
        advice,
    )


def _longer(evidence: Evidence, ess: float) -> tuple[Advice, str]:
    """More steps where they would help: where the draws wanted can be had in ten times the updates."""
    if not evidence.arrived:
        if evidence.is_network:
            return NOTHING, "First of all they have to arrive."
        return Advice(warmup=True), "More of the same is no remedy: the chains have not arrived."
    if evidence.draws.shape[1] >= FEWEST_DRAWS and farthest_modes(evidence)[0] > MODES_APART:
        return NOTHING, "More steps do not help: the chains sit in different modes."
    longer = _RESERVE * _wanted(evidence) / max(ess, 1.0)
    if longer > LONGEST:
        words = f"Some {longer:.2g} times the updates would be needed: no remedy, but other coordinates are one."
        if evidence.is_network:
            words = f"Some {longer:.2g} times the updates would be needed; ten times show whether it gets there."
        return Advice(longer=longer, warmup=True), words
    longer = max(longer, _RESERVE)
    return Advice(longer=longer), f"Some {longer:.2g} times the draws would be enough."


def _wanted(evidence: Evidence) -> float:
    chains: int = evidence.draws.shape[0]
    return max(ESS_LIMIT, ESS_LIMIT_PER_CHAIN * chains)


def _reported(evidence: Evidence) -> str:
    """What R-hat is among the weights, where they are not judged."""
    if evidence.judges_weights:
        return ""
    _, rhat, _ = _compared(evidence.weights)
    worst = int(np.argmax(rhat))
    return f" (of single weights it is up to {rhat[worst]:.3g}, of {evidence.weights.names[worst]}, which does no harm)"


def _compared(group: Quantities) -> tuple[Array, Array, Array]:
    """Of every quantity how surely halves of chains differ, R-hat, the worse of φ and |φ − median|, and ESS."""
    chains = group.values if len(group.values) > 1 else half_chains(group.values)
    folded = np.abs(chains - np.median(chains, axis=(0, 1)))
    sure = np.maximum(_deviate(half_chains(chains)), _deviate(half_chains(folded)))
    rhat = np.fmax(np.fmax(split_rhat(chains), split_rhat(folded)), 1.0)
    return sure, rhat, np.atleast_1d(effective_sample_size(group.values))


def _deviate(halves: Array) -> Array:
    means = halves.mean(axis=1)
    within = np.mean([long_run_variance(half - mean) for half, mean in zip(halves, means, strict=True)], axis=0)
    rounding = np.square(np.finfo(np.float32).eps * halves).mean(axis=(0, 1)) + np.finfo(float).tiny
    error = np.maximum(within / halves.shape[1], rounding)
    freedom = len(halves) - 1
    q = np.square(means - means.mean(axis=0)).sum(axis=0) / error
    spread = 2 / (9 * freedom)
    return np.asarray((np.cbrt(q / freedom) - (1 - spread)) / np.sqrt(spread))  # Wilson and Hilferty: nearly N(0, 1)
