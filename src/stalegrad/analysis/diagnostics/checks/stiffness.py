"""Is the step size, with the staleness there was, small enough for the stiffest direction of the posterior?

The figure is the relative error of the variance along that direction, which theory gives exactly for a Gaussian of the
same curvature (:mod:`stalegrad.analysis.diagnostics.kernel_theory`). For SGLD it is a function of h·λ·(τ + ½), about as
large as that figure while it is small; a sampler with momentum has a friction B − τhλ left of its own B.
"""

from collections.abc import Iterator
from math import isinf, sqrt
from typing import NamedTuple

import numpy as np

from stalegrad._internal.types import Array, IntArray
from stalegrad.analysis.diagnostics.evidence import Evidence, NotChecked
from stalegrad.analysis.diagnostics.findings import Finding, Measurement, Severity
from stalegrad.analysis.diagnostics.kernel_theory import variance_error
from stalegrad.analysis.diagnostics.recommendation import Advice
from stalegrad.kernels import Kernel
from stalegrad.protocol.chain_trace import ChainTrace
from stalegrad.protocol.staleness_counts import StalenessCounts
from stalegrad.theory import Direction

LIMIT = 0.2
_AIM = LIMIT / 2  # the error that the advised step size leaves
_MOST_LAGS = 64
_HALVINGS = 12

Checked = tuple[Measurement, Finding | None]


class Lag(NamedTuple):
    """How old gradients were.

    Args:
        law: the probabilities of τ = 0, 1, 2, …
        stretch: multiplies the curvature, for a law that was shortened.
    """

    law: Array
    stretch: float = 1.0

    @classmethod
    def constant(cls, tau: int) -> "Lag":
        """The law of gradients that are all exactly τ updates old."""
        return cls(np.eye(1, tau + 1, tau)[0])

    @classmethod
    def of(cls, counts: StalenessCounts) -> "Lag":
        """The law of what was recorded.

        A law that reaches beyond 64 updates is cut down to its mean, which is what counts to first order, and a mean
        beyond 64 to 64 with a curvature that keeps hλτ, on which all depends when τ is large.
        """
        if counts.largest > _MOST_LAGS:
            return cls.of_mean(counts.mean)
        law = np.zeros(counts.largest + 1)
        law[counts.tau[counts.used > 0]] = counts.used[counts.used > 0]
        return cls(law / counts.accepted)

    @classmethod
    def of_mean(cls, mean: float) -> "Lag":
        """The two whole numbers next to a mean, with the weights that it asks for."""
        stretch = max(1.0, mean / _MOST_LAGS)
        low, part = divmod(mean / stretch, 1)
        return cls(
            (1 - part) * np.eye(1, int(low) + 2, int(low))[0] + part * np.eye(1, int(low) + 2, int(low) + 1)[0], stretch
        )


FRESH = Lag.constant(0)


def check_step_size(evidence: Evidence) -> Checked:
    """The step size alone, were gradients fresh: a variance along the stiffest direction more than 20 % off.

    The curvature is not overestimated on average (:func:`~stalegrad.analysis.diagnostics.curvature.largest_curvature`),
    so a run is called bad only for directions that there are.
    """
    errors = [_error(evidence, s, FRESH) for s in _chains(evidence)]
    chain = int(np.argmax(np.abs(errors)))
    figure, curvature, h = errors[chain], evidence.curvature.value, float(evidence.steps[chain])
    if evidence.kernels[chain].inertial:
        product = f"h·√λ = {h:.3g} · √{curvature:.3g} = {h * sqrt(curvature):.3g}"
    else:
        product = f"h·λ = {h:.3g} · {curvature:.3g} = {h * curvature:.3g}"
    what = f"at {product} {_described(figure)}"
    measured = Measurement("step size", abs(figure), LIMIT, what)
    if abs(figure) <= LIMIT:
        return measured, None
    why = "Even with fresh gradients the integrator cannot follow so narrow a direction."
    return measured, Finding(measured, _severity(figure), why, "A shorter step.", Advice(step=longest_factor(evidence)))


def check_staleness(evidence: Evidence) -> Checked:
    """The staleness on top: a variance along the stiffest direction that stale gradients put off by more than 20 %.

    It warns well before the chain blows up: for SGLD at h·λ·(τ + ½) of about 0.2, where the limit of stability is 1.57.
    """
    recorded = [chain.staleness_counts for chain in evidence.trace.chains]
    if not any(counts.largest for counts in recorded):
        raise NotChecked("no gradient was stale")
    lags = lags_of(evidence)
    errors = [(_error(evidence, s, lags[s]), _error(evidence, s, FRESH)) for s in _chains(evidence)]
    added = [stale - fresh if np.isfinite(fresh) else 0.0 for stale, fresh in errors]
    chain = int(np.argmax(np.abs(added)))
    figure, curvature, h = added[chain], evidence.curvature.value, float(evidence.steps[chain])
    mean = recorded[chain].mean
    what = (
        f"gradients were {mean:.1f} updates old on average, and {_delay(evidence.kernels[chain], h, curvature, mean)} "
        f"{_described(errors[chain][0])}"
    )
    measured = Measurement("staleness", abs(figure), LIMIT, what)
    if abs(figure) <= LIMIT:
        return measured, None
    why = "A gradient that comes late pushes past the mode, as a negative friction would."
    remedy = f"A shorter step{_fewer_workers(evidence, chain, mean)}."
    return measured, Finding(measured, _severity(figure), why, remedy, Advice(step=longest_factor(evidence)))


