"""The exact oracle: samplers with stale gradients on a Gaussian target.

The target is N(μ, T/λ) in one dimension: U(θ) = λ(θ − μ)²/2, at temperature T. (In the eigenbasis of its precision
matrix a Gaussian in many dimensions is many of these.) Update l + 1 uses the gradient at the point of τ updates ago,
plus minibatch noise that is independent from update to update with variance v:

    g_l = λ (θ_{l−τ} − μ) + √v η_l.

Everything is then a :class:`~stalegrad.theory.recursion.LinearRecursion`. Its means and covariances are exact whatever
the law of η; only the variances of averages of θ² assume that η is Gaussian.

Where τ is drawn afresh for every update, with probabilities p_0, p_1, …, the gradient is λ Σ_τ p_τ (θ_{l−τ} − μ) on
average, and that is what the functions here use when they are given probabilities in place of τ. Means are exact then.
Variances leave out the noise of the draw of τ, which is of the order of h²λ² times the distance that the chain goes in
a few updates: with τ uniform on 0…6 and hλ = 0.05 SGLD's variance comes out 1.186 where it is 1.189.

Two things keep a gradient from being stale. The server may own a part a of the curvature: a worker then answers with
r = g − aθ, and the server uses r + aθ of the present, so that only λ − a is old. And gradients may be taken where the
chain is expected to be when they come, at θ + c q. With both the force along the direction is

    g_l = a (θ_l − μ) + (λ − a)(θ_{l−τ} + c q_{l−τ} − μ) + √v η_l.

One consequence in closed form, of the fact that the long-run average of θ_{l+1} − θ_l is 0: for SGLD

    lim L·Var(φ̂_L) = (2hT + h²v) / (hλ)² = 2T/(hλ²) + v/λ²        for φ(θ) = θ,

whatever τ is, as long as the chain is stable. SGHMC has 2BT/(hλ²) + v/λ². Staleness changes what the chain converges to
and how it wobbles, and not the asymptotic variance of its mean.
"""

from collections.abc import Sequence

import numpy as np

from stalegrad._internal.errors import ArgumentError
from stalegrad._internal.types import Array
from stalegrad._internal.validation import finite_array, one_of, real_number, whole_number
from stalegrad.theory.free_motion import flow_coefficients
from stalegrad.theory.harmonic_motion import harmonic_coefficients
from stalegrad.theory.recursion import LinearRecursion

Staleness = int | Sequence[float] | Array
"""τ, or the probabilities of τ = 0, 1, 2, …"""


def stale_sgld(
    curvature: float,
    step_size: float,
    staleness: Staleness = 0,
    *,
    temperature: float = 1.0,
    gradient_variance: float = 0.0,
    mean: float = 0.0,
    owned: float = 0.0,
) -> LinearRecursion:
    """θ ← θ − h g + √(2hT) ζ, with g the gradient of τ updates ago.

    Args:
        curvature: λ.
        step_size: h.
        staleness: τ, constant; or the probabilities of τ = 0, 1, 2, …
        temperature: T; 1 samples the posterior.
        gradient_variance: v, of the minibatch noise in g.
        mean: μ.
        owned: a, the part of λ that is never stale.

    >>> fresh, stale = stale_sgld(1.0, 0.1), stale_sgld(1.0, 0.1, 5)
    >>> fresh.variance, stale.variance  # 1 is right
    (1.0526, 1.7888)
    >>> fresh.asymptotic_variance(), stale.asymptotic_variance()
    (20.0, 20.0)
    """
    lam, h, law, temp, v = _arguments(curvature, step_size, staleness, temperature, gradient_variance)
    own = real_number("owned", owned, least=0)
    return delayed(
        free=np.ones((1, 1)),
        kick=np.ones(1),
        point=np.ones(1),
        strength=h * (lam - own),
        fresh=h * own,
        noise=np.array([[np.sqrt(2 * h * temp + h * h * v)]]),
        law=law,
        target=(real_number("mean", mean), temp / lam),
        description=f"stale_sgld(curvature={lam:g}, step_size={h:g}, staleness={_mean(law):g})",
    )


