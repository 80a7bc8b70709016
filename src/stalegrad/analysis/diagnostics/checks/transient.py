"""Is the way from the start to the posterior among the draws?"""

from typing import NamedTuple

import numpy as np

from stalegrad._internal.types import Array
from stalegrad.analysis.diagnostics.evidence import Evidence, NotChecked
from stalegrad.analysis.diagnostics.findings import Finding, Measurement
from stalegrad.analysis.diagnostics.recommendation import Advice

LIMIT = 0.1
"""The share of the variance from which on the way there matters."""

_FAR = 6.0  # standard deviations of the second half, from its mean to where the draws begin
_BEYOND = 1.2  # and times the farthest that the second half ever was
_RESERVE = 2.0  # times the updates that the way took


class _Way(NamedTuple):
    """What is known of the way of one quantity."""

    share: float
    """Of the mean square around the second half's mean, that part that the first half has too much."""
    updates: int
    """Draws of a chain until it is where the second half is."""
    name: str


def check_transient(evidence: Evidence) -> tuple[Measurement, Finding | None]:
    """Draws that begin far from where they end, and add a tenth to the variance by it: too short a burn-in, or none.

    A quantity has come a long way if the first hundredth of the draws of a chain is on average six standard deviations
    from the mean of the second halves, and farther than any of their draws ever is. The figure is the share of the mean
    square around that mean that would not be there if the first half were like the second. Many parameters may each
    begin within their spread and all of them together not: the mean of their squared deviations is looked at besides.
    """
    evidence.need_draws()
    evidence.need_arrived()
    ways = [way for group in evidence.judged for way in _ways(group.values, group.names)]
    share, _, name = max(ways)
    chains, burn_in = evidence.draws.shape[0], evidence.trace.burn_in
    after = f"after a burn-in of {burn_in:,} updates" if burn_in else "without a burn-in"
    measured = Measurement(
        "transient", share, LIMIT, f"{after}, {share:.0%} of the variance of {name} is the way there"
    )
    if share <= LIMIT:
        return measured, None
    together = f" All {chains} chains start at one point, so their agreement says little." * _one_start(evidence)
    every = -(-evidence.draws.shape[1] // evidence.judged[0].values.shape[1])
    updates = max(way.updates for way in ways if way.share > LIMIT) * every * evidence.trace.thin
    return measured, Finding(
        measured,
        "serious" if share > 0.5 else "warning",
        "The chains were still on their way to the posterior when the first draws were kept, and averages and spreads "
        f"contain it.{together}",
        "A burn-in as long as the way, or the warm-up's start.",
        Advice(burn_in=burn_in + int(np.ceil(_RESERVE * updates))),
    )


def need_no_transient(evidence: Evidence) -> None:
    """Refuse draws that have not arrived, or that the way from the start is among."""
    measured, finding = check_transient(evidence)
    if finding is not None:
        raise NotChecked(f"the way from the start is {measured.figure:.0%} of the variance")


def _ways(values: Array, names: list[str]) -> list[_Way]:
    """Of every quantity, and of all of them together."""
    late = values[:, values.shape[1] // 2 :]
    spread = late.std(axis=(0, 1))
    deviations = (values - late.mean(axis=(0, 1))) / np.where(spread > 0, spread, np.inf)
    found = [_way(np.square(each), each, name) for each, name in zip(np.moveaxis(deviations, 2, 0), names, strict=True)]
    if len(names) > 1:
        squares = np.square(deviations).mean(axis=2)
        size = np.sqrt(squares)
        late = size[:, values.shape[1] // 2 :]
        found.append(_way(squares, (size - late.mean()) / (late.std() or np.inf), "all of them together"))
    return found


def _way(squares: Array, deviations: Array, name: str) -> _Way:
    """Of one quantity, from its squared deviations and from its deviations, in standard deviations: (chain, draw)."""
    half, first = squares.shape[1] // 2, max(1, squares.shape[1] // 100)
    size = np.abs(deviations)
    reached = float(size[:, half:].max())
    if not np.any(np.abs(deviations[:, :first].mean(axis=1)) > max(_FAR, _BEYOND * reached)):
        return _Way(0.0, 0, name)
    arrives = np.argmax(size <= reached, axis=1)  # the first draw of each chain that the second half might have had
    return _Way(1 - float(squares[:, half:].mean() / squares.mean()), int(arrives.max()) + 1, name)


def _one_start(evidence: Evidence) -> bool:
    initial = evidence.trace.initial
    return evidence.draws.shape[0] > 1 and (initial is None or bool(np.all(initial == initial[0])))
