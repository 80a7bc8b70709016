"""Whether a job's step size stands the staleness that so many workers bring, from the curvature of its posterior."""

from dataclasses import dataclass, field, replace
from math import ceil, isinf

import numpy as np

from stalegrad._internal.types import Array
from stalegrad.analysis.diagnostics.checks.stiffness import LIMIT, Lag, expected_error
from stalegrad.analysis.diagnostics.evidence import Evidence, NotChecked
from stalegrad.kernels import Kernel
from stalegrad.potentials import Potential
from stalegrad.protocol.architectures import Architecture, StaleGradients
from stalegrad.runs.result import Run
from stalegrad.theory import Direction

_AIM = LIMIT / 2  # the error that an advised step size leaves
_HALVINGS = 12


@dataclass(frozen=True)
class StepSizes:
    """The largest curvature λ, and what theory makes of it for the job's kernels.

    The figure is the relative error of the variance along the stiffest direction, for a Gaussian of that curvature:
    :func:`stalegrad.analysis.diagnostics.checks.stiffness.expected_error`. For SGLD it is about h·λ·(τ + ½) while that
    is small. The noise of minibatches, along that direction and on average over all, is part of it.

    Args:
        kernels: of the job, at the first step size of their schedules.
        curvature: λ.
        mean_curvature: of all directions, for thermostats.
        noise: variance of minibatch gradients along the stiffest direction.
        mean_noise: along all directions, on average.
        owned: the part of λ that is never stale, see :class:`stalegrad.StaleGradients`.
        architecture: of the job: whether workers are sent a point ahead of the chain.

    >>> import stalegrad as sg
    >>> sizes = StepSizes((sg.SGLD(step_size=1e-3),), curvature=100.0)
    >>> f"{sizes.error(mean_staleness=0):.0%}", f"{sizes.error(mean_staleness=3):.0%}"
    ('5%', '43%')
    >>> sizes.stands(0), sizes.stands(15)
    (True, False)
    """

    kernels: tuple[Kernel, ...]
    curvature: float
    mean_curvature: float = 0.0
    noise: float = 0.0
    mean_noise: float = 0.0
    owned: float = 0.0
    architecture: Architecture = field(default_factory=StaleGradients)

    def error(self, mean_staleness: float, factor: float = 1.0) -> float:
        """Of the kernel that it hits hardest, with steps of ``factor`` times its own; infinite if it blows up."""
        lag = Lag.of_mean(mean_staleness)
        kernels = dict.fromkeys(k.with_step_size(factor * float(k.schedule(0))) for k in self.kernels)
        workers = round(mean_staleness) + 1
        errors = [
            expected_error(
                k, lag, self.curvature, self.mean_curvature, owned=self.owned, noise=self.noise,
                ahead=self.architecture.point_ahead(k, float(k.schedule(0)), workers),
            )
            for k in kernels
        ]  # fmt: skip
        # What minibatches add to all directions may be more than what staleness adds to one.
        everywhere = Direction(0, self.mean_noise)
        plain = [k for k in kernels if k.thermostat is None and self.mean_noise]
        errors += [k.relative_noise(float(k.schedule(0)), everywhere) or 0.0 for k in plain]
        return max(errors, key=abs)

    @property
    def noise_error(self) -> float:
        """What of the error with fresh gradients is due to minibatches alone."""
        quiet = replace(self, noise=0.0, mean_noise=0.0)
        return self.error(0.0) - quiet.error(0.0)

    def stands(self, mean_staleness: float) -> bool:
        """Whether the job's step size keeps the error within 20 %."""
        return abs(self.error(mean_staleness)) <= LIMIT

    def advised_factor(self, mean_staleness: float) -> float:
        """By what to multiply the job's step size so that an error of 10 % is left, but by no more than 1."""
        if abs(self.error(mean_staleness)) <= LIMIT:
            return 1.0
        low, high = 0.0, 1.0
        while low == 0.0:  # a step that is far too large needs more than a few halvings
            low = high / 2 if abs(self.error(mean_staleness, high / 2)) <= _AIM else 0.0
            high = high if low else high / 2
        for _ in range(_HALVINGS):
            middle = (low + high) / 2
            low, high = (low, middle) if abs(self.error(mean_staleness, middle)) > _AIM else (middle, high)
        return low

    @property
    def step_size(self) -> float:
        """The job's, the largest of its kernels."""
        return max(float(kernel.schedule(0)) for kernel in self.kernels)

    def blow_up(self, mean_staleness: float) -> float | None:
        """h* such as stale SGLD's, see :func:`stalegrad.theory.stability_limit`; None where there is no formula."""
        if self.architecture.point_ahead(self.kernels[0], self.step_size, 2) != (1.0, 0.0) or self.owned:
            return None
        limits = [kernel.stability_limit(self.curvature, ceil(mean_staleness)) for kernel in self.kernels]
        known = [limit for limit in limits if limit is not None]
        return min(known) if known and len(known) == len(limits) else None