def stale_sghmc(
    curvature: float,
    step_size: float,
    friction: float,
    staleness: Staleness = 0,
    *,
    integrator: str = "euler",
    temperature: float = 1.0,
    gradient_variance: float = 0.0,
    mean: float = 0.0,
    owned: float = 0.0,
    ahead: float = 0.0,
    kept: float = 1.0,
) -> LinearRecursion:
    """SGHMC with friction B, and g the gradient of τ updates ago.

    ``integrator="euler"``: q ← (1 − Bh) q − h g + √(2BhT) ζ; θ ← θ + h q. The gradient is wanted at θ.

    ``integrator="splitting"``: θ½ = θ + (h/2) q; q ← e^{−Bh/2} (e^{−Bh/2} q − h g + √(2BhT) ζ); θ ← θ½ + (h/2) q. The
    gradient is wanted at θ½, so a stale one was taken at the θ½ of τ updates ago.

    In general Euler is of order 1 and the splitting of order 2. On a Gaussian with fresh, exact gradients the error of
    the law of θ is O(h²) for both: Euler shows its O(h) in the momentum only. Staleness and minibatch noise add
    errors of O(h) to θ in both.

    Args:
        curvature: λ.
        step_size: h.
        friction: B.
        staleness: τ, constant; or the probabilities of τ = 0, 1, 2, …
        integrator: "euler" or "splitting".
        temperature: T; 1 samples the posterior.
        gradient_variance: v, of the minibatch noise in g.
        mean: μ.
        owned: a, the part of λ that is never stale.
        ahead: c, for gradients taken at the point plus c q.
        kept: α, where they are taken at α times the point, plus c q.

    >>> stale_sghmc(1.0, 0.1, 2.0).variance, stale_sghmc(1.0, 0.1, 2.0, integrator="splitting").variance
    (1.00279, 0.99834)
    """
    lam, h, law, temp, v = _arguments(curvature, step_size, staleness, temperature, gradient_variance)
    own = real_number("owned", owned, least=0)
    b = real_number("friction", friction, above=0)
    if one_of("integrator", integrator, ("euler", "splitting")) == "euler":
        left = 1 - b * h
        free, kick, point = np.array([[1, h * left], [0, left]]), np.array([h, 1]), np.array([1.0, 0])
    else:
        half = np.exp(-b * h / 2)
        free = np.array([[1, h / 2 * (1 + half**2)], [0, half**2]])
        kick, point = half * np.array([h / 2, 1]), np.array([1, h / 2])
    called = f"curvature={lam:g}, step_size={h:g}, friction={b:g}, staleness={_mean(law):g}, integrator={integrator!r}"
    return delayed(
        free=free,
        kick=kick,
        point=point,
        strength=h * (lam - own),
        fresh=h * own,
        noise=np.sqrt(2 * b * h * temp + h * h * v) * kick[:, None],
        law=law,
        ahead=np.array([0, real_number("ahead", ahead)]),
        kept=real_number("kept", kept),
        target=(real_number("mean", mean), temp / lam),
        description=f"stale_sghmc({called})",
    )


def stale_baoab(
    curvature: float,
    step_size: float,
    friction: float,
    staleness: Staleness = 0,
    *,
    temperature: float = 1.0,
    gradient_variance: float = 0.0,
    mean: float = 0.0,
    owned: float = 0.0,
    ahead: float = 0.0,
    kept: float = 1.0,
) -> LinearRecursion:
    """BAOAB with friction B: q ← q − h g; θ ← θ + (h/2) q; q ← e^{−Bh} q + √(T(1 − e^{−2Bh})) ζ; θ ← θ + (h/2) q.

    With fresh, exact gradients the variance of θ is T/λ at every stable step, and that of q (before the kick that ends
    a step, as the kernel keeps it) is T.

    Args:
        curvature: λ.
        step_size: h.
        friction: B.
        staleness: τ, constant; or the probabilities of τ = 0, 1, 2, …
        temperature: T; 1 samples the posterior.
        gradient_variance: v, of the minibatch noise in g.
        mean: μ.
        owned: a, the part of λ that is never stale.
        ahead: c, for gradients taken at the point plus c q.
        kept: α, where they are taken at α times the point, plus c q.

    >>> stale_baoab(1.0, 0.5, 2.0).variance, stale_baoab(1.0, 0.1, 2.0, 3).variance
    (1.0, 1.1748)
    """
    lam, h, law, temp, v = _arguments(curvature, step_size, staleness, temperature, gradient_variance)
    own = real_number("owned", owned, least=0)
    b = real_number("friction", friction, above=0)
    keep, sigma = np.exp(-b * h), np.sqrt(-np.expm1(-2 * b * h) * temp)
    kick, shaken = np.array([h / 2 * (1 + keep), keep]), np.array([h / 2, 1])
    return delayed(
        free=np.array([[1, h / 2 * (1 + keep)], [0, keep]]),
        kick=kick,
        point=np.array([1.0, 0]),
        strength=h * (lam - own),
        fresh=h * own,
        noise=np.stack([sigma * shaken, h * np.sqrt(v) * kick], axis=1),
        law=law,
        ahead=np.array([0, real_number("ahead", ahead)]),
        kept=real_number("kept", kept),
        target=(real_number("mean", mean), temp / lam),
        description=f"stale_baoab(curvature={lam:g}, step_size={h:g}, friction={b:g}, staleness={_mean(law):g})",
        start=np.array([[1, 0], [h * lam / 2, 1]]),  # the first step begins with half a kick
    )


