"""Checks of arguments: each returns the value in the type that the code needs, or raises :class:`ArgumentError`."""

import math
import operator
import os
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from stalegrad._internal.errors import ArgumentError
from stalegrad._internal.types import Array


def whole_number(name: str, value: Any, *, least: int = 0, most: int | None = None) -> int:
    """An integer in [least, most]. Booleans and floats, even 3.0, are refused: they are nearly always a mistake."""
    bounds = f"a whole number ≥ {least}" if most is None else f"a whole number from {least} to {most}"
    if isinstance(value, bool | np.bool_):
        raise ArgumentError(name, value, "is a boolean, not a number", f"Give {bounds}.")
    try:
        number = operator.index(value)
    except TypeError:
        raise ArgumentError(name, value, "is not a whole number", f"Give {bounds}.") from None
    if number < least or (most is not None and number > most):
        raise ArgumentError(name, value, "is out of range", f"Give {bounds}.")
    return number


def real_number(name: str, value: Any, *, above: float | None = None, least: float | None = None) -> float:
    """A finite float, > above or ≥ least where given."""
    bounds = "a finite number"
    if above is not None:
        bounds += f" > {above:g}"
    if least is not None:
        bounds += f" ≥ {least:g}"
    if isinstance(value, bool | np.bool_ | str | bytes):
        raise ArgumentError(name, value, f"is a {type(value).__name__}, not a number", f"Give {bounds}.")
    try:
        number = float(value)
    except (TypeError, ValueError, OverflowError):
        raise ArgumentError(name, value, "is not a number", f"Give {bounds}.") from None
    if not math.isfinite(number) or (above is not None and number <= above) or (least is not None and number < least):
        raise ArgumentError(name, value, "is out of range", f"Give {bounds}.")
    return number


def by_worker(name: str, value: Any) -> None:
    """Numbers ≥ 0 by the number of a worker."""
    if not isinstance(value, Mapping):
        raise ArgumentError(name, value, "is not a mapping", "Give a number by worker, such as {3: 0.5}.")
    for worker, number in value.items():
        whole_number(name, worker)
        real_number(name, number, least=0)


def folder_name(name: str, value: Any) -> str:
    """A path as text."""
    if not isinstance(value, str | os.PathLike) or not os.fspath(value):
        raise ArgumentError(name, value, "is not a path", "Give the name of a folder.")
    return str(os.fspath(value))


def one_of(name: str, value: Any, allowed: Sequence[str]) -> str:
    """One of a few words."""
    if not isinstance(value, str) or value not in allowed:
        raise ArgumentError(name, value, "is not known", f"Give one of: {', '.join(map(repr, allowed))}.")
    return value


def float_dtype(name: str, value: Any) -> np.dtype[Any]:
    """float32 or float64."""
    try:
        dtype = np.dtype(value) if value is not None else np.dtype(object)  # NumPy reads None as float64
    except TypeError:
        dtype = np.dtype(object)
    if dtype not in (np.dtype(np.float32), np.dtype(np.float64)):
        raise ArgumentError(name, value, "is not a supported floating type", "Give np.float32 or np.float64.")
    return dtype


def finite_array(name: str, value: Any, dtype: np.dtype[Any], *, ndim: int | None = None) -> Array:
    """A C-contiguous array of ``dtype`` without NaN or infinity."""
    try:
        array = np.asarray(value)
        if array.dtype.kind not in "fiub":
            raise TypeError
    except (TypeError, ValueError):
        problem = f"is not a numeric array (type {type(value).__name__})"
        raise ArgumentError(name, value, problem, "Give an array of real numbers.") from None
    if ndim is not None and array.ndim != ndim:
        problem = f"has shape {array.shape}, that is {array.ndim} dimensions"
        raise ArgumentError(name, value, problem, f"Give an array of {ndim} dimension{'s' * (ndim != 1)}.")
    with np.errstate(over="ignore"):  # what is too large for dtype becomes infinite, and is counted below
        array = np.ascontiguousarray(array, dtype=dtype) if array.ndim else array.astype(dtype)
    bad = int(array.size - np.count_nonzero(np.isfinite(array)))
    if bad:
        problem = f"holds {bad} NaN or infinite value{'s' * (bad != 1)}"
        raise ArgumentError(name, value, problem, f"Clean the data: every entry must be finite in {np.dtype(dtype)}.")
    return array
