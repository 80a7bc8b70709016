"""A posterior average with its standard error, as one thing to print, compare and compute with."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from stalegrad._internal.errors import ArgumentError
from stalegrad._internal.look.card import Card
from stalegrad._internal.types import Array
from stalegrad.analysis.estimates.draws import Draws, weighted_draws
from stalegrad.analysis.estimates.monte_carlo_error import error_of_average

_SHOWN = 20  # entries of an estimate, in notebooks


@dataclass(frozen=True, eq=False, repr=False)
class Estimate:
    """φ̂ ± its Monte-Carlo standard error. Works as a number, or as an array, wherever NumPy takes one.

    Args:
        value: φ̂.
        standard_error: of φ̂: what more draws would make smaller. It does not contain the bias of a finite step.
        chains: φ̂_s of every chain, (chain, …).
        weights: T_s/T of every chain.

    >>> Estimate(np.float64(0.32414), np.float64(0.00031), np.array([0.32414]), np.ones(1))
    0.3241 ± 0.0003
    """

    value: Array
    standard_error: Array
    chains: Array
    weights: Array

    def __float__(self) -> float:
        if np.size(self.value) != 1:
            shape = np.shape(self.value)
            raise ArgumentError("estimate", self, f"holds an array of shape {shape}", "Use its .value instead.")
        return float(np.asarray(self.value).reshape(()))

    def __array__(self, dtype: npt.DTypeLike | None = None, copy: bool | None = None) -> npt.NDArray[Any]:
        return np.array(self.value, dtype=dtype, copy=copy)

    def _repr_html_(self) -> str:
        """What notebooks show: φ̂ with its standard error, and by how much the chains differ."""
        values, errors = np.ravel(self.value), np.ravel(self.standard_error)
        chains = (
            np.reshape(self.chains, (len(self.weights), -1)) if np.size(self.chains) else np.empty((0, values.size))
        )
        own = len(self.weights) if 1 < len(self.weights) <= 8 and chains.shape[1:] == (values.size,) else 0
        rows = [
            (str(k), plus_minus(float(v), float(e)), *(f"{x:.5g}" for x in chains[:own, k]))
            for k, (v, e) in enumerate(zip(values[:_SHOWN], errors[:_SHOWN], strict=True))
        ]
        more = f"{values.size - _SHOWN:,} more entries are not shown." if values.size > _SHOWN else ""
        headings = ("entry", "φ̂ ± Monte Carlo error", *(f"chain {s}" for s in range(own)))
        shape = "" if np.ndim(self.value) == 0 else f"of shape {np.shape(self.value)}"
        return Card("Estimate", shape, headings=headings, rows=rows, notes=[("soft", more)]).html()

    def __repr__(self) -> str:
        values, errors = np.ravel(self.value), np.ravel(self.standard_error)
        shown = [plus_minus(v, e) for v, e in zip(values[:6].tolist(), errors[:6].tolist(), strict=True)]
        if np.ndim(self.value) == 0:
            return shown[0]
        more = ", …" if values.size > len(shown) else ""
        return f"Estimate of shape {np.shape(self.value)}: [{', '.join(shown)}{more}]"


def estimate(values: Draws, *, step_sizes: npt.ArrayLike | Sequence[npt.ArrayLike] | None = None) -> Estimate:
    """φ̂ = Σ_s (T_s/T) φ̂_s from the values of φ along one or several chains, with its standard error.

    The arguments are those of :func:`~stalegrad.analysis.estimates.monte_carlo_error.mcse`.

    >>> draws = np.random.Generator(np.random.Philox(2)).normal(5.0, 1.0, size=(4, 2500))
    >>> result = estimate(draws, step_sizes=0.1)
    >>> result
    4.99 ± 0.01
    >>> bool(abs(float(result) - 5.0) < 4 * result.standard_error)
    True
    """
    draws = weighted_draws(values, step_sizes)
    return Estimate(draws.average, error_of_average(draws), draws.averages, draws.shares)


def plus_minus(value: float, error: float, digits: int = 1) -> str:
    """``value`` to the last digit that ``error``, shown with so many digits, lets one know.

    >>> plus_minus(0.32414, 0.00031), plus_minus(12345.6, 210.0), plus_minus(3.21e-7, 1e-9), plus_minus(2.5, 0.0)
    ('0.3241 ± 0.0003', '12300 ± 200', '(3.21 ± 0.01)e-07', '2.5 ± 0')
    >>> plus_minus(0.32414, 0.00031, digits=2), plus_minus(12345.6, 210.0, digits=2), plus_minus(-0.04, 1.0, digits=2)
    ('0.32414 ± 0.00031', '12350 ± 210', '-0.0 ± 1.0')
    >>> plus_minus(2.5, np.nan)  # of a chain that has not arrived
    '2.5 ± ?'
    """
    if np.isnan(error):
        return f"{value:.6g} ± ?"
    if not (np.isfinite(value) and np.isfinite(error)) or error <= 0:
        return f"{value:.6g} ± {error:.1g}"
    rounded = float(f"{error:.{digits - 1}e}")
    decimals = digits - 1 - int(np.floor(np.log10(rounded)))
    largest = max(abs(value), rounded)
    if 1e-4 <= largest < 1e6:
        return f"{round(value, decimals):.{max(decimals, 0)}f} ± {rounded:.{max(decimals, 0)}f}"
    exponent = int(np.floor(np.log10(largest)))
    digits = max(decimals + exponent, 0)
    scale = 10.0**-exponent
    return f"({value * scale:.{digits}f} ± {rounded * scale:.{digits}f})e{exponent:+03d}"