def stale_ubu(
    curvature: float,
    step_size: float,
    friction: float,
    staleness: Staleness = 0,
    *,
    temperature: float = 1.0,
    gradient_variance: float = 0.0,
    mean: float = 0.0,
    owned: float = 0.0,
    ahead: float = 0.0,
    kept: float = 1.0,
) -> LinearRecursion:
    """UBU with friction B: q ← q − h g at the point, then the free motion of :class:`UBU` over h/2 to θ, and over h/2.

    The state is θ, the point of the next gradient and the momentum there. A start leaves out the noise of its first
    half-step; everything else is exact.

    Args:
        curvature: λ.
        step_size: h.
        friction: B.
        staleness: τ, constant; or the probabilities of τ = 0, 1, 2, …
        temperature: T; 1 samples the posterior.
        gradient_variance: v, of the minibatch noise in g.
        mean: μ.
        owned: a, the part of λ that is never stale.
        ahead: c, for gradients taken at the point plus c q.
        kept: α, where they are taken at α times the point, plus c q.

    >>> stale_ubu(1.0, 0.1, 2.0).variance, stale_ubu(1.0, 0.1, 2.0, 3).variance
    (0.99833, 1.17225)
    """
    lam, h, law, temp, v = _arguments(curvature, step_size, staleness, temperature, gradient_variance)
    own = real_number("owned", owned, least=0)
    b = real_number("friction", friction, above=0)
    keep, drift, sigma, along, across = flow_coefficients(b, h / 2, temp)
    kick = np.array([drift, drift * (1 + keep), keep**2])
    first = np.array([[along, across], [along + drift * sigma, across], [keep * sigma, 0]])
    second = np.array([[0, 0], [along, across], [sigma, 0]])
    return delayed(
        free=np.array([[0, 1, drift], [0, 1, drift * (1 + keep)], [0, 0, keep**2]]),
        kick=kick,
        point=np.array([0.0, 1, 0]),
        strength=h * (lam - own),
        fresh=h * own,
        noise=np.hstack([first, second, h * np.sqrt(v) * kick[:, None]]),
        law=law,
        ahead=np.array([0, 0, real_number("ahead", ahead)]),
        kept=real_number("kept", kept),
        target=(real_number("mean", mean), temp / lam),
        description=f"stale_ubu(curvature={lam:g}, step_size={h:g}, friction={b:g}, staleness={_mean(law):g})",
        start=np.array([[1, 0], [1, drift], [0, keep]]),
    )


