"""What is left of staleness when the server owns a part of the curvature, or sends workers ahead of the chain.

Along a direction of curvature λ of which a is owned, and with gradients taken at θ + c q, the force of an update is
a θ_l + (λ − a)(θ_{l−τ} + c q_{l−τ}), see :class:`stalegrad.StaleGradients` and docs/free-staleness.md. The exact law of
such a chain is that of the functions of :mod:`stalegrad.theory.gaussian` with ``owned`` and ``ahead``; here are the
first order in h, what the paper's bounds become, and the limit of stability.
"""

from math import acos, atan2, cos, hypot, sin, sqrt

import numpy as np
import numpy.typing as npt

from stalegrad._internal.errors import ArgumentError
from stalegrad._internal.types import Array
from stalegrad._internal.validation import real_number, whole_number
from stalegrad.theory.harmonic_motion import harmonic_coefficients
from stalegrad.theory.inputs import nonnegative, positive, same_shape

_ANGLES = 4096  # for each period of z^τ


def staleness_error(
    curvature: npt.ArrayLike,
    step_size: npt.ArrayLike,
    staleness: npt.ArrayLike,
    *,
    owned: npt.ArrayLike = 0.0,
    friction: float | None = None,
    ahead: npt.ArrayLike = 0.0,
) -> Array:
    """By how much old gradients make a variance too large, relative to what it is with fresh ones, to first order in h.

    Without a momentum it is (λ − a) τh; with the friction B it is (λ − a)(τh − c)/B, which vanishes on the straight
    course c = τh. Only the mean of the staleness counts: this is linear in it.

    Args:
        curvature: λ.
        step_size: h.
        staleness: τ, or its mean.
        owned: a.
        friction: B; None for SGLD.
        ahead: c; 0 without a momentum.

    >>> float(staleness_error(1.0, 0.01, 16)), float(staleness_error(1.0, 0.01, 16, owned=0.9).round(3))
    (0.16, 0.016)
    >>> float(staleness_error(1.0, 0.01, 16, friction=2.0, ahead=0.16))
    0.0
    """
    lam, h, tau = (
        positive("curvature", curvature),
        positive("step_size", step_size),
        nonnegative("staleness", staleness),
    )
    own, c = nonnegative("owned", owned), nonnegative("ahead", ahead)
    same_shape(curvature=lam, step_size=h, staleness=tau, owned=own, ahead=c)
    if friction is None and np.any(c):
        raise ArgumentError("ahead", ahead, "needs a momentum", "Give the friction of the sampler, or ahead=0.")
    late: Array = (lam - own) * (tau * h - c)
    return np.asarray(late / (1.0 if friction is None else real_number("friction", friction, above=0)))


def turned(owned: float, friction: float, time: float) -> tuple[float, float]:
    """α and c of the point p = α θ + c q whose residual force, used a time t later, does what a fresh one would.

    A chain that follows the well a θ²/2 exactly is pushed besides by the residual ρ of its gradients. To first order in
    ρ, and to every order in t, what it does to mean and variance of θ is decided by how p is distributed together with
    the chain of the present, (θ₀, q₀):

    - α² + a c² = 1 gives p the law of θ itself, so that E ρ(p) = E ρ(θ): the mean stays where it belongs, whatever the
      residual is like. (On a straight course p is spread too widely, and a skewed posterior is shifted by it.)
    - E[θ₀ p] + E[q₀ p]/B = T/a makes the variance right. By Stein's lemma that holds for residuals that are not linear
      as well: E[θ₀ ρ(p)] = E[ρ′] E[θ₀ p].

    With the mean of the motion over t, (θ, q) ↦ (sθ + dq, uθ + kq), the second is α (s + u/B) + a c (d + k/B) = 1.
    For small t both say c = t, the straight course. Where gradients are too old for both, the law of p is kept and the
    point that comes nearest to the second is taken.

    Args:
        owned: a > 0.
        friction: B.
        time: t = τh.

    >>> turned(1.0, 0.7, 0.0), tuple(round(part, 4) for part in turned(1.0, 0.7, 0.01))
    ((1.0, 0.0), (0.9999, 0.01))
    """
    a, b = real_number("owned", owned, above=0), real_number("friction", friction, above=0)
    stay, drift, pull, keep, *_ = harmonic_coefficients(a, b, real_number("time", time, least=0), 1.0)
    along, across = stay + pull / b, sqrt(a) * (drift + keep / b)
    turn = atan2(across, along) - acos(min(1.0, 1 / hypot(along, across)))
    return cos(turn), sin(turn) / sqrt(a)


