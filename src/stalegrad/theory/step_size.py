"""The step sizes that minimise the bounds of :mod:`stalegrad.theory.bounds`, and the rates that they give.

| criterion | best h, when its τ term dominates (variance: always) | bound at that h |
|---|---|---|
| variance | (M₀ / (2K M₂ L))^{1/(2K+1)} | ∝ L^{−2K/(2K+1)} |
| bias | C τ^{−1/2} L^{−1/2} | ∝ (τ/L)^{1/2} |
| MSE | C τ^{−2/3} L^{−1/3} | ∝ (τ/L)^{2/3} |

The ``*_optimal_step`` functions minimise the whole bound, both the τ term and the term of the integrator. None of them
knows where the chain stops being stable: see :func:`stalegrad.theory.stability.stability_limit`.
"""

import numpy as np
import numpy.typing as npt

from stalegrad._internal.types import Array
from stalegrad._internal.validation import one_of, real_number, whole_number
from stalegrad.theory.inputs import nonnegative, per_chain, positive, same_shape
from stalegrad.theory.posynomials import minimiser


def variance_optimal_step(steps: npt.ArrayLike, *, order: int = 1, m0: float = 1.0, m2: float = 1.0) -> Array:
    """argmin_h M₀/(Lh) + M₂ h^{2K} = (M₀ / (2K M₂ L))^{1/(2K+1)}.

    Arguments as in :func:`~stalegrad.theory.bounds.variance_bound`.

    >>> float(variance_optimal_step(4000))
    0.05
    """
    count, k = positive("steps", steps), whole_number("order", order, least=1)
    return minimiser([(_constant("m0", m0) / count, -1), (_constant("m2", m2), 2 * k)])


def bias_optimal_step(
    steps: npt.ArrayLike,
    staleness: npt.ArrayLike = 0,
    *,
    order: int = 1,
    m0: float = 1.0,
    m1: float = 1.0,
    m2: float = 1.0,
) -> Array:
    """argmin_h M₀/(Lh) + M₁ τh + M₂ h^K.

    Arguments as in :func:`~stalegrad.theory.bounds.bias_bound`. For K = 1 it is (M₀ / (L(M₁τ + M₂)))^{1/2}.

    >>> float(bias_optimal_step(100, 3))
    0.05
    """
    count, tau, k = _arguments(steps, staleness, order)
    c0, c1, c2 = _constant("m0", m0), _constant("m1", m1), _constant("m2", m2)
    return minimiser([(c0 / count, -1), (c1 * tau, 1), (c2, k)])


def mse_optimal_step(
    steps: npt.ArrayLike,
    staleness: npt.ArrayLike = 0,
    *,
    order: int = 1,
    m0: float = 1.0,
    m1: float = 1.0,
    m2: float = 1.0,
) -> Array:
    """argmin_h M₀/(Lh) + M̃₁ τ²h² + M̃₂ h^{2K}.

    Arguments as in :func:`~stalegrad.theory.bounds.mse_bound`. For K = 1 it is (M₀ / (2L(M̃₁τ² + M̃₂)))^{1/3}.

    >>> float(mse_optimal_step(400, 3))
    0.05
    """
    count, tau, k = _arguments(steps, staleness, order)
    c0, c1, c2 = _constant("m0", m0), _constant("m1", m1), _constant("m2", m2)
    return minimiser([(c0 / count, -1), (c1 * tau**2, 2), (c2, 2 * k)])


def chains_variance_optimal_step(steps: npt.ArrayLike, *, order: int = 1, m0: float = 1.0, m2: float = 1.0) -> Array:
    """The one h for S chains that minimises :func:`~stalegrad.theory.bounds.chains_variance_bound`.

    Args:
        steps: L_s, one per chain along the last axis; T_s = L_s h.
        order: K, of the integrator.
        m0: constant of the 1/T term.
        m2: constant of the term of the integrator.

    >>> float(chains_variance_optimal_step([4000, 4000, 4000])), float(variance_optimal_step(4000))
    (0.05, 0.05)
    """
    counts, k = per_chain("steps", steps), whole_number("order", order, least=1)
    total = counts.sum(-1)
    share = ((counts / total[..., None]) ** 2).sum(-1)
    return minimiser([(_constant("m0", m0) / total, -1), (_constant("m2", m2) * share, 2 * k)])


