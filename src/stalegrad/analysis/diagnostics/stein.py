"""The kernel Stein discrepancy: how far draws are from the exact posterior, bias included.

Effective sample size and R-hat see how well a chain has explored the law that it converges to. A sampler with a finite
step, stale or noisy gradients converges to another law than the posterior, and they do not see that. This does. It asks
for the exact gradient of U at some hundreds of draws, and no normalising constant.
"""

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from stalegrad._internal.errors import ArgumentError
from stalegrad._internal.types import Array
from stalegrad._internal.validation import finite_array, real_number, whole_number
from stalegrad.analysis.estimates import effective_sample_size
from stalegrad.analysis.estimates.draws import LEAST_DRAWS
from stalegrad.potentials import Potential

_FLOAT64 = np.dtype(np.float64)
_BLOCK = 4096  # coordinates at a time
_LOOKED_AT = 256  # coordinates whose correlation decides the bootstrap's
_SLOWEST = 0.9


class SteinDiscrepancy(NamedTuple):
    """How far draws are from the posterior."""

    value: float
    """√(Σ_ij w_i w_j k_p(x_i, x_j)): 0 for the posterior itself, and for m draws from it of the order of 1/√m."""
    p_value: float
    """How often draws from the posterior, correlated like these, would be as far away. Small: the draws are biased."""
    typical: float
    """The median of the discrepancies of such draws."""
    unbiased: float
    """The mean of k_p over pairs of different draws, an estimate of the square that is 0 on average for the posterior
    where draws are independent; it may be negative."""
    draws: int
    """m, how many were used."""


def kernel_stein_discrepancy(
    draws: Any,
    potential: Potential,
    *,
    step_sizes: npt.ArrayLike | None = None,
    temperature: float = 1.0,
    most_draws: int = 500,
    scale: npt.ArrayLike | None = None,
    bootstraps: int = 1000,
    seed: int = 0,
) -> SteinDiscrepancy:
    r"""Kernel Stein discrepancy of draws from p ∝ exp(−U/T), with the inverse multiquadric kernel.

    With s = −∇U/T and a kernel k, the function

    .. math:: k_p(x, y) = s(x)^\top s(y)\,k + s(x)^\top ∇_y k + s(y)^\top ∇_x k + ∇_x·∇_y k

    has mean 0 under p in either argument, so Σ_ij w_i w_j k_p(x_i, x_j) → 0 if and only if the weighted draws converge
    to p, for the kernel k(x, y) = (1 + r²)^{−1/2}, r² = Σ_i (x_i − y_i)²/ℓ_i², and posteriors with tails as of a
    Gaussian (Gorham and Mackey 2017; kernels of lighter tails do not see everything). Here with a = x − y and
    b = 1 + r², in coordinates where ℓ = 1,

    .. math:: k_p = \frac{s(x)^\top s(y)}{b^{1/2}} + \frac{(s(x) − s(y))^\top a + n}{b^{3/2}} − \frac{3 r^2}{b^{5/2}}.

    The p-value is by wild bootstrap: Σ_ij w_i w_j W_i W_j k_p(x_i, x_j) with random signs W, which along a chain flip
    so seldom that they stay correlated for five times as long as the draws do (Chwialkowski et al. 2016).

    Cost: ``most_draws`` full gradients and the square of their number times n. The power to see errors of the variance
    falls with the number of dimensions: in hundreds of them a small p-value says much and a large one little.

    Args:
        draws: (draw, n) or (chain, draw, n).
        potential: the model, whose ``full_gradient`` is called.
        step_sizes: weights of the draws, shaped like them; equal if not given.
        temperature: T.
        most_draws: m; of more draws every k-th is taken.
        scale: ℓ, a number or n of them. By default the standard deviation of each coordinate times the median distance
            of draws that have been divided by it.
        bootstraps: how many, for the p-value.
        seed: of the bootstrap.

    References:
        J. Gorham, L. Mackey (2017). Measuring sample quality with kernels. ICML.
        K. Chwialkowski, H. Strathmann, A. Gretton (2016). A kernel test of goodness of fit. ICML.

    >>> from stalegrad.potentials import GaussianMean
    >>> model = GaussianMean(np.zeros((3, 2)), dtype=np.float64)  # the posterior is N(0, 1/4) in both coordinates
    >>> draws = np.random.Generator(np.random.Philox(6)).normal(0, 0.5, size=(400, 2))
    >>> right, wrong = kernel_stein_discrepancy(draws, model), kernel_stein_discrepancy(draws + 0.2, model)
    >>> right.p_value > 0.05, wrong.p_value < 0.01, wrong.value > 3 * right.value
    (True, True, True)
    """
    temperature = real_number("temperature", temperature, above=0)
    bootstraps = whole_number("bootstraps", bootstraps, least=1)
    chains, weights = _chosen(draws, step_sizes, whole_number("most_draws", most_draws, least=LEAST_DRAWS), potential)
    rows = chains.reshape(-1, potential.size)
    scores = np.stack([-potential.full_gradient(theta) / temperature for theta in rows])
    lengths = _lengths(rows) if scale is None else _given(scale, potential.size)
    matrix = stein_matrix(rows, scores, lengths)
    w = weights.ravel() / weights.sum()
    squared = max(float(w @ matrix @ w), 0.0)
    null = np.sort(_null(matrix, w, chains, bootstraps, seed))
    others = squared - float(np.square(w) @ np.diag(matrix))
    return SteinDiscrepancy(
        value=squared**0.5,
        p_value=float((1 + np.count_nonzero(null >= squared)) / (1 + bootstraps)),
        typical=float(np.median(null)) ** 0.5,
        unbiased=others / (1 - float(np.square(w).sum())),
        draws=len(rows),
    )


