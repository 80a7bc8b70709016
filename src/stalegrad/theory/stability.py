"""The largest step size at which a chain with stale gradients does not blow up."""

import numpy as np
import numpy.typing as npt

from stalegrad._internal.errors import ArgumentError
from stalegrad._internal.types import Array
from stalegrad.theory.inputs import nonnegative, positive, same_shape


def stability_limit(curvature: npt.ArrayLike, staleness: npt.ArrayLike) -> Array:
    """h* = (2/λ) sin(π / (2(2τ+1))): stale SGLD on a Gaussian is stable exactly for h < h*.

    Along a direction of curvature λ, SGLD with constant staleness τ is θ_{l+1} = θ_l − hλ θ_{l−τ} + noise, with the
    characteristic polynomial z^{τ+1} − z^τ + hλ. On the unit circle, z = e^{iω}, it vanishes where hλ = z^τ (1 − z).
    The right side has modulus 2 sin(ω/2) and argument (τ + ½)ω − π/2, and must be real and positive: ω = π/(2τ+1)
    is the least such ω > 0, hence the first crossing as hλ grows from 0, where all roots are inside. (For τ = 0 that
    is the familiar h < 2/λ, for τ = 1 it is h < 1/λ, for large τ about π / (λ(2τ+1)).)

    Of a posterior that is not Gaussian, give the largest eigenvalue of the Hessian of U. Close to the limit the chain
    does not blow up but oscillates, and its variance does depend on τ: stay a factor two or more below.

    References:
        S. A. Levin, R. M. May (1976). A note on difference-delay equations. Theoretical Population Biology 9.

    Args:
        curvature: λ, the second derivative of U; the largest one decides.
        staleness: τ, constant; whole numbers.

    >>> stability_limit(1.0, [0, 1, 2, 10])
    array([2. , 1. , 0.618, 0.1495])
    """
    lam, tau = positive("curvature", curvature), nonnegative("staleness", staleness)
    same_shape(curvature=lam, staleness=tau)
    if np.any(tau != np.floor(tau)):
        raise ArgumentError("staleness", staleness, "is not whole", "Round a mean staleness up.")
    limit: Array = 2 * np.sin(np.pi / (2 * (2 * tau + 1))) / lam
    return limit
