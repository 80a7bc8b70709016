"""One direction of a Gaussian posterior: what the theory of a sampler along it needs to know."""

from typing import NamedTuple


class Direction(NamedTuple):
    """A direction of the posterior, and what a thermostat sees of all the others.

    Args:
        curvature: λ along it.
        noise: variance of the gradient noise along it.
        mean_curvature: of all directions.
        mean_noise: of all directions.
        owned: a, the part of the curvature that the server owns and that is therefore never stale.
        ahead: c, if gradients are taken at the point where the chain is expected to be, α θ + c q.
        kept: α.

    >>> import stalegrad as sg
    >>> kernel = sg.SGLD(step_size=0.05)
    >>> [round(kernel.recursion(0.05, tau, Direction(1.0, noise=2.0)).variance, 3) for tau in (0, 8)]
    [1.077, 1.628]
    """

    curvature: float
    noise: float = 0.0
    mean_curvature: float = 0.0
    mean_noise: float = 0.0
    owned: float = 0.0
    ahead: float = 0.0
    kept: float = 1.0
