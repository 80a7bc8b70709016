"""Where a posterior is highest, from gradients alone."""

from collections import deque
from typing import Any

import numpy as np

from stalegrad._internal.errors import ArgumentError
from stalegrad._internal.progress_bar import Report, progress_bar
from stalegrad._internal.types import Array
from stalegrad._internal.validation import finite_array, real_number, whole_number
from stalegrad.potentials.base import Potential

_MEMORY = 20  # pairs of differences that the Hessian is made of
_SLOPE = 0.9  # a step is long enough when the slope along it has fallen to this share
_MOST_TRIALS = 20  # gradients along one direction


def find_mode(
    potential: Potential, initial: Any = None, *, passes: int = 200, tolerance: float = 1e-6, progress: bool = True
) -> Array:
    """θ* with ∇U(θ*) = 0, a minimum of U, by L-BFGS on the gradients of all data.

    A step goes along p = −H⁻¹∇U, with H⁻¹ from the last twenty steps (Nocedal 1980), and is halved or doubled until
    the slope |p·∇U| has fallen to nine tenths without a rise: as the value of U is not asked for, any model will do. It
    ends when ½ ∇UᵀH⁻¹∇U, about U(θ) − U(θ*), is below the tolerance. In a posterior of n parameters that difference is
    n/2 on average, so 10⁻⁶ is a thousandth of a standard deviation from the mode.

    Args:
        potential: the model.
        initial: where to begin; None for the model's own start.
        passes: the most gradients on all data to compute. Where they run out, the best point so far is returned.
        tolerance: of U.
        progress: show a bar on standard error.

    >>> from stalegrad.potentials import GaussianMean
    >>> model = GaussianMean(np.array([1.0, 2.0, 6.0]), dtype=np.float64)
    >>> find_mode(model, progress=False), model.posterior()[0]
    (array([2.25]), array([2.25]))
    """
    passes = whole_number("passes", passes, least=2)
    tolerance = real_number("tolerance", tolerance, above=0)
    start = potential.initial() if initial is None else finite_array("initial", initial, potential.dtype)
    if start.shape != (potential.size,):
        raise ArgumentError("initial", initial, f"has shape {start.shape}", f"Give shape ({potential.size},).")
    # Far from the mode gradients may overflow: a step that leads there is not taken.
    with progress_bar(shown=progress) as report, np.errstate(over="ignore", invalid="ignore"):
        return _Search(potential, start, passes, report).run(tolerance)


class _Search:
    """L-BFGS on its way. Numbers are float64, whatever the model's are."""

    def __init__(self, potential: Potential, start: Array, passes: int, report: Report) -> None:
        self._potential, self._passes, self._report = potential, passes, report
        self._spent = 0
        self._pairs: deque[tuple[Array, Array]] = deque(maxlen=_MEMORY)
        self._theta = start.astype(np.float64)
        self._gradient = self._full(self._theta)

    def run(self, tolerance: float) -> Array:
        """The mode, in the model's type."""
        while self._spent < self._passes:
            direction = self._direction()
            slope = float(direction @ self._gradient)
            if not (slope < 0 and -slope / 2 > tolerance) or not self._go(direction, slope):
                break
        return np.ascontiguousarray(self._theta, self._potential.dtype)

    def _direction(self) -> Array:
        """−H⁻¹∇U by the two loops of L-BFGS; before the first step a unit of length along the gradient."""
        rest, weights = self._gradient.copy(), []
        for s, y in reversed(self._pairs):
            weight = (s @ rest) / (s @ y)
            weights.append(weight)
            rest -= weight * y
        if self._pairs:
            s, y = self._pairs[-1]
            rest *= (s @ y) / (y @ y)
        else:
            rest /= max(1.0, float(np.linalg.norm(rest)))
        for (s, y), weight in zip(self._pairs, reversed(weights), strict=True):
            rest += (weight - (y @ rest) / (s @ y)) * s
        return -rest

    def _go(self, direction: Array, slope: float) -> bool:
        """Move along the direction; whether there was a better point."""
        low, high, length = 0.0, np.inf, 1.0
        for _ in range(_MOST_TRIALS):
            theta = self._theta + length * direction
            gradient = self._full(theta)
            here = float(direction @ gradient)
            if not np.isfinite(here) or here > _SLOPE * -slope:
                high = length  # beyond the minimum along the line
            elif here < _SLOPE * slope:
                low = length  # hardly nearer to it
            else:
                s, y = theta - self._theta, gradient - self._gradient
                if s @ y > 1e-12 * np.linalg.norm(s) * np.linalg.norm(y):  # it curves upwards
                    self._pairs.append((s, y))
                self._theta, self._gradient = theta, gradient
                return True
            if self._spent >= self._passes:
                return False
            length = 2 * length if high == np.inf else (low + high) / 2
        return False

    def _full(self, theta: Array) -> Array:
        self._spent += 1
        gradient = self._potential.full_gradient(np.ascontiguousarray(theta, self._potential.dtype))
        gradient = gradient.astype(np.float64)
        self._report(f"finding the mode, |∇U| = {np.linalg.norm(gradient):.3g}", self._spent / self._passes)
        return gradient
