"""A potential whose gradients come multiplied by a metric."""

import numpy as np

from stalegrad._internal.types import Array, IntArray
from stalegrad.kernels.metrics import Metric, inverse_at
from stalegrad.potentials.base import Potential
from stalegrad.potentials.wrappers.base import Wrapper
from stalegrad.potentials.wrappers.control_variates import refuse_addressed


def natural(potential: Potential, metric: Metric) -> "NaturalPotential":
    """The potential with G(θ) g̃(θ) for a gradient, both at the point where a worker computes it.

    It goes with ``SGRLD(metric=metric, natural=True)``: however old the gradient is when it reaches the server, G and
    g̃ belong together. With the expanded mean G = θ takes away the 1/θ of a Gamma prior, so that it stays bounded.

    It is for sampling with that kernel; others are refused. What needs gradients of U itself, such as Stein
    discrepancies, needs the potential that you had before.

    Args:
        potential: U.
        metric: from :mod:`stalegrad.kernels.metrics`; of the same kind as the sampler's.

    >>> from stalegrad.kernels.metrics import ExpandedMean
    >>> from stalegrad.potentials.frontends.function import from_gradient
    >>> gamma = from_gradient(lambda theta, indices: 1 - 4 / theta, size=1, n_data=1, initial=[1.0])
    >>> natural(gamma, ExpandedMean()).full_gradient([0.5])
    array([-3.5], dtype=float32)
    """
    refuse_addressed(potential)
    return NaturalPotential(potential, metric)


class NaturalPotential(Wrapper):
    """See :func:`natural`, which makes it."""

    def __init__(self, potential: Potential, metric: Metric) -> None:
        super().__init__(potential)
        self.fork_safe = False  # the metric is the user's function
        self._metric = metric

    def gradient(self, theta: Array, indices: IntArray) -> Array:
        """G(θ) g̃(θ), with the metric G at the same point."""
        return self._times_inverse(theta, self.potential.gradient(theta, indices))

    def gradients(self, theta: Array, indices: IntArray, out: Array) -> None:
        """G(θ) g̃(θ) of every row."""
        self.potential.gradients(theta, indices, out)
        out *= inverse_at(self._metric, theta)

    def full_gradient(self, theta: Array) -> Array:
        """G(θ) ∇U(θ), with the gradient of all data."""
        return self._times_inverse(theta, self.potential.full_gradient(theta))

    def _times_inverse(self, theta: Array, gradient: Array) -> Array:
        return np.asarray(inverse_at(self._metric, np.asarray(theta, self.dtype)[None])[0] * gradient)
