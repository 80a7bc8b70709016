"""Where a chain on a unimodal posterior starts, in which coordinates it runs, and with which step size.

In the coordinates z of :class:`~stalegrad.potentials.wrappers.whitened.Whitened` the curvature at the mode is 1 in
every direction. Where the posterior is close to normal, a good step size depends on minibatches and staleness alone.
"""

from math import sqrt
from typing import NamedTuple

import numpy as np

from stalegrad._internal.types import Array
from stalegrad.kernels import SGHMC
from stalegrad.potentials import Linear, Logistic, Potential, Softmax
from stalegrad.potentials.wrappers.whitened import Whitened

Model = Linear | Logistic | Softmax

MOST_WHITENED = 1000
"""Parameters up to which coordinates are whitened: every gradient is multiplied with a matrix of that size squared."""

EXCESS = 0.1
"""By which share the variance of the chain may exceed the posterior's."""

_DIFFERENCE = 1e-4  # of θ, in differences of gradients: features are standardised, and float64 leaves eight digits


class Tuned(NamedTuple):
    """A potential to sample, from where, and with what."""

    potential: Potential
    initial: Array
    kernel: SGHMC


def tuned(potential: Potential, centre: Array, least_curvature: float, staleness: int) -> Tuned:
    """Coordinates and sampler for a posterior with its mode at ``centre``.

    Args:
        potential: U, in float64.
        centre: θ*.
        least_curvature: of U in any direction, that of the prior.
        staleness: τ that the chain must bear.
    """
    origin = np.zeros(potential.size)
    target, start, least, visited = potential, centre, least_curvature, [centre, origin]
    if potential.size <= MOST_WHITENED:
        curvature = hessian(potential, centre)
        spare = 1e-9 * np.trace(curvature) / potential.size  # for directions about which differences say nothing
        factor = np.linalg.cholesky(curvature + spare * np.eye(potential.size))
        # Where data can be told apart without error, a vague prior leaves a posterior that is far from normal: flat at
        # its mode and steep where it still has weight. So the step follows the curvature of points that chains visit.
        points = np.random.Generator(np.random.Philox(key=1)).normal(size=(8, potential.size))
        target, start, least, visited = Whitened(potential, centre, factor), origin, 1.0, [origin, *points]
    largest = max(least, *(_largest_curvature(target, point) for point in visited))
    ratio = potential.n_data / potential.batch_size
    return Tuned(target, start, stable_sghmc(least, largest, ratio, staleness))


def stable_sghmc(least: float, largest: float, data_per_batch: float, staleness: int) -> SGHMC:
    """SGHMC whose variance is right to a tenth in every direction of curvature between ``least`` and ``largest``.

    Near the mode the gradient of one datum varies as its curvature says, so that the gradient on J of N data has
    variance v = (N/J − 1)λ along a direction of curvature λ. The oracle of :mod:`stalegrad.theory.gaussian` says what
    follows for the chain: its variance is (1 + hλs/B)/λ with s = (N/J − 1)/2 + τ, to first order in h. Hence

        B = max(2√λ_least, hλ_largest s / 0.1),    h = min(0.4/√λ_largest, √(0.1/(λ_largest s))).

    The first friction is the one at which the slowest direction is fastest, the second step keeps Bh ≤ 1.

    Args:
        least: λ_least.
        largest: λ_largest.
        data_per_batch: N/J.
        staleness: τ.

    >>> kernel = stable_sghmc(1.0, 1.0, 1.0, 0)
    >>> kernel.step_size, kernel.friction
    (0.4, 2.0)
    """
    load = largest * ((data_per_batch - 1) / 2 + staleness)
    h = min(0.4 / sqrt(largest), sqrt(EXCESS / load) if load else np.inf)
    return SGHMC(step_size=h, friction=max(2 * sqrt(least), h * load / EXCESS), integrator="splitting")


def hessian(potential: Potential, theta: Array) -> Array:
    """∇²U(θ) on all data, by central differences of the gradient."""
    steps = _DIFFERENCE * np.eye(potential.size)
    columns = np.stack([_along(potential, theta, step) for step in steps]) / _DIFFERENCE
    symmetric: Array = (columns + columns.T) / 2
    return symmetric


def _largest_curvature(potential: Potential, theta: Array) -> float:
    """The largest eigenvalue of ∇²U(θ), by power iteration: a bit too small rather than too large."""
    direction = np.random.Generator(np.random.Philox(key=2)).normal(size=potential.size)
    for _ in range(20):
        direction *= _DIFFERENCE / np.linalg.norm(direction)
        direction = _along(potential, theta, direction)
    return float(np.linalg.norm(direction)) / _DIFFERENCE


def _along(potential: Potential, theta: Array, step: Array) -> Array:
    """∇²U(θ) · step."""
    return (potential.full_gradient(theta + step) - potential.full_gradient(theta - step)) / 2