def taming_error(
    curvature: npt.ArrayLike,
    step_size: npt.ArrayLike,
    tame: float,
    *,
    temperature: float = 1.0,
    gradient_variance: npt.ArrayLike = 0.0,
) -> Array:
    """By how much tamed gradients make a variance too large, relative to it: (3h²/2p²)(λ + v/T), to second order in h.

    g/√(1 + (hg/(p√T))²) is g − h²g³/(2p²T) + …. With g = λθ + noise of variance v its mean is the force of the
    potential λθ²/2 − h²λ³θ⁴/(8p²T), less the share 3h²v/(2p²T) of λθ; the law of that has this variance. As h → 0
    nothing is left, whatever p is. Each coordinate is tamed by itself, so λ and v are those of coordinates.

    Args:
        curvature: λ.
        step_size: h.
        tame: p, see :class:`stalegrad.StaleGradients`.
        temperature: T.
        gradient_variance: v, of minibatch gradients.

    >>> float(taming_error(1.0, 0.1, 0.5).round(4)), float(taming_error(1.0, 0.05, 0.5).round(4))
    (0.06, 0.015)
    """
    lam, h, v = (
        positive("curvature", curvature),
        positive("step_size", step_size),
        nonnegative("gradient_variance", gradient_variance),
    )
    same_shape(curvature=lam, step_size=h, gradient_variance=v)
    p, temp = real_number("tame", tame, above=0), real_number("temperature", temperature, above=0)
    return np.asarray(1.5 * (h / p) ** 2 * (lam + v / temp))


def effective_staleness(curvature: npt.ArrayLike, staleness: npt.ArrayLike, owned: npt.ArrayLike) -> Array:
    """τ |λ − a| / λ, the staleness of a plain chain whose error of first order is as large.

    In :func:`~stalegrad.theory.bias_bound` and :func:`~stalegrad.theory.mse_bound` it takes the place of τ: what their
    proofs use of a stale gradient is how far it is from the fresh one, at most λ h τ times a constant, and of that the
    server knows all but the share |λ − a|/λ. Of a posterior that is not Gaussian, the largest |λ − a| over the
    directions and over where the chain goes decides.

    Args:
        curvature: λ.
        staleness: τ.
        owned: a.

    >>> effective_staleness([0.8, 1.0, 1.3], 16, 1.0)
    array([4. , 0. , 3.6923])
    """
    lam, tau, own = positive("curvature", curvature), nonnegative("staleness", staleness), nonnegative("owned", owned)
    same_shape(curvature=lam, staleness=tau, owned=own)
    return np.asarray(tau * np.abs(lam - own) / lam)


def owned_stability_limit(curvature: float, staleness: int, owned: float) -> float:
    """The step size below which SGLD with constant staleness τ and the part a of λ owned is stable.

    θ_{l+1} = (1 − ha) θ_l − h(λ − a) θ_{l−τ} + noise has the characteristic equation h = (1 − z)/(a + (λ − a) z^{−τ}).
    As h grows from 0, the first root that reaches the unit circle is the angle ω of z = e^{iω} at which the right side
    is real and positive and least. **While λ ≤ 2a the limit is no less than 1/a, however large τ is**, because
    |1 − ha| + h|λ − a| < 1 for h ≤ 1/a; without ownership it falls like π/(2λτ), see
    :func:`~stalegrad.theory.stability_limit`.

    Args:
        curvature: λ.
        staleness: τ.
        owned: a; the whole of λ gives 2/λ at every τ.

    >>> owned_stability_limit(1.0, 16, 0.0), owned_stability_limit(1.0, 16, 1.0), owned_stability_limit(1.3, 64, 1.0)
    (0.0952, 2.0, 1.5385)
    """
    lam, own = real_number("curvature", curvature, above=0), real_number("owned", owned, least=0)
    tau = whole_number("staleness", staleness)

    def wanted(omega: Array) -> Array:
        """The complex h that puts a root on the unit circle at each angle."""
        z = np.exp(1j * omega)
        return np.asarray((1 - z) / (own + (lam - own) * z ** (-tau)))

    edge = 2 / (own + (lam - own) * (-1.0) ** tau)  # z = −1
    candidates = [edge] if edge > 0 else []
    angles = np.linspace(0, np.pi, _ANGLES * (tau + 1) + 1)[1:-1]
    values = wanted(angles)
    sides = np.sign(values.imag)
    for k in np.flatnonzero(sides[:-1] * sides[1:] < 0):
        low, high, side = angles[k], angles[k + 1], sides[k]
        for _ in range(50):
            middle = (low + high) / 2
            low, high = (middle, high) if np.sign(wanted(middle).imag) == side else (low, middle)
        found = complex(wanted((low + high) / 2))
        if found.real > 0 and abs(found.imag) < 1e-6 * found.real:  # not a pole, where the sign changes as well
            candidates.append(found.real)
    return float(min(candidates))
