"""What a sampler's own theory says of one direction of a Gaussian posterior: its error there, and how fast it forgets.

Along an eigenvector of the Hessian with curvature λ a sampler that is known is one of the linear recursions of
:mod:`stalegrad.theory`, which the kernel names (:meth:`stalegrad.kernels.Kernel.recursion`).
"""

from functools import lru_cache
from math import inf, log

from stalegrad.kernels import Kernel
from stalegrad.theory import Direction, UnstableRecursion


@lru_cache(maxsize=1024)  # chains of a run are mostly alike
def variance_error(kernel: Kernel, staleness: int | tuple[float, ...], direction: Direction) -> float:
    """By how much the variance along a direction comes out too large, relative to T/λ; infinite if the chain blows up.

    Args:
        kernel: one that has a theory, with a constant step size.
        staleness: τ, or the probabilities of τ = 0, 1, 2, …
        direction: of the posterior.
    """
    try:
        chain = kernel.recursion(float(kernel.schedule(0)), staleness, direction)
        return float(chain.variance * direction.curvature / kernel.temperature - 1)
    except UnstableRecursion:
        return inf


def relaxation(kernel: Kernel, staleness: int | tuple[float, ...], direction: Direction) -> float:
    """In how many updates the chain forgets where it was along a direction, to 1/e; infinite if it blows up."""
    try:
        radius = kernel.recursion(float(kernel.schedule(0)), staleness, direction).spectral_radius
    except UnstableRecursion:
        return inf
    return -1 / log(radius) if 0 < radius < 1 else inf if radius >= 1 else 0.0
