"""Do chains agree, and are there draws enough?"""

from collections.abc import Iterator

import numpy as np

from stalegrad._internal.types import Array
from stalegrad.analysis.diagnostics.convergence import half_chains, split_rhat
from stalegrad.analysis.diagnostics.evidence import Evidence
from stalegrad.analysis.diagnostics.findings import Finding, Measurement
from stalegrad.analysis.estimates import effective_sample_size, long_run_variance

RHAT_LIMIT = 1.05
ESS_LIMIT = 100.0
ESS_LIMIT_PER_CHAIN = 25.0

_SURE = 6.0  # standard deviations
_SLOWEST = 0.1  # share


def check_agreement(evidence: Evidence) -> tuple[Measurement, Finding | None]:
    """Chains that disagree: R-hat above 1.05 by more than chance.

    R-hat of a healthy chain is about √(1 + 1/ESS) of half a chain, so the largest of hundreds of parameters is often
    beyond any fixed limit in a run that is merely short. A finding needs both: R-hat above the limit, which makes it
    matter, and halves of chains, or their spreads, that differ by more than their standard errors explain, which makes
    it sure. The latter is Cochran's Q = Σ (mean − common mean)²/error² over the halves, on φ and on |φ − median|, about
    χ² with 2S − 1 degrees of freedom for chains that agree, taken as a normal deviate above 6. Of 5,000 stationary
    autoregressions at each of many lengths none reached that with 100 effective draws or more.

    With one chain its four quarters are compared, so that it is drift that is found.
    """
    evidence.need_draws()
    names, sure, rhat = _compared(evidence)
    candidates = np.flatnonzero(sure > _SURE) if np.any(sure > _SURE) else np.array([np.argmax(sure)])
    worst = candidates[np.argmax(rhat[candidates])]
    figure, chains = float(rhat[worst]), evidence.draws.shape[0]
    compared = f"{chains} chains" if chains > 1 else "the quarters of the one chain"
    what = f"R-hat of {names[worst]} is {figure:.3g} over {compared}"
    found = sure[worst] > _SURE and figure > RHAT_LIMIT
    chance = ", which chance explains" if figure > RHAT_LIMIT and not found else ""
    measured = Measurement("R-hat", figure, RHAT_LIMIT, what + chance)
    if not found:
        return measured, None
    who = "Chains" if chains > 1 else "Quarters of the chain"
    return measured, Finding(
        measured,
        "serious" if figure > 1.2 else "warning",
        f"{who} have seen different laws, so no average over them is a posterior average yet.",
        "Set a longer burn_in and more steps; if it stays, start all chains from one place (initial=) to see whether "
        "they are stuck in different modes.",
    )


def check_effective_draws(evidence: Evidence) -> tuple[Measurement, Finding | None]:
    """Too few effective draws: fewer than 100, where standard errors are a tenth of the posterior's own spread, or
    fewer than 25 a chain, where chains cannot be compared.

    The figure is the tenth percentile over the parameters looked at, or that of a given function if it is less. The
    least of hundreds of parameters would say more about the noise of the estimate, some 30 % at an ESS of 100, than
    about the chain.
    """
    if evidence.draws.shape[1] < 4:
        total = float(evidence.draws.shape[0] * evidence.draws.shape[1])
        return _judged(evidence, total, "the draws as there are")
    figures = {}
    for names, values in _quantities(evidence):
        ess = np.atleast_1d(effective_sample_size(values))
        if names[0].startswith("parameter"):
            figures["the slowest tenth of the parameters"] = float(np.quantile(ess, _SLOWEST, method="lower"))
        else:
            figures.update(zip(names, ess.tolist(), strict=True))
    worst = min(figures, key=lambda name: figures[name])
    return _judged(evidence, figures[worst], worst)


def _judged(evidence: Evidence, ess: float, name: str) -> tuple[Measurement, Finding | None]:
    chains, draws, _ = evidence.draws.shape
    limit = max(ESS_LIMIT, ESS_LIMIT_PER_CHAIN * chains)
    what = f"{ess:.0f} effective draws of {chains * draws:,} for {name}, wanted are {limit:.0f}"
    measured = Measurement("effective draws", ess, limit, what)
    if ess >= limit:
        return measured, None
    longer = 1.2 * limit / max(ess, 1.0)
    steps = min(chain.steps for chain in evidence.trace.chains)
    burn_in = evidence.trace.burn_in
    return measured, Finding(
        measured,
        "serious" if ess < limit / 5 else "warning",
        f"The standard error of a mean is {1 / np.sqrt(max(ess, 1.0)):.0%} of the posterior's standard deviation, and "
        "is itself uncertain.",
        f"Set steps={_rounded_up(burn_in + longer * (steps - burn_in)):,} or more, or more servers; if the step size "
        "is far from its limit, a larger one mixes faster.",
    )


def _quantities(evidence: Evidence) -> Iterator[tuple[list[str], Array]]:
    """Parameters first, then every function; names and values (chain, draw, quantity)."""
    values, index = evidence.parameters
    yield [f"parameter {i}" for i in index], values
    for name, phi in evidence.functions.items():
        flat = phi.reshape(*phi.shape[:2], -1)
        yield ([name] if phi.ndim == 2 else [f"{name}[{k}]" for k in range(flat.shape[2])]), flat


def _compared(evidence: Evidence) -> tuple[list[str], Array, Array]:
    """Of every quantity its name, how surely halves of chains differ, and R-hat, the worse of φ and |φ − median|."""
    names: list[str] = []
    sure, rhat = [], []
    for quantity_names, values in _quantities(evidence):
        chains = values if len(values) > 1 else half_chains(values)
        folded = np.abs(chains - np.median(chains, axis=(0, 1)))
        sure.append(np.maximum(_deviate(half_chains(chains)), _deviate(half_chains(folded))))
        rhat.append(np.fmax(np.fmax(split_rhat(chains), split_rhat(folded)), 1.0))
        names += quantity_names
    return names, np.concatenate(sure), np.concatenate(rhat)


def _deviate(halves: Array) -> Array:
    means = halves.mean(axis=1)
    within = np.mean([long_run_variance(half - mean) for half, mean in zip(halves, means, strict=True)], axis=0)
    rounding = np.square(np.finfo(np.float32).eps * halves).mean(axis=(0, 1)) + np.finfo(float).tiny
    error = np.maximum(within / halves.shape[1], rounding)
    freedom = len(halves) - 1
    q = np.square(means - means.mean(axis=0)).sum(axis=0) / error
    spread = 2 / (9 * freedom)
    return np.asarray((np.cbrt(q / freedom) - (1 - spread)) / np.sqrt(spread))  # Wilson and Hilferty: nearly N(0, 1)


def _rounded_up(number: float) -> int:
    """To two digits."""
    unit: int = 10 ** max(0, int(np.floor(np.log10(max(number, 1.0)))) - 1)
    return int(np.ceil(number / unit)) * unit