def stale_harmonic(
    curvature: float,
    step_size: float,
    friction: float,
    staleness: Staleness = 0,
    *,
    well: float = 1.0,
    temperature: float = 1.0,
    gradient_variance: float = 0.0,
    mean: float = 0.0,
    owned: float = 0.0,
    ahead: float = 0.0,
    kept: float = 1.0,
) -> LinearRecursion:
    """The kicks and exact motion of :class:`Harmonic`: q ← q − h (g − aθ), then the well of curvature a over h.

    With well = owned = λ and μ = 0 nothing is left for the kicks, and the law is exact at every h and τ.

    Args:
        curvature: λ.
        step_size: h.
        friction: B.
        staleness: τ, constant; or the probabilities of τ = 0, 1, 2, …
        well: a, the curvature that the sampler follows exactly.
        temperature: T; 1 samples the posterior.
        gradient_variance: v, of the minibatch noise in g.
        mean: μ. The recursion is that of a well around μ.
        owned: the part of λ that is never stale.
        ahead: c, for gradients taken at the point plus c q.
        kept: α, where they are taken at α times the point, plus c q.

    >>> stale_harmonic(1.0, 1.5, 2.0, 30, owned=1.0).variance
    1.0
    """
    lam, h, law, temp, v = _arguments(curvature, step_size, staleness, temperature, gradient_variance)
    own, b = real_number("owned", owned, least=0), real_number("friction", friction, above=0)
    a = real_number("well", well, above=0)
    stay, drift, pull, keep, along, shared, across = harmonic_coefficients(a, b, h, temp)
    kick = np.array([drift, keep])
    return delayed(
        free=np.array([[stay, drift], [pull, keep]]),
        kick=kick,
        point=np.array([1.0, 0]),
        strength=h * (lam - own),
        fresh=h * (own - a),
        noise=np.stack([[along, shared], [0, across], h * np.sqrt(v) * kick], axis=1),
        law=law,
        ahead=np.array([0, real_number("ahead", ahead)]),
        kept=real_number("kept", kept),
        target=(real_number("mean", mean), temp / lam),
        description=f"stale_harmonic(curvature={lam:g}, step_size={h:g}, friction={b:g}, staleness={_mean(law):g})",
        start=np.array([[1, 0], [h * (lam - a) / 2, 1]]),  # the first step begins with half a kick
    )


def delayed(
    *,
    free: Array,
    kick: Array,
    point: Array,
    strength: float,
    noise: Array,
    law: Array,
    target: tuple[float, float],
    description: str,
    start: Array | None = None,
    fresh: float = 0.0,
    ahead: Array | None = None,
    kept: float = 1.0,
) -> LinearRecursion:
    """The recursion of y ← F y − k (f pᵀ y_l + s Σ_τ law_τ p̂_{l−τ}) + N ζ.

    p_l = pᵀ y_l is the point of the gradient, and p̂_l = α p_l + aheadᵀ y_l where it is taken, α being ``kept``.
    ``fresh`` and ``strength``, f and s, are h times the parts of the curvature that are never stale and that are. y_0
    is ``start`` times (θ_0 − μ, q_0), by default those themselves. The state is x = (y_l, p̂_{l−1}, …, p̂_{l−τ}), up to
    the largest τ.
    """
    size, staleness = kick.size, law.size - 1
    taken = point if ahead is None else kept * point + ahead
    a = np.zeros((size + staleness, size + staleness))
    a[:size, :size] = free - np.outer(kick, fresh * point + strength * law[0] * taken)
    if staleness:
        a[:size, size:] = -strength * np.outer(kick, law[1:])
        a[size, :size] = taken
        past = np.arange(size, size + staleness - 1)
        a[past + 1, past] = 1
    shocks = np.vstack([noise, np.zeros((staleness, noise.shape[1]))])
    first = np.eye(size) if start is None else start
    embedding = np.vstack([first, np.tile(taken @ first, (staleness, 1))])
    for array in (a, shocks, embedding):
        array.flags.writeable = False
    return LinearRecursion(a, shocks, embedding, *target, description)


def _arguments(
    curvature: float, step_size: float, staleness: Staleness, temperature: float, gradient_variance: float
) -> tuple[float, float, Array, float, float]:
    return (
        real_number("curvature", curvature, above=0),
        real_number("step_size", step_size, above=0),
        staleness_law(staleness),
        real_number("temperature", temperature, least=0),
        real_number("gradient_variance", gradient_variance, least=0),
    )


def staleness_law(staleness: Staleness) -> Array:
    """The probabilities of τ = 0, 1, …, up to the largest that there is."""
    if np.ndim(staleness) == 0:
        law = np.zeros(whole_number("staleness", staleness) + 1)
        law[-1] = 1
        return law
    law = finite_array("staleness", staleness, np.dtype(np.float64), ndim=1)
    if law.size == 0 or law.min() < 0 or not np.isclose(law.sum(), 1):
        remedy = "Give τ, or the probabilities of τ = 0, 1, 2, …, which are ≥ 0 with sum 1."
        raise ArgumentError("staleness", staleness, "is not a law", remedy)
    return law[: np.flatnonzero(law)[-1] + 1]


def _mean(law: Array) -> float:
    return float(law @ np.arange(law.size))