def measure_step_sizes(
    run: Run, potential: Potential, kernels: tuple[Kernel, ...], *, gradients: int, architecture: Architecture
) -> StepSizes:
    """The curvature where a short run has come to.

    Args:
        run: of the job.
        potential: its model.
        kernels: of its chains.
        gradients: how many may be computed, 64 at least.
        architecture: of the job.

    Raises:
        NotChecked: there is no theory of the kernel, or the potential curves downwards.
    """
    evidence = Evidence(
        draws=run.draws,
        step_sizes=run.step_sizes,
        kinetic_temperature=run.stats.kinetic_temperature,
        trace=run.trace,
        kernels=kernels,
        potential=potential,
        gradients=gradients,
    )
    evidence.need_kernels()
    curvature = evidence.curvature.value
    if not (curvature > 0 and np.isfinite(curvature)):
        raise NotChecked("the potential does not curve upwards where the calibration ended")
    thermostat = any(kernel.thermostat is not None for kernel in kernels)
    point = np.ascontiguousarray(np.asarray(run.draws)[0, -1], potential.dtype)
    along, mean = _noise(potential, point, evidence.curvature.direction, evidence.scale, gradients // 2)
    return StepSizes(
        tuple(k.with_step_size(float(k.schedule(0))) for k in kernels),
        curvature,
        evidence.mean_curvature if thermostat else 0.0,
        along,
        mean,
        architecture.owned_along(evidence.scale * evidence.curvature.direction),
        architecture,
    )


def _noise(
    potential: Potential, point: Array, direction: Array, scale: Array | float, count: int
) -> tuple[float, float]:
    """The variance of minibatch gradients at a point, along a direction and on average over all coordinates.

    A calibration has a handful of draws, so that pairs of gradients at each of them, as
    :func:`~stalegrad.analysis.diagnostics.gradient_noise.gradient_noise` takes them, would know it to 70 % only. Here
    it is known to √(2/count).
    """
    along, total, squares = np.empty(count), np.zeros(len(point)), np.zeros(len(point))
    for number in range(count):
        indices = potential.minibatches.draw_outside_run(1, number)
        gradient = np.asarray(potential.gradient(point, indices), np.float64) * scale
        along[number] = gradient @ direction
        total += gradient
        squares += gradient**2
    variances = (squares - total**2 / count) / (count - 1)
    return float(along.var(ddof=1)), float(np.maximum(variances, 0.0).mean())


def error_text(error: float | None) -> str:
    """For a table.

    >>> error_text(0.034), error_text(-0.5), error_text(float("inf")), error_text(None)
    ('3 %', '−50 %', 'blows up', '–')
    """
    if error is None:
        return "–"
    return "blows up" if isinf(error) or error > 10 else f"{round(100 * error)} %".replace("-", "−")
