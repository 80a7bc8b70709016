"""Have the chains arrived, or are they still travelling?"""

import numpy as np

from stalegrad.analysis.diagnostics.evidence import Evidence
from stalegrad.analysis.diagnostics.findings import Finding, Measurement
from stalegrad.analysis.diagnostics.recommendation import Advice
from stalegrad.analysis.estimates.arrival import FAR


def check_arrival(evidence: Evidence) -> tuple[Measurement, Finding | None]:
    """A chain that is still on its way: see :func:`~stalegrad.analysis.estimates.arrival.travel`.

    It is a finding of its own and first of all, because no other figure means anything before: the spread of such a
    chain is the way it has come, and the errors that are worked out of it say that two chains agree which have not yet
    met. Chance does not excuse it.
    """
    evidence.need_draws()
    travels = [
        (bool(moving), float(distance), int(chain), name)
        for group, found in zip(evidence.judged, evidence.travels, strict=True)
        for moving, distance, chain, name in zip(
            *(np.atleast_1d(part) for part in (found.travelling, found.distance, found.chain)), group.names, strict=True
        )
    ]
    moving, distance, chain, name = max(travels)
    where = f"{name} in chain {chain}" if evidence.draws.shape[0] > 1 else name
    way = f"from the first to the last quarter of the draws {where} went {distance:.3g} times its spread within one"
    if not moving:
        return Measurement("arrival", distance, FAR, f"{way}, and no quantity is on its way"), None
    count = sum(moving for moving, *_ in travels)
    others = f"; so did {count - 1:,} more of {len(travels):,} quantities" if count > 1 else ""
    measured = Measurement("arrival", distance, FAR, f"{way} and has not stopped{others}")
    remedy = "Start where the posterior is, in coordinates in which no direction is a long way."
    if evidence.is_network:
        remedy = "Keep no draws before where this run has ended: a burn-in as long as it was."
    return measured, Finding(
        measured,
        "serious",
        "The chain has not reached the posterior. Averages and spreads are of the way there, and have no standard "
        "errors.",
        remedy,
        Advice(warmup=True, burn_in=evidence.settings.steps),
    )
