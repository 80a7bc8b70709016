"""Kinetic Langevin motion in a harmonic well, dθ = q dt, dq = −(aθ + Bq) dt + √(2BT) dW: its exact law over time."""

from functools import lru_cache
from math import ceil, log2, sqrt

import numpy as np

from stalegrad._internal.types import Array


@lru_cache(maxsize=256)  # chains of a run take the same steps
def harmonic_coefficients(curvature: float, friction: float, t: float, temperature: float) -> tuple[float, ...]:
    """The seven coefficients of the motion over the time t: four of its mean, three of its noise.

    With M = [[0, 1], [−a, −B]] the mean of (θ, q) is e^{Mt} (θ, q), and the covariance is
    ∫₀ᵗ e^{Ms} diag(0, 2BT) e^{Mᵀs} ds, here by its Cholesky factor: θ gets n₁₁ z, and q gets n₂₁ z + n₂₂ y. The
    integral is a block of the exponential of a matrix of twice the size (Van Loan 1978), which keeps all digits where t
    is small.
    """
    motion = np.array([[0.0, 1.0], [-curvature, -friction]])
    heat = np.diag([0.0, 2 * friction * temperature])
    block = _exponential(t * np.block([[-motion, heat], [np.zeros((2, 2)), motion.T]]))
    mean = block[2:, 2:].T
    covariance = mean @ block[:2, 2:]
    first = sqrt(max(covariance[0, 0], 0.0))
    shared = covariance[0, 1] / first if first else 0.0
    second = sqrt(max(covariance[1, 1] - shared**2, 0.0))
    return (*(float(entry) for entry in mean.ravel()), first, float(shared), second)


def _exponential(matrix: Array) -> Array:
    """e^X by its series, of X/2^k with a norm below ½, squared k times. (SciPy's would be half of our import time.)"""
    norm = float(np.abs(matrix).sum(axis=1).max())
    halvings = max(0, ceil(log2(norm)) + 1) if norm > 0 else 0
    small = matrix / 2**halvings
    term = total = np.eye(len(matrix))
    for k in range(1, 20):  # (½)²⁰/20! is far below what float64 holds
        term = term @ small / k
        total = total + term
    for _ in range(halvings):
        total = total @ total
    return total
