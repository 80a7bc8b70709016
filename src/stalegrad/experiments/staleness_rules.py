"""Rules for step sizes that depend on staleness: h_l = h f(τ_l), with an f that has the mean 1 over the run.

*The best rule to first order.* On a Gaussian of curvature λ update l errs in its drift by h_l λ (θ_l − θ_{l−τ_l}), and
in the time from l − τ_l to l, about τ_l h, the chain diffuses. With gradient noise of variance v the relative error of
the variance comes out as

    h λ ( mean(f τ) + κ mean(f²) ),        κ = (1 + v/λ)/2,

where the second term is what the integrator and the noise add. The f of mean 1 that makes it smallest is (c − τ/2κ)₊.
So there is something to gain where τ varies by more than κ, and nothing where it does not vary: W equal workers take
turns, and τ is W − 1.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from stalegrad._internal.types import Array, IntArray
from stalegrad.kernels.schedules import Schedule
from stalegrad.protocol.trace import Trace

_LEAST = 1e-9  # a step must not be 0


class Rule(NamedTuple):
    """How the step size depends on staleness: f, up to its norm."""

    label: str
    """As legends show it."""
    function: Callable[[IntArray, float], Array]
    """From the staleness of all updates, and κ."""


def optimal(staleness: IntArray, kappa: float) -> Array:
    """(c − τ/2κ)₊ with the mean 1.

    >>> optimal(np.array([0, 4]), 0.5)
    array([2., 0.])
    """
    slope = staleness / (2 * kappa)
    ordered = np.sort(slope)
    # With the k smallest above zero, their mean is n/k: c = (n + their sum)/k. It is the largest k that agrees.
    levels = (len(slope) + np.cumsum(ordered)) / np.arange(1, len(slope) + 1)
    return np.asarray(np.maximum(0.0, levels[np.flatnonzero(levels > ordered)[-1]] - slope))


RULES = {
    "constant": Rule("constant", lambda tau, kappa: np.ones(len(tau))),
    "root": Rule("∝ (1 + τ)^−½", lambda tau, kappa: (1.0 + tau) ** -0.5),
    "two-thirds": Rule("∝ (1 + τ)^−⅔", lambda tau, kappa: (1.0 + tau) ** (-2 / 3)),
    "inverse": Rule("∝ 1/(1 + τ/τ̄)", lambda tau, kappa: 1 / (1 + tau / max(float(tau.mean()), 1e-9))),
    "optimal": Rule("best: (c − τ/2κ)₊", optimal),
}
"""By name. The powers are how the theory's best step for the bias (−½) and for the MSE (−⅔) depends on τ."""


def factors(rule: str, staleness: IntArray, kappa: float = 0.5) -> Array:
    """f of every update, scaled to a mean of 1 and never 0."""
    values = RULES[rule].function(staleness, kappa)
    return np.asarray(np.maximum(values / values.mean(), _LEAST))


def with_rule(trace: Trace, rule: str, schedule: Schedule) -> Trace:
    """A trace of one chain whose step sizes are those of a schedule, multiplied by f; κ = ½ leaves out the noise."""
    if rule == "constant":
        return trace
    (chain,) = trace.chains
    steps = np.array([schedule(update) for update in range(len(chain))]) * factors(rule, chain.staleness)
    return replace(trace, chains=(replace(chain, step_size=steps),))
