"""Step size and friction for coordinates in which the posterior has unit scale: by the sampler's own theory."""

from dataclasses import dataclass, replace
from math import inf, sqrt

from stalegrad._internal.errors import ArgumentError
from stalegrad.analysis.diagnostics.kernel_theory import relaxation, variance_error
from stalegrad.kernels import SAMPLERS, Kernel
from stalegrad.protocol.architectures import Architecture
from stalegrad.theory import Direction

LONGEST = 1.0
"""The longest step in z: there, a sampler that is exact on a Gaussian forgets in a step or two, and nothing is gained
beyond."""

_FRICTIONS = (0.5, 0.7, 1.0, 1.5, 2.0, 3.0)  # low ones bear staleness, high ones noise
_FACTOR = 2**0.25  # from one step that is tried to the next
_HALVINGS = 80  # of so much
_MARGIN = 1.3  # a chain must be stable with so many times its step size
_OLDEST = 128  # the largest staleness that the theory is asked about


@dataclass(frozen=True)
class Conditions:
    """What steps have to stand.

    Args:
        staleness: τ, of gradients.
        curvature: of the steepest direction, about on average over the points that a chain visits.
        steepest: at the steepest of these points.
        noise: the largest variance of the minibatch gradient along a direction.
        architecture: that makes the run.
        owned: the curvature that is the server's own and therefore never stale.
        workers: W.
        bias: the error of a variance that is allowed.
    """

    staleness: int
    curvature: float
    steepest: float
    noise: float
    architecture: Architecture
    owned: float
    workers: int
    bias: float

    @property
    def fresh(self) -> "Conditions":
        """These conditions for one worker, whose gradients are never stale."""
        return replace(self, staleness=0, workers=1)

    def direction(self, kernel: Kernel, h: float, curvature: float) -> Direction:
        """A direction of the posterior of this curvature, as the theory takes it."""
        kept, ahead = self.architecture.point_ahead(kernel, h, self.workers)
        return Direction(curvature, self.noise, min(1.0, curvature), self.noise, self.owned, ahead, kept)

    def error(self, kernel: Kernel, h: float, curvature: float) -> float:
        """By how much the variance along it comes out wrong, relative to its own."""
        try:
            stepping = kernel.with_step_size(h)
        except ArgumentError:  # Euler's momentum grows without bound
            return inf
        tau = min(self.staleness, _OLDEST)
        return abs(variance_error(stepping, tau, self.direction(stepping, h, curvature)))


def with_theory(kernel: Kernel) -> None:
    """Refuse a sampler of which nothing is known."""
    if not kernel.has_theory() or kernel.temperature == 0 or kernel.learns_metric:
        known = ", ".join(name for name, one in SAMPLERS.items() if one.has_theory() and not one.learns_metric)
        problem = "leaves numbers to be found, and no theory says which: it is not known, is at temperature 0, or "
        raise ArgumentError(
            "kernel", kernel, problem + "learns a metric of its own",
            f"Give one of {known}; or all its numbers, with warmup=None.",
        )  # fmt: skip


def chosen(kernel: Kernel, conditions: Conditions) -> Kernel:
    """The sampler with the numbers that it leaves to be found: the longest step within the bias, stable with a margin.

    Fresh chains must be stable at the steepest of all places. With stale gradients that would be asked too much of a
    place that is soon left again; whether chains stand it is tried (:mod:`stalegrad.runs.warmup.trial`). With more
    workers than 128 the step is shortened in proportion beyond that.
    """
    if "friction" not in kernel.missing:
        return _stepping(kernel, conditions)
    heat = sqrt(max(1.0, kernel.temperature))
    candidates = [
        _stepping(kernel.completed({"friction": friction * heat, "step_size": kernel.step_size}), conditions)
        for friction in _FRICTIONS
    ]
    return min(candidates, key=lambda one: _updates(float(one.friction) / heat, float(one.schedule(0))))  # type: ignore[attr-defined]


def _updates(friction: float, h: float) -> float:
    """Updates that an independent draw takes, of θ or of its square: they forget in time B and (B + 1/B)/2."""
    return max(friction, (friction + 1 / friction) / 2) / h


def _stepping(kernel: Kernel, conditions: Conditions) -> Kernel:
    """With the longest step, unless it has one."""
    if "step_size" not in kernel.missing:
        return kernel
    with_theory(kernel)
    wide = max(1.0, conditions.curvature)
    curvatures = sorted({1 / wide, 1.0, wide})
    h = LONGEST
    for _ in range(_HALVINGS):
        fine = all(conditions.error(kernel, h, curvature) <= conditions.bias for curvature in curvatures)
        if fine and conditions.fresh.error(kernel, _MARGIN * h, conditions.steepest) < inf:
            break
        h /= _FACTOR
    if conditions.staleness > _OLDEST:
        h *= _OLDEST / conditions.staleness
    return kernel.with_step_size(h)


def forgetting(kernel: Kernel, conditions: Conditions) -> float:
    """In how many updates the chain forgets where it was, along a direction of the posterior's own scale."""
    h = float(kernel.schedule(0))
    if not kernel.has_theory() or kernel.temperature == 0 or kernel.learns_metric:
        return 1 / h
    return relaxation(
        kernel.with_step_size(h), min(conditions.staleness, _OLDEST), conditions.direction(kernel, h, 1.0)
    )
