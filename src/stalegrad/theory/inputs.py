"""Arguments that may be a number or an array: checked entry by entry, and against each other's shapes."""

import numpy as np
import numpy.typing as npt

from stalegrad._internal.errors import ArgumentError
from stalegrad._internal.types import Array
from stalegrad._internal.validation import finite_array

_FLOAT64 = np.dtype(np.float64)


def positive(name: str, value: npt.ArrayLike) -> Array:
    """``value`` as float64, every entry > 0."""
    array = finite_array(name, value, _FLOAT64)
    if not np.all(array > 0):
        raise ArgumentError(name, value, f"its least entry is {array.min():g}", "Every entry must be > 0.")
    return array


def nonnegative(name: str, value: npt.ArrayLike) -> Array:
    """``value`` as float64, every entry ≥ 0."""
    array = finite_array(name, value, _FLOAT64)
    if not np.all(array >= 0):
        raise ArgumentError(name, value, f"its least entry is {array.min():g}", "Every entry must be ≥ 0.")
    return array


def per_chain(name: str, value: npt.ArrayLike) -> Array:
    """``value`` as float64 with the chains along its last axis, every entry > 0."""
    array = positive(name, value)
    if array.ndim == 0 or array.shape[-1] == 0:
        problem = "has no axis of chains" if array.ndim == 0 else f"has shape {array.shape}: no chains"
        raise ArgumentError(name, value, problem, "Give one entry per chain along the last axis, for instance a list.")
    return array


def same_shape(**arrays: Array) -> None:
    """Refuse arrays that cannot be broadcast against each other."""
    try:
        np.broadcast_shapes(*(array.shape for array in arrays.values()))
    except ValueError:
        shapes = tuple(array.shape for array in arrays.values())
        remedy = "Give numbers, or arrays whose shapes broadcast."
        raise ArgumentError(", ".join(arrays), shapes, "these shapes do not fit each other", remedy) from None