def chains_bias_optimal_step(
    steps: npt.ArrayLike,
    staleness: npt.ArrayLike = 0,
    *,
    order: int = 1,
    m0: float = 1.0,
    m1: float = 1.0,
    m2: float = 1.0,
) -> Array:
    """The one h for S chains of L_s steps that minimises :func:`~stalegrad.theory.bounds.chains_bias_bound`.

    >>> float(chains_bias_optimal_step([100, 100], 3))
    0.05
    """
    counts, tau, k = _chain_arguments(steps, staleness, order)
    c0, c1, c2 = _constant("m0", m0), _constant("m1", m1), _constant("m2", m2)
    mean = counts.mean(-1)
    spread = counts.max(-1) / mean
    return minimiser([(c0 / mean, -1), (c1 * spread * tau, 1), (c2 * spread, k)])


def chains_mse_optimal_step(
    steps: npt.ArrayLike,
    staleness: npt.ArrayLike = 0,
    *,
    order: int = 1,
    m0: float = 1.0,
    m1: float = 1.0,
    m2: float = 1.0,
) -> Array:
    """The one h for S chains of L_s steps that minimises :func:`~stalegrad.theory.bounds.chains_mse_bound`.

    >>> float(chains_mse_optimal_step([400], 3))
    0.05
    """
    counts, tau, k = _chain_arguments(steps, staleness, order)
    c0, c1, c2 = _constant("m0", m0), _constant("m1", m1), _constant("m2", m2)
    chains, total = counts.shape[-1], counts.sum(-1)
    spread = (counts.max(-1) / counts.mean(-1)) ** 2
    falling = [(c0 / total, -1), (c0 * chains * (chains - 1) / total**2, -2)]
    return minimiser([*falling, (c1**2 * spread * tau**2, 2), (c2**2 * spread, 2 * k)])


def stale_step_size(
    steps: npt.ArrayLike, staleness: npt.ArrayLike, *, constant: float = 1.0, criterion: str = "mse"
) -> Array:
    """C τ^{−2/3} L^{−1/3} for the MSE, C τ^{−1/2} L^{−1/2} for the bias: the best h while the τ term dominates.

    The constants of the bounds make C = (M₀ / 2M̃₁)^{1/3} for the MSE and (M₀/M₁)^{1/2} for the bias.

    >>> stale_step_size([500, 1000], [1, 2], constant=1 / 30)  # L = 500τ, as in Figure 1 of the paper: h ∝ 1/τ
    array([0.0042, 0.0021])
    """
    count, tau = positive("steps", steps), positive("staleness", staleness)
    same_shape(steps=count, staleness=tau)
    c = real_number("constant", constant, above=0)
    if one_of("criterion", criterion, ("mse", "bias")) == "mse":
        return np.multiply(c, tau ** (-2 / 3) * count ** (-1 / 3))
    return np.multiply(c, (tau * count) ** -0.5)


def _constant(name: str, value: float) -> float:
    return real_number(name, value, least=0)


def _arguments(steps: npt.ArrayLike, staleness: npt.ArrayLike, order: int) -> tuple[Array, Array, int]:
    count, tau = positive("steps", steps), nonnegative("staleness", staleness)
    same_shape(steps=count, staleness=tau)
    return count, tau, whole_number("order", order, least=1)


def _chain_arguments(steps: npt.ArrayLike, staleness: npt.ArrayLike, order: int) -> tuple[Array, Array, int]:
    counts, tau = per_chain("steps", steps), nonnegative("staleness", staleness)
    same_shape(**{"steps without the chains": counts[..., 0], "staleness": tau})
    return counts, tau, whole_number("order", order, least=1)
