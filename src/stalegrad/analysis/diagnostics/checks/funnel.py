"""Does the posterior's width depend on where one is in it, as in a funnel?"""

from typing import NamedTuple

import numpy as np

from stalegrad._internal.types import Array
from stalegrad.analysis.diagnostics.checks.transient import need_no_transient
from stalegrad.analysis.diagnostics.evidence import Evidence, NotChecked
from stalegrad.analysis.diagnostics.findings import Finding, Measurement
from stalegrad.analysis.diagnostics.recommendation import Advice
from stalegrad.analysis.estimates import effective_sample_size

LIMIT = 6.0
"""Times the width, from two standard deviations below the mean of another parameter to two above."""

SERIOUS = 20.0
_SURE = 6.0  # standard deviations
_MOST = 64  # parameters
_FEWEST_EFFECTIVE = 30.0
_ENDS = (0.05, 0.95)  # quantiles

MODEL = (
    "Write the model with {narrow} divided by its scale: x = m + exp(s)·z with z ~ N(0, 1), where now it is "
    "x ~ N(m, exp(s)²) (non-centred; in NumPyro: handlers.reparam with LocScaleReparam(0)). If that cannot be done, "
    "sample it with NUTS, at a small step."
)


def check_funnel(evidence: Evidence) -> tuple[Measurement, Finding | None]:
    """A parameter whose spread changes sixfold with another parameter.

    For every pair, log|x − median| is regressed on the other parameter: with slope b and standard deviation s of the
    latter, the width of x changes exp(4bs)-fold from −2s to 2s. Of a Gaussian the slope is 0, however correlated; of
    Neal's funnel the change is 400-fold. A finding needs a correlation of six standard errors as well (of Fisher's z,
    at as many draws as there are effective ones).

    Where the width changes, no constant step is right: one that suits the mouth does not get into the neck, and a
    chain that never was there looks healthy by every other figure. With the model, largest curvatures that differ
    between draws by the square of that change say the same. Where the draws are too few to be sure of a change that
    they show, the curvatures at the ends of the parameter that it goes with decide: they have no such error.
    """
    evidence.need_draws()
    weights = evidence.need_weights()
    need_no_transient(evidence)
    if len(weights.names) < 2:
        raise NotChecked("there is one parameter")
    each = -(-len(weights.names) // _MOST)
    width = _widest_change(weights.values[..., ::each], weights.names[::each])
    change, narrow = width.change, width.narrow
    what = f"the width of {narrow} changes {change:.3g}-fold with {width.wide}"
    curvatures = _curvatures(evidence)
    if max(change, curvatures) <= LIMIT < width.suspected:
        curvatures = max(curvatures, _between_ends(evidence, weights.values[..., each * width.suspect]))
    if curvatures > max(change, LIMIT):
        change, what = curvatures, f"the narrowest width of the posterior differs {curvatures:.3g}-fold between draws"
        narrow = "what is narrow there"
    measured = Measurement("funnel", change, LIMIT, what)
    if change <= LIMIT:
        return measured, None
    return measured, Finding(
        measured,
        "serious" if change > SERIOUS else "warning",
        "No step suits both ends: where it is narrow the chain does not get in, and averages miss that part of the "
        "posterior.",
        "Neither more steps nor other constant coordinates help: write the model in other parameters.",
        Advice(model=MODEL.format(narrow=narrow)),
    )


class _Width(NamedTuple):
    """How a width changes with another parameter."""

    change: float
    """The largest that is sure."""
    wide: str
    """The parameter that it goes with."""
    narrow: str
    """The one whose width changes."""
    suspected: float
    """The largest, sure or not."""
    suspect: int
    """The number of the parameter that this one goes with."""


def _widest_change(values: Array, names: list[str]) -> _Width:
    moving = np.flatnonzero(values.std(axis=(0, 1)) > 0)
    if len(moving) < 2:
        return _Width(1.0, names[0], names[-1], 1.0, 0)
    values = values[..., moving]
    deviations = np.abs(values - np.median(values, axis=(0, 1)))
    floor = np.median(deviations, axis=(0, 1)) * 1e-3
    logs = np.log(np.maximum(deviations, np.maximum(floor, np.finfo(float).tiny)))
    effective = np.minimum.outer(effective_sample_size(values), effective_sample_size(logs))
    if np.max(effective) < _FEWEST_EFFECTIVE:
        raise NotChecked("there are too few effective draws to tell")
    x, y = (part.reshape(-1, len(moving)) for part in (values, logs))
    x, y = x - x.mean(axis=0), y - y.mean(axis=0)
    width = y.std(axis=0)
    correlation = (x / x.std(axis=0)).T @ (y / np.where(width > 0, width, np.inf)) / len(x)
    np.fill_diagonal(correlation, 0.0)  # a skewed parameter: no matter of another one
    deviate = np.arctanh(np.clip(np.abs(correlation), 0, 1 - 1e-9)) * np.sqrt(np.maximum(effective - 3, 0.0))
    shown = np.exp(4 * np.abs(correlation) * width)
    change = np.where(deviate > _SURE, shown, 1.0)
    i, j = np.unravel_index(int(np.argmax(change)), change.shape)
    suspect = int(np.argmax(shown.max(axis=1)))
    return _Width(
        float(change[i, j]), names[moving[i]], names[moving[j]], float(shown.max()), int(moving[suspect])
    )  # fmt: skip


def _curvatures(evidence: Evidence) -> float:
    """By how many times the narrowest width differs between the draws at which it was measured; 1 if it was not."""
    curvature = evidence.curvature_if_known
    if curvature is None:
        return 1.0
    return _ratio_of_widths(curvature.points)


def _between_ends(evidence: Evidence, values: Array) -> float:
    """By how many times the narrowest width differs between draws at both ends of a parameter, (chain, draw)."""
    order = np.argsort(values, axis=None)
    ends = [int(order[round(share * (order.size - 1))]) for share in _ENDS]
    try:
        return _ratio_of_widths(evidence.curvature_at([np.unravel_index(end, values.shape) for end in ends]).points)
    except NotChecked:
        return 1.0


def _ratio_of_widths(curvatures: Array) -> float:
    return float(np.sqrt(curvatures.max() / curvatures.min())) if curvatures.min() > 0 else 1.0
