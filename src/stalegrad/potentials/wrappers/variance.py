"""What a wrapped model gains in the variance of its gradients, and what it costs."""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from stalegrad._internal.errors import ArgumentError
from stalegrad._internal.types import Array, IntArray
from stalegrad._internal.validation import finite_array, whole_number
from stalegrad.potentials.base import Potential

Estimator = Callable[[int, IntArray], Array]
"""The gradient at point number k on the data ``indices``."""


class VarianceReport(NamedTuple):
    """The trace of the covariance of a minibatch gradient, averaged over some points, without and with a wrapper.

    >>> import stalegrad as sg
    >>> rng = np.random.default_rng(0)
    >>> X = rng.standard_normal((1000, 3))
    >>> model = sg.potentials.Logistic(X, X[:, 0] > 0, batch_size=10, dtype=np.float64)
    >>> report = sg.potentials.control_variates(model, progress=False).variance_report(np.zeros(3))
    >>> report.plain_cost, report.reduced < report.plain, report.factor == report.plain / report.reduced
    (10.0, True, True)
    """

    plain: float
    """tr Cov of the model's own gradient."""
    plain_error: float
    """Its standard error over minibatches."""
    reduced: float
    """tr Cov of the wrapper's gradient, on the same minibatches."""
    reduced_error: float
    """Its standard error."""
    plain_cost: float
    """Gradients of one datum that the model's own takes."""
    reduced_cost: float
    """Gradients of one datum that the wrapper's takes, on average over an epoch."""

    @property
    def factor(self) -> float:
        """How many times smaller the variance is."""
        return self.plain / self.reduced if self.reduced > 0 else float("inf")

    def __str__(self) -> str:
        return (
            f"tr Cov(g) {self.plain:.4g} ± {self.plain_error:.1g} → {self.reduced:.4g} ± {self.reduced_error:.1g} "
            f"(÷ {self.factor:.3g}), for {self.reduced_cost:g} gradients of a datum in place of {self.plain_cost:g}"
        )


def measure_variance(
    potential: Potential, points: Any, reduced: Estimator, cost: float, *, batches: int = 64, seed: int = 0
) -> VarianceReport:
    """Compare two estimators of ∇U on the same minibatches at some points.

    Both have the mean ∇U, so E|g − g′|²/2 over two minibatches is tr Cov(g), whatever ∇U is.

    Args:
        potential: the model, whose own gradient is the one to beat.
        points: (point, n).
        reduced: the other estimator.
        cost: of it, in gradients of one datum.
        batches: pairs of minibatches at each point.
        seed: of the minibatches, which no worker of a run has.
    """
    at = np.atleast_2d(finite_array("points", points, potential.dtype))
    if at.ndim != 2 or at.shape[1] != potential.size:
        raise ArgumentError("points", points, f"has shape {at.shape}", f"Give (point, {potential.size}).")
    pairs = whole_number("batches", batches, least=2)
    halves = np.empty((2, len(at), pairs))
    for k, theta in enumerate(np.ascontiguousarray(at)):
        for pair in range(pairs):
            first, second = (potential.minibatches.draw_outside_run(seed, 2 * (k * pairs + pair) + i) for i in (0, 1))
            own = potential.gradient(theta, first).astype(np.float64) - potential.gradient(theta, second)
            other = reduced(k, first).astype(np.float64) - reduced(k, second)
            halves[:, k, pair] = own @ own / 2, other @ other / 2
    (plain, better), errors = halves.mean(axis=(1, 2)), halves.std(axis=(1, 2), ddof=1) / np.sqrt(halves[0].size)
    return VarianceReport(
        float(plain), float(errors[0]), float(better), float(errors[1]), float(potential.batch_size), float(cost)
    )
