"""Gradients that arrived too late to be used: how many, and whether they were like those that were used."""

from typing import NamedTuple

import numpy as np

from stalegrad._internal.types import Array
from stalegrad.analysis.diagnostics.evidence import Evidence
from stalegrad.analysis.diagnostics.findings import Finding, Measurement, Severity
from stalegrad.analysis.diagnostics.recommendation import Advice
from stalegrad.potentials import Potential
from stalegrad.protocol.chain_trace import ChainTrace
from stalegrad.protocol.staleness_counts import StalenessCounts

LIMIT = 0.1
SHIFT_LIMIT = 0.2
"""Posterior standard deviations."""
_ERRORS = 6.0  # standard errors beyond which a shift is no chance; with 14 degrees of freedom, one in 60,000
_FEWEST = 16  # gradients of each kind


def check_dropped(evidence: Evidence) -> tuple[Measurement, Finding | None]:
    """More than a tenth of all gradients dropped by the bound on staleness, an exact count; or others than were used.

    What a gradient takes may depend on its data. Then dropping those that come late selects data, and the chain samples
    the posterior of those that are quick. With the model at hand, gradients on minibatches that were dropped are
    compared with gradients on minibatches that were used, for half as many again as the other checks may compute.
    """
    counts = StalenessCounts.together(chain.staleness_counts for chain in evidence.trace.chains)
    share = 1 - counts.accepted / counts.arrived if counts.arrived else 0.0
    what = f"{share:.1%} of {counts.arrived:,} gradients were dropped"
    enough = counts.quantile(0.99)
    remedy = (
        "A bound that 99% of the gradients keep to, with a step that stands it; or policy='wait', or fewer workers."
    )
    found = selection(evidence, share) if share else None
    if found is not None and abs(found.shift) > SHIFT_LIMIT and abs(found.shift) > _ERRORS * found.error:
        size = f"{abs(found.shift):.2g} ± {found.error:.1g}"
        moved = f"{what}, and without them the force is another: it moves the mean by about {size} standard deviations"
        measured = Measurement("dropped gradients", abs(found.shift), SHIFT_LIMIT, moved)
        why = "Which gradients come late depends on their data, so the data that are slow to compute count for less."
        remedy = (
            "Leave max_staleness out, with a step size that stands the staleness: then nothing is selected. "
            "policy='wait' leaves a shift that falls with the step size."
        )
        severity: Severity = "serious" if abs(found.shift) > 1 else "warning"
        return measured, Finding(measured, severity, why, remedy, Advice(unbounded=True))
    measured = Measurement("dropped gradients", share, LIMIT, what)
    if share <= LIMIT:
        return measured, None
    why = "Their work is lost, and what is lost may not be lost at random: slow workers, and data slow to compute."
    severity = "serious" if share > 0.5 else "warning"
    return measured, Finding(measured, severity, why, remedy, Advice(max_staleness=enough))


class Selection(NamedTuple):
    """What dropping does to the mean of the draws, in posterior standard deviations, and the standard error of that."""

    shift: float
    error: float


def selection(evidence: Evidence, share: float) -> Selection | None:
    """The shift that dropping a share p of the gradients makes along the direction in which they differ most.

    With δ the mean gradient on dropped minibatches less that on used ones, both at one draw, the force is off by pδ
    and the mean of the draws by p C δ, where C is the posterior covariance, here its diagonal. The direction comes
    from one half of the minibatches and the shift along it from the other, so that it is 0 on average if there is none.
    None where it cannot be known: without the model, or with too few gradients of a kind.
    """
    model, trace = evidence.potential, evidence.trace
    if model is None or model.addressed or evidence.draws.shape[1] < 2:
        return None
    for number, chain in enumerate(trace.chains):
        rows = next(iter(chain.blocks()))
        kinds = [np.flatnonzero(~rows.accepted), np.flatnonzero(rows.accepted)]
        wanted = min(max(evidence.gradients // 4, _FEWEST), *map(len, kinds))
        if wanted < _FEWEST:
            continue
        point = np.asarray(evidence.draws[number, -1])
        scale = np.asarray(evidence.draws[number], np.float64).std(axis=0)

        chosen = [kind[np.linspace(0, len(kind) - 1, wanted).astype(int)] for kind in kinds]
        late, used = (_gradients(model, trace.seed, number, rows.part(some), point) * scale for some in chosen)
        direction = late[::2].mean(0) - used[::2].mean(0)
        direction /= max(float(np.linalg.norm(direction)), np.finfo(float).tiny)
        along = [each[1::2] @ direction for each in (late, used)]
        shift = share * (along[0].mean() - along[1].mean())
        return Selection(float(-shift), float(share * np.sqrt(sum(a.var(ddof=1) / len(a) for a in along))))
    return None


def _gradients(model: Potential, seed: int, chain: int, rows: ChainTrace, point: Array) -> Array:
    """At one point, on the minibatches of these rows of a trace."""
    addresses = zip(rows.worker.tolist(), rows.count.tolist(), strict=True)
    batches = [model.minibatches.draw(seed, chain, worker, count) for worker, count in addresses]
    return np.array([model.gradient(point, batch) for batch in batches], np.float64)
