"""Down the slope from places where gradients overflow or curvatures mislead: by the signs of gradients alone."""

import numpy as np

from stalegrad._internal.types import Array
from stalegrad.potentials import Potential

_PASSES = 150
_FASTER, _SLOWER = 1.6, 0.4
_FIRST = 0.05  # of a parameter, or of 1
_LEAST = 1e-6  # of the same: no step is shorter
_TRIES = 60  # halvings of the way back to a point with a finite gradient


def downhill(potential: Potential, start: Array, passes: int = _PASSES) -> Array:
    """A point from which other methods find the mode; ``start`` itself if there is no finite gradient anywhere.

    Every parameter has a step of its own, which grows while the sign of its slope stays the same and shrinks when it
    changes (Riedmiller and Braun 1993, Rprop). How steep the slope is does not matter, so that a scale whose logarithm
    is tens of standard deviations off, where gradients are of the order e¹⁰⁰, is back within as many steps as any.

    Args:
        potential: U, whose full gradients are used.
        start: θ_0.
        passes: gradients to compute.
    """
    theta = finite_start(potential, start)
    steps = _FIRST * np.maximum(1.0, np.abs(theta))
    least = _LEAST * np.maximum(1.0, np.abs(theta))
    last = np.zeros(potential.size)
    for _ in range(passes):
        gradient = potential.full_gradient(theta)
        if not np.isfinite(gradient).all():  # the last steps went too far
            theta = theta + last * steps
            steps, last = np.maximum(steps * _SLOWER**2, least), np.zeros(potential.size)
            continue
        turned = gradient * last < 0
        steps = np.maximum(np.where(turned, steps * _SLOWER, steps * np.where(last == 0, 1.0, _FASTER)), least)
        last = np.where(turned, 0.0, np.sign(gradient))
        theta = theta - last * steps
    return finite_start(potential, theta)


def finite_start(potential: Potential, start: Array) -> Array:
    """The start, or a point on the way from there to the model's own start: the first with a finite gradient."""
    begin, own = np.asarray(start, np.float64), np.asarray(potential.initial(), np.float64)
    for k in range(_TRIES):
        theta = own + (begin - own) * 0.8**k
        if np.isfinite(potential.full_gradient(theta)).all():
            return theta
    return own
