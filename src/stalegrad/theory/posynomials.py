"""The minimiser of f(h) = Σ_i c_i h^{e_i} over h > 0, which is what every bound of the theory is, as a function of h.

With t = log h, f is a sum of exponentials, so convex, and its derivative vanishes where

    D(t) = log Σ_{e_i > 0} c_i e_i exp(e_i t) − log Σ_{e_i < 0} c_i |e_i| exp(e_i t)

is zero. The slope of D lies between s = min e⁺ + min |e⁻| and S = max e⁺ + max |e⁻| everywhere, so the zero lies
between −D(0)/s and −D(0)/S: a bracket that cannot fail, for coefficients of any size. Where s = S the bracket is a
point, and the closed form. Otherwise bisection halves it down to rounding.
"""

from collections.abc import Sequence

import numpy as np

from stalegrad._internal.errors import ArgumentError
from stalegrad._internal.types import Array

Term = tuple[Array | float, int]
"""A coefficient c ≥ 0 (an array, for many minimisations at once) and its exponent e ≠ 0."""


def minimiser(terms: Sequence[Term]) -> Array:
    """The h that minimises Σ c h^e, entry by entry over the broadcast coefficients.

    >>> float(minimiser([(8.0, -1), (1.0, 2)]))  # 8/h + h²
    1.587401
    """
    rising, falling = [term for term in terms if term[1] > 0], [term for term in terms if term[1] < 0]
    up, down = [e for _, e in rising], [-e for _, e in falling]
    start = _imbalance(rising, falling, np.float64(0.0))
    if not np.all(np.isfinite(start)):
        raise ArgumentError(
            "m0, m1, m2",
            tuple(np.unique(c).tolist() for c, _ in terms),
            "the bound has no best step size: it only falls, or only rises, with h",
            "m0 must be > 0, and so must m2, or m1 together with staleness.",
        )
    ends = -start / (min(up) + min(down)), -start / (max(up) + max(down))
    low, high = np.minimum(*ends), np.maximum(*ends)
    for _ in range(80):  # 2⁻⁸⁰ of any bracket is below rounding
        middle = (low + high) / 2
        below = _imbalance(rising, falling, middle) < 0
        low, high = np.where(below, middle, low), np.where(below, high, middle)
    return np.exp((low + high) / 2)


def _imbalance(rising: Sequence[Term], falling: Sequence[Term], t: Array | np.float64) -> Array:
    """D(t)."""
    return np.subtract(_log_sum(rising, t), _log_sum(falling, t))


def _log_sum(terms: Sequence[Term], t: Array | np.float64) -> Array:
    """The logarithm of Σ c |e| exp(e t), without overflow; −∞ where every c is 0."""
    with np.errstate(divide="ignore"):
        logs = [np.log(np.multiply(c, abs(e))) + e * t for c, e in terms]
    return np.asarray(np.logaddexp.reduce(np.stack(np.broadcast_arrays(*logs))))
