"""How noisy minibatch gradients are, on average and along the direction where it is worst."""

from typing import NamedTuple

import numpy as np

from stalegrad._internal.types import Array
from stalegrad.analysis.diagnostics.probes import Probes


class GradientNoise(NamedTuple):
    """The covariance V of a minibatch gradient, as far as some dozens of gradients show it."""

    mean: float
    """tr V / n, the mean variance of a coordinate."""
    variances: Array
    """The diagonal of V, (n,)."""
    largest: float
    """vᵀVv, where v is the principal direction of one half of the gradients and the variance is that of the other."""
    direction: Array
    """v, of length 1."""
    differences: Array
    """(g̃ − g̃′)/√2 at every probe, (probe, n), whose covariance is V."""

    def along(self, direction: Array) -> float:
        """The variance along a direction of length 1 that was chosen without regard to these gradients."""
        return float(np.square(self.differences @ direction).mean())


def gradient_noise(probes: Probes, scale: Array | float = 1.0) -> GradientNoise:
    """The covariance of the minibatch gradient from pairs of gradients at the same θ, each on a minibatch of its own.

    d = (g̃ − g̃′)/√2 has mean 0 and covariance V, whatever ∇U is. With m of them in n ≫ m dimensions the largest
    eigenvalue of their own covariance is far too large: it has been fitted to them. So the direction comes from one
    half and the variance along it from the other, and once more with the halves exchanged; the mean of the two errs on
    the low side, and not at all when one direction dominates.

    Args:
        probes: from :func:`~stalegrad.analysis.diagnostics.probes.probe`, two of them at least.
        scale: multiplies the gradients, see ``Evidence.scale``.

    >>> import numpy as np, stalegrad as sg
    >>> model = sg.testing.small_logistic()
    >>> probes = sg.diagnostics.probe(model, np.zeros((1, 10, model.size), np.float32), points=4)
    >>> type(gradient_noise(probes)).__name__
    'GradientNoise'
    """
    d = probes.differences * scale
    halves = d[0::2], d[1::2]
    directions = [_principal(half) for half in halves]
    held_out = [np.square(other @ v).mean() for v, other in zip(directions, reversed(halves), strict=True)]
    variances = np.square(d).mean(axis=0)
    best = int(np.argmax(held_out))
    return GradientNoise(float(variances.mean()), variances, float(np.mean(held_out)), directions[best], d)


def _principal(rows: Array) -> Array:
    """The first eigenvector of rowsᵀ rows, from the small matrix of inner products."""
    _, vectors = np.linalg.eigh(rows @ rows.T)
    direction = vectors[:, -1] @ rows
    length = np.linalg.norm(direction)
    if length == 0:
        direction, length = np.ones(rows.shape[1]), np.sqrt(rows.shape[1])
    return np.asarray(direction / length)
