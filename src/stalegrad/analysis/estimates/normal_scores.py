"""How good normal predictions of numbers are: error, log density, coverage of intervals, and CRPS.

Everywhere row i is predicted to be N(m_i, v_i), a mean and a variance, and y_i is what it was. Arrays may have any
shape, as long as it is the same; a variance may be one number for all rows.
"""

import math
from dataclasses import asdict, dataclass
from statistics import NormalDist

import numpy as np
import numpy.typing as npt

from stalegrad._internal.errors import ArgumentError
from stalegrad._internal.types import Array
from stalegrad._internal.validation import finite_array, real_number

_FLOAT64 = np.dtype(np.float64)

DEFAULT_LEVEL = 0.9


def rmse(mean: npt.ArrayLike, y: npt.ArrayLike) -> float:
    """√((1/n) Σ_i (m_i − y_i)²).

    >>> rmse([1.0, 2.0], [1.0, 4.0])
    1.4142135623730951
    """
    m, _, values = _checked(mean, 1.0, y)
    return _rmse(m, values)


def mean_log_density(mean: npt.ArrayLike, variance: npt.ArrayLike, y: npt.ArrayLike) -> float:
    """(1/n) Σ_i log N(y_i; m_i, v_i).

    >>> mean_log_density([0.0], [1.0], [0.0])  # −½ log 2π
    -0.9189385332046727
    """
    return _mean_log_density(*_checked(mean, variance, y))


def interval_coverage(
    mean: npt.ArrayLike, variance: npt.ArrayLike, y: npt.ArrayLike, level: float = DEFAULT_LEVEL
) -> float:
    """The share of the y_i within the central intervals m_i ± z √v_i that should hold them with probability ``level``.

    >>> interval_coverage([0.0, 0.0, 0.0, 0.0], 1.0, [-1.7, -1.6, 0.0, 1.6])  # 90 % is ± 1.645
    0.75
    """
    return _coverage(*_checked(mean, variance, y), half_width(level))


def interval_score(
    mean: npt.ArrayLike, variance: npt.ArrayLike, y: npt.ArrayLike, level: float = DEFAULT_LEVEL
) -> float:
    """Mean width of those intervals, plus 2/(1 − level) times how far each y_i is outside (Gneiting and Raftery, 2007).

    In the units of y; small is good. It rewards narrow intervals and is best for those that are right.

    >>> round(interval_score([0.0], [1.0], [0.0]), 3), round(interval_score([0.0], [1.0], [2.0]), 3)
    (3.29, 10.393)
    """
    m, v, values = _checked(mean, variance, y)
    half = half_width(level) * np.sqrt(v)
    outside = np.maximum(np.abs(values - m) - half, 0.0)
    return float((2 * half + 2 / (1 - level) * outside).mean())


def crps(mean: npt.ArrayLike, variance: npt.ArrayLike, y: npt.ArrayLike) -> float:
    """(1/n) Σ_i ∫ (F_i(t) − [t ≥ y_i])² dt, the continuous ranked probability score, in the units of y; small is good.

    With s = √v and z = (y − m)/s it is s (z (2Φ(z) − 1) + 2φ(z) − 1/√π) (Gneiting and Raftery, 2007). Of a certain
    prediction it is the absolute error. It grows no faster than that, so a few rows that are far off do not decide it.

    >>> crps([0.0], [1e-12], [3.0])
    3.0
    """
    return _crps(*_checked(mean, variance, y))


@dataclass(frozen=True)
class NormalScores:
    """The four scores of one set of normal predictions."""

    rmse: float
    mean_log_density: float
    interval_coverage: float
    crps: float

    def as_dict(self) -> dict[str, float]:
        """Name and value of each."""
        return asdict(self)


def score_normal(
    mean: npt.ArrayLike, variance: npt.ArrayLike, y: npt.ArrayLike, level: float = DEFAULT_LEVEL
) -> NormalScores:
    """All four at once.

    >>> score_normal([0.0, 1.0], [1.0, 1.0], [0.0, 1.0]).rmse
    0.0
    """
    m, v, values = _checked(mean, variance, y)
    coverage = _coverage(m, v, values, half_width(level))
    return NormalScores(_rmse(m, values), _mean_log_density(m, v, values), coverage, _crps(m, v, values))


def half_width(level: float) -> float:
    """z with P(|N(0, 1)| < z) = level."""
    share = real_number("level", level, above=0)
    if share >= 1:
        raise ArgumentError("level", level, "is not a probability", "Give a number between 0 and 1.")
    return NormalDist().inv_cdf((1 + share) / 2)


def _rmse(m: Array, y: Array) -> float:
    return float(np.sqrt(np.square(m - y).mean()))


def _mean_log_density(m: Array, v: Array, y: Array) -> float:
    return float(-0.5 * (np.log(2 * np.pi * v) + np.square(y - m) / v).mean())


def _coverage(m: Array, v: Array, y: Array, width: float) -> float:
    return float((np.abs(y - m) <= width * np.sqrt(v)).mean())


def _crps(m: Array, v: Array, y: Array) -> float:
    s = np.sqrt(v)
    z = np.abs(y - m) / s
    mass = np.reshape([math.erf(each) for each in np.ravel(z) / math.sqrt(2)], z.shape)  # 2Φ(z) − 1
    density = np.exp(-np.square(z) / 2) / math.sqrt(2 * math.pi)
    return float((s * (z * mass + 2 * density - 1 / math.sqrt(math.pi))).mean())


def _checked(mean: npt.ArrayLike, variance: npt.ArrayLike, y: npt.ArrayLike) -> tuple[Array, Array, Array]:
    m, v = checked_normal(mean, variance)
    values = finite_array("y", y, _FLOAT64)
    if values.shape != m.shape:
        raise ArgumentError("y", y, f"has shape {values.shape}, the means have {m.shape}", "Give one number a mean.")
    if v.min() <= 0:
        raise ArgumentError("variance", variance, "is 0 somewhere", "A density needs variances > 0: add the noise's.")
    return m, v, values


def checked_normal(mean: npt.ArrayLike, variance: npt.ArrayLike) -> tuple[Array, Array]:
    """Means and variances ≥ 0 in float64, both in the shape of the means."""
    m, v = finite_array("mean", mean, _FLOAT64), finite_array("variance", variance, _FLOAT64)
    if m.size == 0 or m.ndim == 0:
        raise ArgumentError("mean", mean, f"has shape {m.shape}", "Give an array with one number a row.")
    if v.shape not in ((), m.shape):
        remedy = f"Give one number, or an array of shape {m.shape}."
        raise ArgumentError("variance", variance, f"has shape {v.shape}, the means have {m.shape}", remedy)
    if v.min() < 0:
        raise ArgumentError("variance", variance, "is negative somewhere", "Give variances, which are ≥ 0.")
    return m, np.broadcast_to(v, m.shape)
