"""Where chains start: further apart than the posterior is wide, so that it means something when they agree."""

import numpy as np

from stalegrad._internal.types import Array
from stalegrad.potentials.wrappers.whitened import InCoordinates

_STEEPER = 5.0  # than at any draw of the pilot: no chain is started where the slope is so many times as large
_TRIES = 20


def dispersed_starts(target: InCoordinates, draws: Array, servers: int, dispersion: float, seed: int) -> Array:
    """z_0 of every chain: draws of the pilot, moved away from their mean by a factor.

    Where the posterior is skewed or has a funnel, that may lead to places that no chain would visit. What shows it is
    the slope: where it is far larger than at draws, the factor is made smaller.

    Args:
        target: the model in the coordinates of the run.
        draws: (chain, draw, n), of the pilot, in z.
        servers: S.
        dispersion: the factor.
        seed: of the choice.
    """
    generator = np.random.Generator(np.random.Philox(key=seed))
    flat = draws.reshape(-1, draws.shape[-1])
    mean = flat.mean(axis=0)
    chosen = flat[generator.choice(len(flat), servers, replace=len(flat) < servers)]
    indices = target.minibatches.draw_outside_run(seed, 0)

    def slope(z: Array) -> float:
        with np.errstate(all="ignore"):
            return float(np.linalg.norm(target.gradient(z.astype(target.dtype), indices).astype(np.float64)))

    usual = max(slope(z) for z in flat[:: max(1, len(flat) // 16)])
    starts = np.empty((servers, target.size), target.dtype)
    for s, z in enumerate(chosen):
        factor = dispersion
        for _ in range(_TRIES):
            start = mean + factor * (z - mean)
            if np.isfinite(here := slope(start)) and here <= _STEEPER * usual:
                break
            factor = 1 + (factor - 1) / 2
        else:
            start = z
        starts[s] = start
    return starts