def lags_of(evidence: Evidence) -> list[Lag]:
    """How old the gradients of each chain were after burn-in."""
    return [Lag.of(_after(chain, evidence.trace.burn_in)) for chain in evidence.trace.chains]


def _after(chain: ChainTrace, burn_in: int) -> StalenessCounts:
    """The staleness of the updates after burn-in, or of all if there are none."""
    if not 0 < burn_in < chain.steps:
        return chain.staleness_counts

    def used() -> Iterator[tuple[IntArray, Array]]:
        before = 0
        for block in chain.blocks():
            staleness = block.updates().staleness
            kept = staleness[min(max(burn_in - before, 0), len(staleness)) :]
            before += len(staleness)
            yield kept, np.ones(len(kept), bool)

    return StalenessCounts.of(used())


def _chains(evidence: Evidence) -> range:
    """All of them, if there is a curvature to compare with."""
    chains = range(len(evidence.need_kernels()))
    if not evidence.curvature.value > 0:
        raise NotChecked("the potential curves downwards at the draws looked at")
    return chains


def expected_error(
    kernel: Kernel,
    lag: Lag,
    curvature: float,
    mean_curvature: float = 0.0,
    *,
    owned: float = 0.0,
    ahead: tuple[float, float] = (1.0, 0.0),
    noise: float = 0.0,
) -> float:
    """By how much the variance along the stiffest direction comes out too large, relative to what it should be.

    Args:
        kernel: with a constant step size.
        lag: how old gradients are.
        curvature: λ, the largest.
        mean_curvature: of all directions, which is what a thermostat sees.
        owned: the part of λ that the server owns, see :class:`stalegrad.StaleGradients`.
        ahead: α and c, if workers are sent the point α θ + c q.
        noise: variance of the gradient noise along that direction; 0 to leave it to its own check.
    """
    mean = 0.0
    if kernel.thermostat is not None:
        mean = float(np.clip(lag.stretch * mean_curvature, 0, lag.stretch * curvature))
    direction = Direction(
        lag.stretch * curvature,
        noise,
        mean_curvature=mean,
        owned=lag.stretch * owned,
        ahead=ahead[1] / lag.stretch,
        kept=ahead[0],
    )
    return variance_error(kernel, tuple(lag.law.tolist()), direction)


def _error(evidence: Evidence, chain: int, lag: Lag, h: float | None = None) -> float:
    kernel = evidence.kernels[chain].with_step_size(float(evidence.steps[chain]) if h is None else h)
    mean = evidence.mean_curvature if kernel.thermostat is not None else 0.0
    architecture, workers = evidence.trace.architecture, evidence.trace.workers
    ahead = (1.0, 0.0) if lag is FRESH else architecture.point_ahead(kernel, float(kernel.schedule(0)), workers)
    owned = architecture.owned_along(evidence.scale * evidence.curvature.direction)
    return expected_error(kernel, lag, evidence.curvature.value, mean, owned=owned, ahead=ahead)


def longest_factor(evidence: Evidence, most: float = 1.0) -> float:
    """By what all steps may be multiplied so that the error along the stiffest direction, staleness included, is 10 %.

    Args:
        evidence: the run, with its model and kernels.
        most: the largest factor to try.
    """
    lags = lags_of(evidence)

    def fine(factor: float) -> bool:
        steps = evidence.steps * factor
        return all(abs(_error(evidence, s, lags[s], float(steps[s]))) <= _AIM for s in _chains(evidence))

    if fine(most):
        return most
    low, high = 0.0, most
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        low, high = (middle, high) if fine(middle) else (low, middle)
    return low or high


def _fewer_workers(evidence: Evidence, chain: int, mean: float) -> str:
    """The largest constant staleness below the mean that the step size stands, if there is any."""
    for tau in reversed(range(1, min(int(np.ceil(mean)), _MOST_LAGS))):
        if abs(_error(evidence, chain, Lag.constant(tau))) <= LIMIT:
            return f", or at this one no more than {tau + 1} workers a server"
    return ""


def _delay(kernel: Kernel, h: float, curvature: float, mean: float) -> str:
    """The figure that the error depends on, by name."""
    if kernel.inertial:
        own = kernel.fixed_friction
        friction = "the thermostat's friction" if own is None else f"the friction {own:.3g}"
        product = f"τ·h·λ = {mean:.1f} · {h:.3g} · {curvature:.3g} = {mean * h * curvature:.3g}"
        return f"with {product} taken off {friction}"
    return f"at h·λ·(τ + ½) = {h:.3g} · {curvature:.3g} · {mean + 0.5:.1f} = {h * curvature * (mean + 0.5):.3g}"


def _described(error: float) -> str:
    if isinf(error):
        return "a Gaussian of the same curvature would blow up"
    return (
        f"the variance along the stiffest direction comes out {abs(error):.0%} too {'large' if error > 0 else 'small'}"
    )


def _severity(error: float) -> Severity:
    return "serious" if error > 1 or error < -0.5 else "warning"
