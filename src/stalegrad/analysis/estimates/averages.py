"""Weighted averages over the draws of a chain, and over chains."""

import numpy as np
import numpy.typing as npt

from stalegrad._internal.errors import ArgumentError
from stalegrad._internal.types import Array
from stalegrad._internal.validation import finite_array, whole_number

_FLOAT64 = np.dtype(np.float64)


def running_average(values: npt.ArrayLike, weights: npt.ArrayLike | None = None, axis: int = -1) -> Array:
    """φ̂_l = Σ_{j≤l} h_j φ(x_j) / Σ_{j≤l} h_j, for every l along ``axis``.

    Args:
        values: φ(x_l), of any shape.
        weights: h_l > 0, the step sizes: one per entry along ``axis``, or shaped like ``values``. Without them every
            draw counts the same.
        axis: the axis of the draws.

    Returns:
        An array shaped like ``values``, of float64 (float32 draws are summed in float64 too).

    >>> running_average([1.0, 2.0, 6.0])
    array([1. , 1.5, 3. ])
    >>> running_average([1.0, 2.0, 6.0], weights=[2, 1, 1])
    array([1. , 1.33333333, 2.5 ])
    """
    phi = finite_array("values", values, _FLOAT64)
    if phi.ndim == 0:
        raise ArgumentError("values", values, "is one number", "Give an array with the draws along one axis.")
    axis = whole_number("axis", axis, least=-phi.ndim, most=phi.ndim - 1)
    moved = np.moveaxis(phi, axis, -1)
    h = _along_last(weights, moved.shape, phi.shape, axis)
    return np.moveaxis(np.cumsum(moved * h, axis=-1) / np.cumsum(h, axis=-1), -1, axis)


def combine_chains(per_chain: npt.ArrayLike, times: npt.ArrayLike) -> Array:
    """φ̂ = Σ_s (T_s/T) φ̂_s, the estimate of S independent chains.

    Args:
        per_chain: φ̂_s, with the chains along the first axis.
        times: T_s = L_s h_s (or Σ_l h_l, where the step size varies), one per chain, not negative and not all 0.

    >>> float(combine_chains([1.0, 2.0], times=[3.0, 1.0]))
    1.25
    """
    estimates = finite_array("per_chain", per_chain, _FLOAT64)
    if estimates.ndim == 0:
        raise ArgumentError("per_chain", per_chain, "is one number", "Give the chains along the first axis.")
    return np.asarray(np.tensordot(shares(times, estimates.shape[0]), estimates, axes=1))


def shares(times: npt.ArrayLike, chains: int) -> Array:
    """T_s/T, for so many chains."""
    t = finite_array("times", times, _FLOAT64, ndim=1)
    if t.size != chains or t.size == 0:
        raise ArgumentError("times", times, f"has {t.size} entries for {chains} chains", "Give one T_s per chain.")
    if np.any(t < 0) or t.max() <= 0:
        raise ArgumentError("times", times, "is negative somewhere, or 0 everywhere", "Give T_s = L_s h_s > 0.")
    fraction: Array = t / t.max()  # first, so that the sum cannot overflow
    return np.asarray(fraction / fraction.sum())


def _along_last(weights: npt.ArrayLike | None, moved: tuple[int, ...], original: tuple[int, ...], axis: int) -> Array:
    if weights is None:
        return np.ones(moved[-1])
    h = finite_array("weights", weights, _FLOAT64)
    if h.ndim > 1 and h.shape == original:
        h = np.moveaxis(h, axis, -1)
    elif h.shape != moved[-1:]:
        problem = f"has shape {h.shape} where values has {original} with the draws along axis {axis}"
        raise ArgumentError("weights", weights, problem, f"Give {moved[-1]} weights, or an array of shape {original}.")
    if np.any(h <= 0):
        raise ArgumentError("weights", weights, "has entries ≤ 0", "Step sizes are positive; leave out other draws.")
    return h
