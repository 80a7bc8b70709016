"""The Nosé-Hoover thermostat at rest: SGNHT as SGHMC with the friction at which ξ settles."""

from math import asinh, sqrt

from stalegrad.theory.directions import Direction
from stalegrad.theory.gaussian import Staleness, stale_sghmc
from stalegrad.theory.recursion import LinearRecursion, UnstableRecursion

_STRONGEST = 10.0  # friction times step beyond which a splitting forgets its momentum altogether
_HALVINGS = 16


def stale_sgnht(
    direction: Direction,
    step_size: float,
    noise: float,
    staleness: Staleness = 0,
    *,
    integrator: str = "euler",
    temperature: float = 1.0,
) -> LinearRecursion:
    """SGHMC whose friction ξ has settled where the kinetic temperature is T, while the noise is √(2AhT) whatever ξ is.

    So ξ solves E q² = T, and along a direction with the noise v the chain is SGHMC with friction ξ and temperature
    AT/ξ. On an isotropic Gaussian with τ = 0 and 3 the variance of real chains is within some 3 % of that up to the
    limit of stability. It stays close a little beyond it, where the thermostat keeps a chain from overflowing that is
    many times too hot or too cold.

    Args:
        direction: of the posterior.
        step_size: h.
        noise: A.
        staleness: τ, constant; or the probabilities of τ = 0, 1, 2, …
        integrator: "euler" or "splitting".
        temperature: T.

    Raises:
        UnstableRecursion: no friction holds the momentum.

    >>> stale_sgnht(Direction(1.0, mean_curvature=1.0), 0.1, 1.0).variance
    0.95
    """
    h, euler = step_size, integrator == "euler"

    def chain(curvature: float, variance: float, friction: float) -> LinearRecursion:
        return stale_sghmc(
            curvature, h, friction, staleness, integrator=integrator, temperature=noise * temperature / friction,
            gradient_variance=variance, owned=direction.owned, ahead=direction.ahead, kept=direction.kept,
        )  # fmt: skip

    def too_hot(friction: float) -> bool:
        try:
            covariance = chain(direction.mean_curvature, direction.mean_noise, friction).covariance()
            return bool(covariance[1, 1] > temperature)
        except UnstableRecursion:
            return True

    a = noise * h + h * h * direction.mean_noise / (2 * temperature)
    if direction.mean_curvature <= 0:  # without a force 2ξh − ξ²h² = 2a for Euler, sinh ξh = a for the splitting
        if euler and a > 0.5:
            raise UnstableRecursion("no friction holds the momentum")
        friction = max((1 - sqrt(1 - 2 * a)) / h if euler else asinh(a) / h, 1e-12 / h)
        return chain(direction.curvature, direction.noise, friction)
    low, high = 0.01 * max(a, 1e-6) / h, (1.0 if euler else _STRONGEST) / h
    if too_hot(high):
        raise UnstableRecursion("no friction holds the momentum")
    for _ in range(_HALVINGS):  # on a logarithmic scale
        middle = sqrt(low * high)
        low, high = (middle, high) if too_hot(middle) else (low, middle)
    return chain(direction.curvature, direction.noise, high)
