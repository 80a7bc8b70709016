"""How fast the estimate gets better with more updates, and with more workers, when the step size is the best one."""

import numpy as np
import numpy.typing as npt

from stalegrad._internal.types import Array
from stalegrad._internal.validation import whole_number
from stalegrad.theory.inputs import positive, same_shape


def variance_rate(steps: npt.ArrayLike, *, order: int = 1) -> Array:
    """L^{−2K/(2K+1)}: how the variance falls with L at the best h, whatever the staleness.

    >>> float(variance_rate(1000))
    0.01
    """
    k = whole_number("order", order, least=1)
    return np.power(positive("steps", steps), -2 * k / (2 * k + 1))


def bias_rate(steps: npt.ArrayLike, staleness: npt.ArrayLike) -> Array:
    """(τ/L)^{1/2}: how the bias falls at the best h, while the τ term dominates (so τ > 0).

    >>> float(bias_rate(400, 4))
    0.1
    """
    count, tau = positive("steps", steps), positive("staleness", staleness)
    same_shape(steps=count, staleness=tau)
    return np.sqrt(tau / count)


def mse_rate(steps: npt.ArrayLike, staleness: npt.ArrayLike) -> Array:
    """(τ/L)^{2/3}: how the MSE falls at the best h, while the τ term dominates (so τ > 0).

    >>> float(mse_rate(8000, 8))
    0.01
    """
    count, tau = positive("steps", steps), positive("staleness", staleness)
    same_shape(steps=count, staleness=tau)
    return np.power(tau / count, 2 / 3)


def linear_speedup(workers: npt.ArrayLike, *, baseline: npt.ArrayLike = 1) -> Array:
    """Iteration speedup at equal variance: L̄_baseline / L̄_workers = W_workers / W_baseline.

    W workers that make L̄ gradients each give L = W L̄ updates. The variance depends on L alone, not on the staleness
    that W workers cause; so equal variance means equal W L̄, and W workers need L̄ ∝ 1/W each. In the same time they
    make L ∝ W updates. Bias and MSE have no such speedup: with τ ≈ W their rates, in τ/L = 1/L̄, do not contain W.

    >>> linear_speedup([1, 2, 4, 9])
    array([1., 2., 4., 9.])
    """
    many, few = positive("workers", workers), positive("baseline", baseline)
    same_shape(workers=many, baseline=few)
    return np.divide(many, few)
