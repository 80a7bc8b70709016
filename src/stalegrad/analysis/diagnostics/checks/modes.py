"""Do chains sit in different places, each at rest in its own?"""

import numpy as np

from stalegrad._internal.types import Array
from stalegrad.analysis.diagnostics.convergence import half_chains
from stalegrad.analysis.diagnostics.evidence import Evidence, NotChecked
from stalegrad.analysis.diagnostics.findings import Finding, Measurement
from stalegrad.analysis.diagnostics.recommendation import Advice
from stalegrad.analysis.estimates import effective_sample_size

LIMIT = 4.0
"""Spreads within a chain between the means of two."""

FEWEST_EFFECTIVE = 25.0
"""Of each chain by itself: with fewer nobody can tell a chain that is stuck from one that is slow."""

_AT_REST = 1.0  # spread between the halves of a chain

MODEL = (
    "Write the model so that one of the modes is left: where they are the same explanation with other labels, order "
    "what is labelled (m[0] < m[1], as m[1] = m[0] + exp(d)); where they are different explanations, give each a model "
    "of its own and weigh the models. Start all chains in one mode (initial=) to see that it is sampled well."
)


def check_modes(evidence: Evidence) -> tuple[Measurement, Finding | None]:
    """Means of chains four spreads apart, although each chain by itself mixes: its halves agree, and it has 25
    effective draws.

    Chains that mix by themselves and have never met will not meet in ten times the updates, so more steps are no
    remedy, and neither is NUTS. Chance does not do it: the mean of 25 effective draws is known to a fifth of a spread.
    """
    evidence.need_draws()
    evidence.need_arrived()
    if evidence.draws.shape[0] < 2:
        raise NotChecked("one chain cannot sit in two places: set servers=4")
    distance, name = farthest_modes(evidence)
    if distance <= LIMIT:
        what = "no quantity has chains that are at rest in different places"
        return Measurement("modes", distance, LIMIT, what), None
    what = f"the means of {name} in two chains are {distance:.3g} spreads apart, and each chain is at rest"
    measured = Measurement("modes", distance, LIMIT, what)
    return measured, Finding(
        measured,
        "serious",
        "The posterior has several modes. Each chain has found one, and how much of the posterior is in each is not in "
        "these draws.",
        "More steps do not help, nor does NUTS: take the modes out of the model.",
        Advice(model=MODEL),
    )


def farthest_modes(evidence: Evidence) -> tuple[float, str]:
    """The largest distance between the means of two chains, of quantities of which all chains are at rest."""
    found = [(0.0, "")]
    if evidence.draws.shape[0] > 1:
        for group in evidence.judged:
            distance, rests = _apart(group.values)
            found += zip(np.where(rests, distance, 0.0).tolist(), group.names, strict=True)
    return max(found)


def _apart(values: Array) -> tuple[Array, Array]:
    """Of every quantity the largest distance of two chains' means, and whether all chains are at rest."""
    within = np.sqrt(values.var(axis=1).mean(axis=0))
    within = np.where(within > 0, within, np.inf)
    means, chains = values.mean(axis=1), len(values)
    halves = half_chains(values).mean(axis=1)
    moved = np.abs(halves[:chains] - halves[chains:]).max(axis=0)
    effective = np.min([effective_sample_size(chain[None]) for chain in values], axis=0)
    rests = (moved < _AT_REST * within) & (effective >= FEWEST_EFFECTIVE)
    return np.ptp(means, axis=0) / within, rests
