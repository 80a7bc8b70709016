"""The warm-up of networks: no mode to speak of, too many weights for coordinates; step size and friction alone."""

from math import ceil, sqrt

import numpy as np

from stalegrad._internal.errors import ArgumentError
from stalegrad._internal.types import Array
from stalegrad.analysis.diagnostics.curvature import largest_curvature
from stalegrad.analysis.diagnostics.kernel_theory import relaxation
from stalegrad.analysis.diagnostics.step_finder import FoundStepSize, find_step_size
from stalegrad.kernels import Kernel
from stalegrad.potentials import Potential
from stalegrad.theory import Direction

MOST_WHITENED = 20_000
"""Parameters beyond which chains run in θ itself."""

_KEPT_MOMENTUM = 0.9  # of the momentum after an update, as of SGD with momentum
_STEP = 0.3  # of the inverse root of the largest curvature: where the friction is looked for
_CURVATURE_GRADIENTS = 64
_RECALLED = 10.0  # burn-in, in times that the momentum takes to forget


def found_for_network(
    potential: Potential, kernel: Kernel, start: Array, *, staleness: int, bias: float, gradients: int, seed: int
) -> tuple[Kernel, FoundStepSize | None]:
    """The sampler with what it leaves to be found, in the coordinates of θ, and how its step size was found.

    The friction keeps nine tenths of the momentum in an update of a step that the largest curvature at the start
    allows. With it :func:`stalegrad.find_step_size` walks to where the chain goes and finds the step there.

    Args:
        potential: the model.
        kernel: the sampler.
        start: θ_0.
        staleness: τ.
        bias: of variances, that is allowed.
        gradients: that may be computed.
        seed: of everything random.
    """
    if "friction" in kernel.missing:
        steepest = largest_curvature(potential, start[None], gradients=_CURVATURE_GRADIENTS, seed=seed).value
        if not (steepest > 0 and np.isfinite(steepest)):
            problem = "cannot be found: the potential does not curve upwards where the chain starts"
            raise ArgumentError("friction", "auto", problem, "Give a friction, or an initial point nearer to a mode.")
        friction = (1 - _KEPT_MOMENTUM) * sqrt(steepest) / _STEP
        kernel = kernel.completed({"friction": friction, "step_size": kernel.step_size})
    if "step_size" not in kernel.missing:
        return kernel, None
    found = find_step_size(
        potential, kernel, staleness=staleness, bias=bias * sqrt(2), gradients=gradients, initial=start, seed=seed,
        progress=False,
    )  # fmt: skip
    return found.kernel, found


def memory_of(kernel: Kernel, found: FoundStepSize | None, staleness: int) -> float:
    """Updates in which the narrowest direction forgets."""
    h = float(kernel.schedule(0))
    if found is None or not kernel.has_theory():
        return 1 / h
    updates = relaxation(kernel.with_step_size(h), staleness, Direction(found.curvature, found.noise))
    return float(ceil(_RECALLED * updates)) if np.isfinite(updates) else 1 / h
