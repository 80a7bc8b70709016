"""Fresh gradients at some of a run's draws, two a draw: their difference is noise, their mean is the force."""

from typing import Any, NamedTuple

import numpy as np

from stalegrad._internal.types import Array, IntArray
from stalegrad.potentials import Potential

_MOST_BYTES = 1 << 28  # of gradients that are kept at a time
_MOST_CENTRE = 256  # draws of a chain that its centre is the mean of


class Probes(NamedTuple):
    """What was seen at m draws of each of some chains."""

    chains: IntArray
    """Which chains."""
    deviations: Array
    """θ minus the mean of its chain, (chain, m, n)."""
    first: Array
    """g̃(θ) on one minibatch, (chain, m, n)."""
    second: Array
    """g̃(θ) on another."""

    @property
    def differences(self) -> Array:
        """(first − second)/√2, whose covariance is that of g̃: (probe, n)."""
        flat = (self.first - self.second).reshape(-1, self.first.shape[-1])
        return np.asarray(flat / np.sqrt(2), np.float64)

    @property
    def mean_squares(self) -> Array:
        """The mean of g̃² of each coordinate, (n,)."""
        squares = [np.square(g, dtype=np.float64).mean(axis=(0, 1)) for g in (self.first, self.second)]
        return np.asarray(np.mean(squares, axis=0))

    def steep(self, scale: Array | float = 1.0) -> Array:
        """A vector with large components along stiff directions: the difference of gradients at two distant draws."""
        mean = ((self.first + self.second) / 2).reshape(-1, self.first.shape[-1])
        return np.asarray(scale * (mean[-1].astype(np.float64) - mean[0]))


def probe(potential: Potential, draws: Any, points: int, seed: int = 0) -> Probes:
    """Two minibatch gradients at each of about ``points`` draws, evenly spread over chains and time.

    Args:
        potential: the model.
        draws: (chain, draw, n).
        points: how many draws to look at; fewer where their gradients would fill a quarter of a gigabyte.
        seed: of the minibatches, which no worker of a run has.

    >>> import numpy as np, stalegrad as sg
    >>> model = sg.testing.small_logistic()
    >>> probes = probe(model, np.zeros((1, 10, model.size), np.float32), points=4)
    >>> type(probes).__name__
    'Probes'
    """
    chains, length, size = draws.shape
    affordable = _MOST_BYTES // (3 * size * potential.dtype.itemsize)
    points = max(2, min(points, affordable))
    looked_at = np.unique(np.linspace(0, chains - 1, min(chains, max(1, points // 2))).round().astype(int))
    each = max(2, points // len(looked_at))
    at = np.unique(np.linspace(0, length - 1, each + 1)[1:].round().astype(int))
    shape = (len(looked_at), len(at), size)
    deviations, first, second = (np.empty(shape, potential.dtype) for _ in range(3))
    for row, s in enumerate(looked_at):
        centre = np.asarray(draws[s, :: -(-length // _MOST_CENTRE)]).mean(axis=0, dtype=np.float64)
        for column, index in enumerate(at):
            theta = np.ascontiguousarray(draws[s, index], potential.dtype)
            deviations[row, column] = theta - centre
            count = 2 * (row * len(at) + column)
            first[row, column] = potential.gradient(theta, potential.minibatches.draw_outside_run(seed, count))
            second[row, column] = potential.gradient(theta, potential.minibatches.draw_outside_run(seed, count + 1))
    return Probes(looked_at, deviations, first, second)
