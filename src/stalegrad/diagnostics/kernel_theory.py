"""What theory expects of each sampler along one direction of a Gaussian posterior, thermostats included.

Along an eigenvector of the Hessian with curvature λ every sampler is one of the linear recursions of
:mod:`stalegrad.theory.gaussian`. Two of them need a word:

- pSGLD with a metric G that rests is SGLD in the coordinates θ/√G: give the curvature of √G ∇²U √G and the gradient
  noise of √G g̃.
- SGNHT is SGHMC whose friction ξ has settled where the kinetic temperature is T, while the noise is √(2AhT) whatever ξ
  is. So ξ solves E q² = T, and along a direction with the noise v the chain is SGHMC with friction ξ and temperature
  AT/ξ. On an isotropic Gaussian with τ = 0 and 3 the variance of real chains is within some 3 % of that up to the limit
  of stability. It stays close a little beyond it, where the thermostat keeps a chain from overflowing that is many
  times too hot or too cold.
"""

from functools import lru_cache
from math import asinh, inf, log, sinh, sqrt
from typing import NamedTuple

from stalegrad.kernels import BAOAB, PSGLD, SGHMC, SGLD, SGNHT, UBU, Kernel
from stalegrad.theory import LinearRecursion, UnstableRecursion, stale_baoab, stale_sghmc, stale_sgld, stale_ubu
from stalegrad.theory.gaussian import Staleness

WITH_FRICTION = (SGHMC, BAOAB, UBU)
"""Kinetic Langevin dynamics with a friction of its own."""

KNOWN = (SGLD, PSGLD, SGNHT, *WITH_FRICTION)
_STRONGEST = 10.0  # friction times step beyond which a splitting forgets its momentum altogether
_HALVINGS = 16


class Direction(NamedTuple):
    """A direction of the posterior, and what a thermostat sees of all the others.

    Args:
        curvature: λ along it.
        noise: variance of the gradient noise along it.
        mean_curvature: of all directions.
        mean_noise: of all directions.
    """

    curvature: float
    noise: float = 0.0
    mean_curvature: float = 0.0
    mean_noise: float = 0.0


def free_kinetic_temperature(kernel: Kernel, h: float) -> float | None:
    """E q² of a momentum that no force acts on, which the integrator's own error in the friction makes differ from T.

    Euler: T/(1 − Bh/2). Splitting: T·Bh/sinh(Bh). A thermostat holds it at T, and BAOAB and UBU solve the friction
    exactly. None without a momentum.
    """
    if isinstance(kernel, SGNHT | BAOAB | UBU):
        return kernel.temperature
    if isinstance(kernel, SGHMC):
        kept = kernel.friction * h
        return kernel.temperature * (1 / (1 - kept / 2) if kernel.integrator == "euler" else kept / sinh(kept))
    return None


def relative_noise(kernel: Kernel, h: float, direction: Direction) -> float:
    """By how much gradient noise heats a direction, relative to T, to first order in h.

    An update adds gradient noise of variance h²v to injected noise: SGLD h²v to 2hT, so hv/(2T); samplers with a
    friction h²v to 2BhT, so hv/(2BT). A thermostat absorbs the mean v̄ of all directions, and leaves
    (A + hv/2T)/(A + hv̄/2T) − 1.
    """
    own, mean = h * direction.noise / (2 * kernel.temperature), h * direction.mean_noise / (2 * kernel.temperature)
    if isinstance(kernel, SGNHT):
        return (kernel.noise + own) / (kernel.noise + mean) - 1 if kernel.noise + mean > 0 else 0.0
    return own / kernel.friction if isinstance(kernel, WITH_FRICTION) else own


@lru_cache(maxsize=1024)  # chains of a run are mostly alike
def variance_error(kernel: Kernel, staleness: int | tuple[float, ...], direction: Direction) -> float:
    """By how much the variance along a direction comes out too large, relative to T/λ; infinite if the chain blows up.

    Args:
        kernel: one of ``KNOWN``, with a constant step size.
        staleness: τ, or the probabilities of τ = 0, 1, 2, …
        direction: of the posterior.
    """
    try:
        return (
            _chain(kernel, float(kernel.schedule(0)), staleness, direction).variance
            * direction.curvature
            / kernel.temperature
            - 1
        )
    except UnstableRecursion:
        return inf


def relaxation(kernel: Kernel, staleness: int | tuple[float, ...], direction: Direction) -> float:
    """In how many updates the chain forgets where it was along a direction, to 1/e; infinite if it blows up."""
    try:
        radius = _chain(kernel, float(kernel.schedule(0)), staleness, direction).spectral_radius
    except UnstableRecursion:
        return inf
    return -1 / log(radius) if 0 < radius < 1 else inf if radius >= 1 else 0.0


def _chain(kernel: Kernel, h: float, staleness: Staleness, direction: Direction) -> LinearRecursion:
    temperature, curvature, noise = kernel.temperature, direction.curvature, direction.noise
    if isinstance(kernel, SGNHT):
        friction = _settled_friction(kernel, h, staleness, direction)
        return _thermostatted(kernel, h, staleness, curvature, noise, friction)
    if isinstance(kernel, SGHMC):
        return stale_sghmc(
            curvature, h, kernel.friction, staleness, integrator=kernel.integrator, temperature=temperature,
            gradient_variance=noise,
        )  # fmt: skip
    if isinstance(kernel, BAOAB | UBU):
        recursion = stale_baoab if isinstance(kernel, BAOAB) else stale_ubu
        return recursion(
            curvature, h, kernel.friction, staleness, temperature=temperature, gradient_variance=noise
        )  # fmt: skip
    return stale_sgld(curvature, h, staleness, temperature=temperature, gradient_variance=noise)


def _thermostatted(
    kernel: SGNHT, h: float, staleness: Staleness, curvature: float, noise: float, friction: float
) -> LinearRecursion:
    return stale_sghmc(
        curvature, h, friction, staleness, integrator=kernel.integrator,
        temperature=kernel.noise * kernel.temperature / friction, gradient_variance=noise,
    )  # fmt: skip


def _settled_friction(kernel: SGNHT, h: float, staleness: Staleness, direction: Direction) -> float:
    """ξ at which a direction of mean curvature and mean noise has E q² = T, by halving on a logarithmic scale.

    Without a force it is 2ξh − ξ²h² = 2a for Euler and sinh ξh = a for the splitting, with a = Ah + h²v/2T.
    """
    a = kernel.noise * h + h * h * direction.mean_noise / (2 * kernel.temperature)
    if direction.mean_curvature <= 0:
        if kernel.integrator == "euler" and a > 0.5:
            raise UnstableRecursion("no friction holds the momentum")
        return max((1 - sqrt(1 - 2 * a)) / h if kernel.integrator == "euler" else asinh(a) / h, 1e-12 / h)

    def too_hot(friction: float) -> bool:
        try:
            chain = _thermostatted(kernel, h, staleness, direction.mean_curvature, direction.mean_noise, friction)
            return bool(chain.covariance()[1, 1] > kernel.temperature)
        except UnstableRecursion:
            return True

    low, high = 0.01 * max(a, 1e-6) / h, (1.0 if kernel.integrator == "euler" else _STRONGEST) / h
    if too_hot(high):
        raise UnstableRecursion("no friction holds the momentum")
    for _ in range(_HALVINGS):
        middle = sqrt(low * high)
        low, high = (middle, high) if too_hot(middle) else (low, middle)
    return high
