"""How fast the estimate gets better with more updates, and with more workers, when the step size is the best one."""

import numpy as np
import numpy.typing as npt

from stalegrad._internal.types import Array
from stalegrad._internal.validation import whole_number
from stalegrad.theory.inputs import nonnegative, positive, same_shape


def variance_rate(steps: npt.ArrayLike, *, order: int = 1, chains: npt.ArrayLike = 1) -> Array:
    """L^{−2K/(2K+1)} / S: how the variance falls with L at the best h, whatever the staleness.

    Args:
        steps: L, the updates of each chain.
        order: K, of the integrator.
        chains: S. All its terms are 1/S of one chain's, so the best h is that of one.

    >>> float(variance_rate(1000)), float(variance_rate(1000, chains=4))
    (0.01, 0.0025)
    """
    k = whole_number("order", order, least=1)
    count, several = positive("steps", steps), positive("chains", chains)
    same_shape(steps=count, chains=several)
    return np.power(count, -2 * k / (2 * k + 1)) / several


def bias_rate(steps: npt.ArrayLike, staleness: npt.ArrayLike = 0, *, order: int = 1) -> Array:
    """(τ/L)^{1/2}, how the bias falls at the best h while the τ term dominates; L^{−K/(K+1)} where τ is 0.

    It is that of S chains of L updates each, too: more chains do not lower a bias.

    Args:
        steps: L, the updates of each chain.
        staleness: τ.
        order: K, of the integrator, which matters where τ is 0.

    >>> float(bias_rate(400, 4)), float(bias_rate(400)), float(bias_rate(1000, order=2))
    (0.1, 0.05, 0.01)
    """
    count, tau, k = positive("steps", steps), nonnegative("staleness", staleness), whole_number("order", order, least=1)
    same_shape(steps=count, staleness=tau)
    rate: Array = np.where(tau > 0, np.sqrt(tau / count), np.power(count, -k / (k + 1)))[()]
    return rate


def mse_rate(steps: npt.ArrayLike, staleness: npt.ArrayLike = 0, *, order: int = 1, chains: npt.ArrayLike = 1) -> Array:
    """(τ/(SL))^{2/3}, how the MSE falls at the best h while the τ term dominates; (SL)^{−2K/(2K+1)} where τ is 0.

    Args:
        steps: L, the updates of each chain.
        staleness: τ.
        order: K, of the integrator, which matters where τ is 0.
        chains: S. The best h is then a shorter one, which lowers the bias along with the variance. It holds while the
            start is forgotten, Lh ≫ S: S chains forget theirs no faster than one.

    >>> float(mse_rate(8000, 8)), float(mse_rate(1000)), float(mse_rate(1000, 8, chains=8))
    (0.01, 0.01, 0.01)
    """
    count, tau, k = positive("steps", steps), nonnegative("staleness", staleness), whole_number("order", order, least=1)
    several = positive("chains", chains)
    same_shape(steps=count, staleness=tau, chains=several)
    total = several * count
    rate: Array = np.where(tau > 0, np.power(tau / total, 2 / 3), np.power(total, -2 * k / (2 * k + 1)))[()]
    return rate


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
