"""A potential from any function that computes a minibatch gradient."""

from collections.abc import Callable
from typing import Any

import numpy as np

from stalegrad._internal import validation as checks
from stalegrad._internal.errors import ArgumentError, GradientError
from stalegrad._internal.types import Array, IntArray
from stalegrad.potentials.base import Potential
from stalegrad.potentials.minibatches.scheme import Minibatches

GradientFunction = Callable[[Array, IntArray], Any]
"""From θ (n,) and the indices (J,) of a minibatch to g̃(θ), n real numbers."""


def from_gradient(
    gradient: GradientFunction,
    size: int,
    n_data: int,
    batch_size: int | None = None,
    scheme: str = "subset",
    dtype: Any = np.float32,
    initial: Any = None,
) -> Potential:
    """The potential whose minibatch gradient g̃(θ) = −∇log p(θ) − (N/J) Σ_{i ∈ batch} ∇log p(d_i | θ) is a function.

    Args:
        gradient: called with θ, (n,) of ``dtype``, and int64 indices of data; returns g̃(θ). It must not change θ, and
            must depend on nothing else, or a run cannot be replayed. A GradientError follows if what it returns is
            not n real numbers; whether they are finite is for the server to check. To send the potential to other
            processes, let it be a function that can be pickled, that is, not a lambda.
        size: n, the number of parameters.
        n_data: N, the number of data.
        batch_size: J; None for all data.
        scheme: how minibatches are drawn, see :class:`Minibatches`.
        dtype: of θ and of the gradient, np.float32 or np.float64.
        initial: where a chain starts unless told otherwise, n numbers; None for the origin.

    >>> data = np.array([1.0, 2.0, 3.0, 4.0])
    >>> def gradient(theta, indices):
    ...     return theta + len(data) * (theta - data[indices].mean())
    >>> model = from_gradient(gradient, size=1, n_data=4, batch_size=2, dtype=np.float64)
    >>> model.gradient(np.array([2.0]), np.array([0, 3]))
    array([0.])
    """
    return _FromGradient(gradient, size, n_data, batch_size, scheme, dtype, initial)


class _FromGradient(Potential):
    def __init__(
        self,
        gradient: GradientFunction,
        size: int,
        n_data: int,
        batch_size: int | None,
        scheme: str,
        dtype: Any,
        initial: Any,
    ) -> None:
        if not callable(gradient):
            raise ArgumentError("gradient", gradient, "cannot be called", "Give a function of (theta, indices).")
        dtype = checks.float_dtype("dtype", dtype)
        size = checks.whole_number("size", size, least=1)
        n_data = checks.whole_number("n_data", n_data, least=1)
        super().__init__(size, Minibatches.of(n_data, batch_size, scheme), dtype)
        self._function = gradient
        self._initial = np.zeros(size, dtype) if initial is None else checks.finite_array("initial", initial, dtype)
        if self._initial.shape != (size,):
            raise ArgumentError("initial", initial, f"has shape {self._initial.shape}", f"Give {size} numbers.")

    def gradient(self, theta: Array, indices: IntArray) -> Array:
        given = self._function(theta, indices)
        result = np.asarray(given)
        wanted = f"an array of shape ({self.size},) with real numbers"
        if result.shape != (self.size,):
            raise GradientError(f"the gradient function returned shape {result.shape}; wanted is {wanted}.")
        if result.dtype.kind not in "fiu":
            raise GradientError(
                f"the gradient function returned {type(given).__name__} of dtype {result.dtype}; wanted is {wanted}."
            )
        return result.astype(self.dtype, copy=False)

    def initial(self) -> Array:
        return self._initial.copy()
