"""Bias, mean squared error and variance of an estimator over independent repetitions, each with its own error."""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from stalegrad._internal.errors import ArgumentError
from stalegrad._internal.types import Array
from stalegrad._internal.validation import finite_array

_FLOAT64 = np.dtype(np.float64)


class Precision(NamedTuple):
    """What R repetitions say about an estimator. Every field but the last has the shape of one estimate."""

    bias: Array
    """mean(φ̂) − φ̄, with its sign."""
    mse: Array
    """mean((φ̂ − φ̄)²)."""
    variance: Array
    """Σ (φ̂ − mean(φ̂))² / (R − 1)."""
    bias_error: Array
    """Standard error of ``bias``."""
    mse_error: Array
    """Standard error of ``mse``."""
    variance_error: Array
    """Standard error of ``variance``."""
    repetitions: int
    """R."""


def precision(estimates: npt.ArrayLike, truth: npt.ArrayLike) -> Precision:
    """Estimate E φ̂ − φ̄, E(φ̂ − φ̄)² and E(φ̂ − E φ̂)² from R independent repetitions, with standard errors.

    The errors are s/√R for the bias, the same of the squares (φ̂ − φ̄)² for the MSE, and the jackknife for the variance,
    which with d_r = φ̂_r − mean(φ̂) and m_k = mean(d^k) has the closed form

        √( R² (m₄ − m₂²) / ((R − 1)(R − 2)²) ).

    For normal estimates that is about √(2/R) of the variance: 45 % at R = 10, 14 % at R = 100.

    Args:
        estimates: φ̂_r with the repetitions along the first axis, (R, …), for instance (R, L) for running averages.
        truth: φ̄, a number or an array that broadcasts against one estimate.

    >>> result = precision([1.0, 2.0, 3.0, 6.0], truth=2.5)
    >>> float(result.bias), float(result.variance), float(result.mse)
    (0.5, 4.666667, 3.75)
    """
    array = finite_array("estimates", estimates, _FLOAT64)
    repetitions = array.shape[0] if array.ndim else 0
    if repetitions < 3:
        problem = f"has {repetitions} repetitions along its first axis"
        raise ArgumentError("estimates", estimates, problem, "Errors need 3 repetitions, and honest ones 20 or more.")
    target = finite_array("truth", truth, _FLOAT64)
    if target.ndim > array.ndim - 1 or not _fits(target.shape, array.shape[1:]):
        problem = f"has shape {target.shape} where one estimate has {array.shape[1:]}"
        raise ArgumentError("truth", truth, problem, "Give one number, or one per entry of an estimate.")
    error = array - target
    bias = error.mean(0)
    deviation = error - bias
    second, fourth = (deviation**2).mean(0), (deviation**4).mean(0)
    spread = np.maximum(fourth - second**2, 0)  # rounding may make it negative
    variance = second * repetitions / (repetitions - 1)
    return Precision(
        bias=bias,
        mse=(error**2).mean(0),
        variance=variance,
        bias_error=np.sqrt(variance / repetitions),
        mse_error=(error**2).std(0, ddof=1) / np.sqrt(repetitions),
        variance_error=repetitions * np.sqrt(spread / (repetitions - 1)) / (repetitions - 2),
        repetitions=repetitions,
    )


def _fits(shape: tuple[int, ...], into: tuple[int, ...]) -> bool:
    try:
        return np.broadcast_shapes(shape, into) == into
    except ValueError:
        return False