def stein_matrix(points: Array, scores: Array, lengths: npt.ArrayLike = 1.0) -> Array:
    """k_p(x_i, x_j) for all pairs of ``points`` (m, n) with their ``scores`` s(x_i) (m, n): (m, m) in float64."""
    count, size = points.shape
    scaled = np.broadcast_to(np.asarray(lengths, np.float64), (size,))
    xx, ss, sx = (np.zeros((count, count)) for _ in range(3))
    for first in range(0, size, _BLOCK):
        block = slice(first, first + _BLOCK)
        x = points[:, block].astype(np.float64)
        x = (x - x.mean(axis=0)) / scaled[block]
        s = scores[:, block] * scaled[block]
        xx += x @ x.T
        ss += s @ s.T
        sx += s @ x.T
    squares = np.diag(xx)
    r2 = np.maximum(squares[:, None] + squares - 2 * xx, 0)
    np.fill_diagonal(r2, 0)
    own = np.diag(sx)[:, None] - sx  # s(x_i)ᵀ(x_i − x_j)
    b = 1 + r2
    return np.asarray(ss / np.sqrt(b) + (own + own.T + size) / b**1.5 - 3 * r2 / b**2.5)


def _chosen(draws: Any, step_sizes: Any, most: int, potential: Potential) -> tuple[Array, Array]:
    """At most so many draws, (chain, draw, n), and their weights."""
    shape = np.shape(draws)
    if len(shape) not in (2, 3) or shape[-1] != potential.size or shape[-2] < LEAST_DRAWS or shape[0] == 0:
        remedy = f"Give (draw, {potential.size}) or (chain, draw, {potential.size}), {LEAST_DRAWS} draws or more."
        raise ArgumentError("draws", draws, f"has shape {shape}", remedy)
    many = draws if len(shape) == 3 else np.asarray(draws)[None]
    weights = np.ones(shape[:-1]) if step_sizes is None else finite_array("step_sizes", step_sizes, _FLOAT64)
    if weights.shape != shape[:-1] or np.any(weights <= 0):
        problem = f"has shape {weights.shape} or entries ≤ 0"
        raise ArgumentError("step_sizes", step_sizes, problem, f"Give positive numbers of shape {shape[:-1]}.")
    every = -(-many.shape[0] * many.shape[1] // most)
    every = max(1, min(every, many.shape[1] // LEAST_DRAWS))
    kept = finite_array("draws", many[:, every - 1 :: every], potential.dtype)
    return kept, weights.reshape(many.shape[:2])[:, every - 1 :: every]


def _lengths(rows: Array) -> Array:
    spread = rows.std(axis=0, dtype=np.float64)
    spread[spread == 0] = 1.0
    z = ((rows - rows.mean(axis=0)) / spread)[: 500 * max(1, len(rows) // 500) : max(1, len(rows) // 500)]
    inner = z @ z.T
    squares = np.diag(inner)
    distances = np.sqrt(np.maximum(squares[:, None] + squares - 2 * inner, 0)[np.triu_indices(len(z), 1)])
    return np.asarray(spread * (float(np.median(distances)) or 1.0))


def _given(scale: npt.ArrayLike, size: int) -> Array:
    lengths = finite_array("scale", scale, _FLOAT64)
    if lengths.shape not in ((), (size,)) or np.any(lengths <= 0):
        raise ArgumentError("scale", scale, "is not a length", f"Give a number > 0, or {size} of them.")
    return lengths


def _null(matrix: Array, weights: Array, chains: Array, bootstraps: int, seed: int) -> Array:
    """The squared discrepancy under random signs that stay the same for a while."""
    count, length, size = chains.shape
    slow = np.quantile(length * count / effective_sample_size(chains[:, :, :: -(-size // _LOOKED_AT)]), _SLOWEST)
    flip = (1 - np.exp(-1 / (5 * (slow - 1)))) / 2 if slow > 1 else 0.5
    uniform = np.random.Generator(np.random.Philox(key=seed)).random((bootstraps, count, length))
    uniform[:, :, 0] = uniform[:, :, 0] * 2 * flip  # a fresh sign for each chain
    signs = np.cumprod(np.where(uniform < flip, -1.0, 1.0), axis=2).reshape(bootstraps, -1) * weights
    return np.asarray(np.einsum("bi,bi->b", signs @ matrix, signs))
