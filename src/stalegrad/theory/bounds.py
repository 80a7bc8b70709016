"""Bounds on bias, mean squared error and variance of a sample average made with stale gradients.

The estimate of a posterior average φ̄ is φ̂_L = (1/L) Σ_l φ(x_l), from L updates of step size h whose gradients are at
most τ updates old, by an integrator of order K. The bounds are Theorems 1 to 3 of Chen et al. (2016) for one chain, and
their extension to S chains; they hold up to constants, which here are the keyword arguments m0, m1 and m2.

The remarkable fact is what is missing: τ enters bias and MSE and does **not** enter the variance.

Every function takes numbers or arrays that broadcast; numbers in give a NumPy scalar out.

References:
    C. Chen, N. Ding, C. Li, Y. Zhang, L. Carin (2016). Stochastic gradient MCMC with stale gradients. NeurIPS.
"""

import numpy as np
import numpy.typing as npt

from stalegrad._internal.errors import ArgumentError
from stalegrad._internal.types import Array
from stalegrad._internal.validation import real_number, whole_number
from stalegrad.theory.inputs import nonnegative, per_chain, positive, same_shape


def bias_bound(
    steps: npt.ArrayLike,
    step_size: npt.ArrayLike,
    staleness: npt.ArrayLike = 0,
    *,
    order: int = 1,
    m0: float = 1.0,
    m1: float = 1.0,
    m2: float = 1.0,
) -> Array:
    """|E φ̂_L − φ̄| ≤ M₀/(Lh) + M₁ τh + M₂ h^K.

    Args:
        steps: L, the number of updates of the chain.
        step_size: h.
        staleness: τ, the largest staleness of a gradient; may be an average, so need not be whole.
        order: K, of the integrator: 1 for SGLD and Euler SGHMC, 2 for symmetric splittings.
        m0: constant of the term that a longer run makes smaller.
        m1: constant of the term of the stale gradients.
        m2: constant of the term of the integrator.

    >>> float(bias_bound(1000, 0.1, 2))
    0.31
    >>> bias_bound(1000, 0.1, [0, 1, 2])
    array([0.11, 0.21, 0.31])
    """
    count, h, tau = _single(steps, step_size, staleness)
    c0, c1, c2, k = _constants(order, m0, m1, m2)
    bound: Array = c0 / (count * h) + c1 * tau * h + c2 * h**k
    return bound


def mse_bound(
    steps: npt.ArrayLike,
    step_size: npt.ArrayLike,
    staleness: npt.ArrayLike = 0,
    *,
    order: int = 1,
    m0: float = 1.0,
    m1: float = 1.0,
    m2: float = 1.0,
) -> Array:
    """E(φ̂_L − φ̄)² ≤ M₀/(Lh) + M̃₁ τ²h² + M̃₂ h^{2K}.

    The arguments are those of :func:`bias_bound`; m1 and m2 are M̃₁ and M̃₂, of the size of M₁² and M₂².

    >>> float(mse_bound(1000, 0.1, 2))
    0.06
    """
    count, h, tau = _single(steps, step_size, staleness)
    c0, c1, c2, k = _constants(order, m0, m1, m2)
    bound: Array = c0 / (count * h) + c1 * (tau * h) ** 2 + c2 * h ** (2 * k)
    return bound


def variance_bound(
    steps: npt.ArrayLike, step_size: npt.ArrayLike, *, order: int = 1, m0: float = 1.0, m2: float = 1.0
) -> Array:
    """E(φ̂_L − E φ̂_L)² ≤ M₀/(Lh) + M₂ h^{2K}, whatever the staleness.

    The arguments are those of :func:`bias_bound`; there is no ``staleness`` because the bound does not depend on it.
    It holds where the stale chain is stable: see :func:`stalegrad.theory.stability.stability_limit`.

    >>> float(variance_bound(1000, 0.1))
    0.02
    """
    count, h, _ = _single(steps, step_size, 0)
    c0, _, c2, k = _constants(order, m0, 0.0, m2)
    bound: Array = c0 / (count * h) + c2 * h ** (2 * k)
    return bound


