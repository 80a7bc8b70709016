"""Are tails so heavy that means and standard errors do not settle?"""

import numpy as np

from stalegrad._internal.types import Array
from stalegrad.analysis.diagnostics.checks.transient import need_no_transient
from stalegrad.analysis.diagnostics.evidence import Evidence, NotChecked
from stalegrad.analysis.diagnostics.findings import Finding, Measurement
from stalegrad.analysis.diagnostics.recommendation import Advice
from stalegrad.analysis.estimates import effective_sample_size

LIMIT = 0.5
"""The tail index from which on the variance is infinite."""

_SURE = 6.0  # standard errors
_TAIL = 0.1  # share of the draws
_ERROR = 1.15  # of the index of exponential tails, times the root of the number of draws in the tail
_FEWEST = 200.0  # effective draws

MODEL = (
    "Sample {name} as x = m + c·sinh(z), with the chain in z, m and c its middle and its scale: the tails of z are "
    "light. A Student-t prior can be written as a normal with a scale of its own. Quote quantiles, not means."
)


def check_tails(evidence: Evidence) -> tuple[Measurement, Finding | None]:
    """A tail index ξ of a half and more, by which the variance is infinite.

    Of the tenth of the draws that are farthest from the median the excesses over the least of them are taken for a
    generalised Pareto law, whose ξ is estimated by probability-weighted moments (Hosking and Wallis 1987). It is 0 for
    exponential tails, negative for a Gaussian's, 1/ν for Student's t with ν degrees of freedom, 1 for Cauchy's. A
    finding needs six standard errors from 0 as well, at as many draws as are effective.

    A chain on such a posterior rarely is in the tails and stays long when it is: its mean and its errors are those
    of the tails that it has happened to see.
    """
    evidence.need_draws()
    need_no_transient(evidence)
    found = [entry for group in evidence.judged for entry in _indices(group.values, group.names)]
    if not found:
        raise NotChecked(f"no quantity has {_FEWEST:.0f} effective draws")
    sure, index, name = max((sure and index > LIMIT, index, name) for index, sure, name in found)
    what = f"the tail index of {name} is {index:.2g}"
    if not sure:
        return Measurement("tails", min(index, LIMIT), LIMIT, "no quantity has tails that are surely heavy"), None
    measured = Measurement("tails", index, LIMIT, f"{what}: its variance is infinite")
    return measured, Finding(
        measured,
        "serious",
        "Its mean and its standard error are those of the tails that the chain has happened to see.",
        "More steps do not settle it: sample it in a form with light tails, and quote quantiles.",
        Advice(model=MODEL.format(name=name)),
    )


def _indices(values: Array, names: list[str]) -> list[tuple[float, bool, str]]:
    """ξ of every quantity with draws enough, and whether it is surely above 0."""
    flat = np.sort(np.abs(values - np.median(values, axis=(0, 1))).reshape(-1, values.shape[2]), axis=0)
    effective = np.atleast_1d(effective_sample_size(values))
    count = max(2, int(_TAIL * len(flat)))
    excess = flat[-count:] - flat[-count - 1]
    above = (np.arange(count)[::-1] + 0.35) / count  # the share of the tail that is beyond each
    first, second = excess.mean(axis=0), (above[:, None] * excess).mean(axis=0)
    gap = first - 2 * second
    with np.errstate(divide="ignore", invalid="ignore"):
        index = np.where(gap > 0, 2 - first / gap, -1.0)
    sure = index > _SURE * _ERROR / np.sqrt(_TAIL * effective)
    return [(float(index[k]), bool(sure[k]), name) for k, name in enumerate(names) if effective[k] >= _FEWEST]
