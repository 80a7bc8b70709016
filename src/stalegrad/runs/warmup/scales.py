"""The unit of every parameter, found from gradients alone, whatever units the model is written in."""

import numpy as np

from stalegrad._internal.types import Array
from stalegrad.potentials import Potential

_ENERGY = 0.1  # what U changes by along the step that is looked for, beyond the slope: a third of a standard deviation
_TRIES = 6
_MOST_FACTOR = 1e3  # from one try to the next
_SMALLEST, _LARGEST = 1e-12, 1e12


def units(potential: Potential, theta: Array) -> Array:
    """d with ½ d_i² |∂²U/∂θ_i²| about ½, for every i: conditional standard deviations where U is quadratic.

    A step of length ε along coordinate i changes the slope by about ε ∂²U. It is made longer or shorter until
    ε · |change| is about a tenth, so that neither rounding nor far away regions have a say.

    Args:
        potential: U; its full gradient is used.
        theta: where.
    """
    size = potential.size
    here = potential.full_gradient(theta)
    resolution = float(np.finfo(potential.dtype).eps)
    found = np.empty(size)
    for i in range(size):
        step = 1e-3 * max(1.0, abs(float(theta[i])))
        least = 64 * resolution * max(abs(float(theta[i])), _SMALLEST)
        for _ in range(_TRIES):
            moved = np.array(theta, np.float64)
            moved[i] += step
            change = abs(float(potential.full_gradient(moved)[i] - here[i])) * step
            if not np.isfinite(change):
                step /= _MOST_FACTOR
                continue
            factor = float(np.clip(np.sqrt(_ENERGY / max(change, 1e-300)), 1 / _MOST_FACTOR, _MOST_FACTOR))
            if 0.3 < factor < 3 or (factor < 1 and step <= least):
                break
            step = float(np.clip(step * factor, max(least, _SMALLEST), _LARGEST))
        curvature = change / step**2 if np.isfinite(change) and change > 0 else 1 / _LARGEST**2
        found[i] = np.clip(1 / np.sqrt(curvature), _SMALLEST, _LARGEST)
    return found