def chains_bias_bound(
    times: npt.ArrayLike,
    step_sizes: npt.ArrayLike,
    staleness: npt.ArrayLike = 0,
    *,
    order: int = 1,
    m0: float = 1.0,
    m1: float = 1.0,
    m2: float = 1.0,
) -> Array:
    """Bias of φ̂ = Σ_s (T_s/T) φ̂_s from S chains: M₀/T̄ + (T_m/T̄)(M₁ τh + M₂ h^K).

    T = Σ_s T_s, T̄ = T/S, T_m = max_s T_s, and h = max_s h_s. With equal chains this is the bias of one of them:
    chains side by side do not make the bias smaller.

    Args:
        times: T_s = L_s h_s, one per chain along the last axis.
        step_sizes: h_s, shaped like ``times``, or one number for all chains.
        staleness: τ, the largest staleness in any chain; broadcasts against the axes of ``times`` before the last.
        order: K, of the integrator.
        m0: constant of the 1/T̄ term.
        m1: constant of the term of the stale gradients.
        m2: constant of the term of the integrator.

    >>> float(chains_bias_bound([100, 100, 100], 0.1, 2)), float(bias_bound(1000, 0.1, 2))
    (0.31, 0.31)
    """
    t, h_s, tau = _several(times, step_sizes, staleness)
    c0, c1, c2, k = _constants(order, m0, m1, m2)
    mean, h = t.mean(-1), h_s.max(-1)
    bound: Array = c0 / mean + t.max(-1) / mean * (c1 * tau * h + c2 * h**k)
    return bound


def chains_mse_bound(
    times: npt.ArrayLike,
    step_sizes: npt.ArrayLike,
    staleness: npt.ArrayLike = 0,
    *,
    order: int = 1,
    m0: float = 1.0,
    m1: float = 1.0,
    m2: float = 1.0,
) -> Array:
    """MSE from S chains: M₀ [(1 − 1/T̄)/T + 1/T̄²] + (T_m²/T̄²)(M₁² τ²h² + M₂² h^{2K}).

    Arguments and symbols are those of :func:`chains_bias_bound`. The first bracket equals 1/T + S(S−1)/T², so it is
    positive for any T; computed in that form.

    >>> float(chains_mse_bound([100, 100, 100], 0.1, 2))
    0.0534
    """
    t, h_s, tau = _several(times, step_sizes, staleness)
    c0, c1, c2, k = _constants(order, m0, m1, m2)
    chains, total, h = t.shape[-1], t.sum(-1), h_s.max(-1)
    spread = (t.max(-1) / t.mean(-1)) ** 2
    mixing = 1 / total + chains * (chains - 1) / total**2
    bound: Array = c0 * mixing + spread * ((c1 * tau * h) ** 2 + c2**2 * h ** (2 * k))
    return bound


def chains_variance_bound(
    times: npt.ArrayLike, step_sizes: npt.ArrayLike, *, order: int = 1, m0: float = 1.0, m2: float = 1.0
) -> Array:
    """Variance from S chains: M₀/T + M₂ Σ_s (T_s²/T²) h_s^{2K}, whatever the staleness.

    Arguments and symbols are those of :func:`chains_bias_bound`. With S equal chains it is 1/S of the variance of one.

    >>> float(chains_variance_bound([100, 100, 100, 100], 0.1)), float(variance_bound(1000, 0.1)) / 4
    (0.005, 0.005)
    """
    t, h_s, _ = _several(times, step_sizes, 0)
    c0, _, c2, k = _constants(order, m0, 0.0, m2)
    total = t.sum(-1)
    bound: Array = c0 / total + c2 * ((t / total[..., None]) ** 2 * h_s ** (2 * k)).sum(-1)
    return bound


def _constants(order: int, m0: float, m1: float, m2: float) -> tuple[float, float, float, int]:
    k = whole_number("order", order, least=1)
    return real_number("m0", m0, least=0), real_number("m1", m1, least=0), real_number("m2", m2, least=0), k


def _single(steps: npt.ArrayLike, step_size: npt.ArrayLike, staleness: npt.ArrayLike) -> tuple[Array, Array, Array]:
    count, h, tau = positive("steps", steps), positive("step_size", step_size), nonnegative("staleness", staleness)
    same_shape(steps=count, step_size=h, staleness=tau)
    return count, h, tau


def _several(times: npt.ArrayLike, step_sizes: npt.ArrayLike, staleness: npt.ArrayLike) -> tuple[Array, Array, Array]:
    t, h_s, tau = per_chain("times", times), positive("step_sizes", step_sizes), nonnegative("staleness", staleness)
    same_shape(times=t, step_sizes=h_s)
    if h_s.ndim and h_s.shape[-1] not in (1, t.shape[-1]):
        problem = f"has {h_s.shape[-1]} chains and times has {t.shape[-1]}"
        raise ArgumentError("step_sizes", step_sizes, problem, "Give one h_s per chain, or one number for all.")
    t, h_s = np.broadcast_arrays(t, h_s)
    same_shape(**{"times without the chains": t[..., 0], "staleness": tau})
    return t, h_s, tau
