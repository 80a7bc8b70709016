"""Diagonal metrics for Riemannian samplers: how far each coordinate moves in a step, depending on θ.

A metric is given by G(θ), the diagonal of the inverse of its matrix, and by the divergence Γ_i(θ) = ∂G_i/∂θ_i, which
the drift of Langevin dynamics needs where G changes with θ. Both act on arrays whose last axis counts the coordinates
and treat every row by itself.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from stalegrad._internal.errors import ArgumentError
from stalegrad._internal.types import Array

_MOST_COORDINATES = 32  # so many, evenly chosen, are differentiated numerically


class Metric(Protocol):
    """What :class:`stalegrad.SGRLD` asks of a metric.

    >>> class Square:  # G = 1 + θ², Γ = 2θ
    ...     positive = False
    ...     def inverse(self, theta):
    ...         return 1 + theta**2
    ...     def divergence(self, theta):
    ...         return 2 * theta
    >>> check_metric(Square(), np.array([[0.0, 2.0]]))
    >>> inverse_at(Square(), np.array([0.0, 2.0]))
    array([1., 5.])
    """

    @property
    def positive(self) -> bool:
        """Whether coordinates live on (0, ∞), where the sampler reflects them."""
        ...

    def inverse(self, theta: Any) -> Any:
        """G(θ) > 0, of the shape of θ or a number."""
        ...

    def divergence(self, theta: Any) -> Any:
        """Γ(θ), of the shape of θ or a number."""
        ...


@dataclass(frozen=True)
class Diagonal:
    """A metric of your own.

    Args:
        inverse: G, a function from θ (…, n) to positive numbers of that shape. Row by row, with nothing else to depend
            on, or a run cannot be replayed. To be sent to other processes it must be a function that can be pickled.
        divergence: Γ, the same for Γ_i = ∂G_i/∂θ_i. A sampler compares it with differences of G when a chain starts.
        positive: coordinates live on (0, ∞): a step that leaves it is reflected.

    >>> metric = Diagonal(inverse=lambda theta: 1 + theta**2, divergence=lambda theta: 2 * theta)
    >>> metric.inverse(np.array([0.0, 3.0]))
    array([ 1., 10.])
    """

    inverse: Callable[[Any], Any]
    divergence: Callable[[Any], Any]
    positive: bool = False

    def __post_init__(self) -> None:
        for name in ("inverse", "divergence"):
            if not callable(getattr(self, name)):
                raise ArgumentError(name, getattr(self, name), "cannot be called", "Give a function of θ.")


@dataclass(frozen=True)
class ExpandedMean:
    """G = θ and Γ = 1 on positive θ: the expanded mean of Patterson and Teh (NeurIPS 2013).

    With the prior θ_k ~ Gamma(α_k, 1) the weights π = θ/Σθ have the law Dirichlet(α), and a posterior of θ gives one of
    π, whose coordinates may be as near to 0 as they like: steps shrink with θ.

    >>> ExpandedMean().inverse(np.array([0.1, 2.0]))
    array([0.1, 2. ])
    """

    @property
    def positive(self) -> bool:
        """True: θ are unnormalised weights, reflected at 0."""
        return True

    def inverse(self, theta: Any) -> Any:
        """G(θ) = θ, the array itself and not a copy."""
        return theta

    def divergence(self, theta: Any) -> Any:
        """Γ = ∂θ_i/∂θ_i = 1, a number for all coordinates."""
        return 1.0


def inverse_at(metric: Metric, theta: Array) -> Array:
    """G(θ) as an array like θ.

    Raises:
        ArgumentError: it is not positive there.

    >>> inverse_at(ExpandedMean(), np.array([0.5, 2.0]))
    array([0.5, 2. ])
    """
    inverse = _like(theta, "metric.inverse", metric.inverse(theta))
    bad = ~(inverse > 0)  # NaN is bad as well
    if bad.any():
        place = tuple(int(i) for i in np.argwhere(bad)[0])
        problem = f"gives {inverse[place]:.4g} where θ is {theta[place]:.4g} (coordinate {place[-1]})"
        remedy = "G must be positive wherever the chain comes"
        remedy += ": start it at positive θ with initial=." if metric.positive else "; on (0, ∞) set positive=True."
        raise ArgumentError("metric", metric, problem, remedy)
    return inverse


def divergence_at(metric: Metric, theta: Array) -> Array:
    """Γ(θ) as an array like θ.

    >>> divergence_at(ExpandedMean(), np.array([0.5, 2.0]))
    array([1., 1.])
    """
    return _like(theta, "metric.divergence", metric.divergence(theta))


def check_metric(metric: Any, theta: Array) -> None:
    """Refuse a metric that is not positive at the first row of ``theta``, or whose divergence is not its derivative.

    The derivatives of some coordinates are compared with central differences in double precision.

    >>> check_metric(ExpandedMean(), np.array([[0.5, 2.0]]))
    """
    for name in ("inverse", "divergence"):
        if not callable(getattr(metric, name, None)):
            remedy = "Give sg.metrics.ExpandedMean(), or sg.metrics.Diagonal(inverse=…, divergence=…)."
            raise ArgumentError("metric", metric, f"has no function {name}", remedy)
    inverse_at(metric, theta)
    point = theta[0].astype(np.float64)
    chosen = np.arange(0, point.size, -(-point.size // _MOST_COORDINATES))
    scale = np.maximum(np.abs(point[chosen]), 1e-3)
    moved = np.repeat(point[None], 2 * chosen.size, axis=0)
    rows = np.arange(chosen.size)
    moved[rows, chosen] += 6e-6 * scale
    moved[chosen.size + rows, chosen] -= 6e-6 * scale
    values = inverse_at(metric, moved)
    above, below = values[rows, chosen], values[chosen.size + rows, chosen]
    numeric = (above - below) / (12e-6 * scale)
    given = divergence_at(metric, point[None])[0, chosen]
    wrong = ~(np.abs(given - numeric) <= 1e-4 * np.abs(numeric) + 1e-6 * np.abs(above) / scale)
    if wrong.any():
        k = int(np.argmax(wrong))
        problem = (
            f"has the divergence {given[k]:.6g} at coordinate {chosen[k]}, θ = {point[chosen[k]]:.6g}, "
            f"where ∂G/∂θ is {numeric[k]:.6g}"
        )
        raise ArgumentError("metric", metric, problem, "Give the derivative of G_i with respect to θ_i.")


def _like(theta: Array, name: str, value: Any) -> Array:
    array = np.asarray(value, theta.dtype)
    if array.shape not in ((), theta.shape):
        problem = f"has shape {array.shape} for θ of shape {theta.shape}"
        raise ArgumentError(name, value, problem, "Return an array of the shape of θ, or one number.")
    return np.array(np.broadcast_to(array, theta.shape), order="C")  # a copy: G may be θ itself, which is overwritten
