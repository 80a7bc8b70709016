"""How long a step may be before a chain with stale gradients blows up, for any sampler that has a theory."""

from collections.abc import Sequence
from functools import lru_cache
from math import ceil, nan
from typing import NamedTuple

from stalegrad.kernels import Kernel
from stalegrad.runs.observers.snapshot import ChainFigures
from stalegrad.theory import Direction, UnstableRecursion

_HALVINGS = 24
_FURTHEST = 2.0**40  # times the present step, either way


@lru_cache(maxsize=256)
def longest_step(kernel: Kernel, h: float, curvature: float, staleness: int) -> float | None:
    """The step size beyond which the sampler blows up along a direction of curvature λ; None if nobody knows.

    By the sampler's formula, or by bisection on the spectral radius of its recursion.

    Args:
        kernel: the sampler.
        h: a step size to begin with.
        curvature: λ.
        staleness: τ.
    """
    formula = kernel.stability_limit(curvature, staleness)
    if formula is not None or not kernel.has_theory():
        return formula

    def stable(step: float) -> bool:
        try:
            return kernel.recursion(step, staleness, Direction(curvature)).spectral_radius < 1
        except (UnstableRecursion, ValueError, OverflowError):
            return False

    low, high = h, h
    while not stable(low) and low > h / _FURTHEST:
        low /= 4
    while stable(high) and high < h * _FURTHEST:
        high *= 4
    if not stable(low) or stable(high):
        return None
    for _ in range(_HALVINGS):
        middle = (low * high) ** 0.5
        low, high = (middle, high) if stable(middle) else (low, middle)
    return low


class Stability(NamedTuple):
    """How far from blowing up the chain is that is closest to it: NaN for what is not known."""

    delay: float = nan
    limit: float = nan


def stability_of(kernels: Sequence[Kernel | None], chains: Sequence[ChainFigures], curvature: float) -> Stability:
    """h·λ·(τ + ½) of the chain where it is largest against what that chain may have.

    Args:
        kernels: of the chains; None for one that is not known.
        chains: how far they are, and how stale their gradients were.
        curvature: λ.
    """
    found = []
    for kernel, chain in zip(kernels, chains, strict=True):
        if kernel is not None and curvature > 0:
            h, late = float(kernel.schedule(max(0, chain.updates - 1))), chain.mean_staleness + 0.5
            limit = longest_step(kernel.at(max(0, chain.updates - 1)), h, curvature, ceil(chain.mean_staleness))
            found.append(Stability(h * curvature * late, nan if limit is None else limit * curvature * late))
    return max(found, key=lambda each: each.delay, default=Stability())
