"""How far the average over correlated draws is from the truth: long-run variance, standard error, effective size."""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from stalegrad._internal.errors import ArgumentError
from stalegrad._internal.types import Array
from stalegrad._internal.validation import finite_array
from stalegrad.analysis.estimates.draws import LEAST_DRAWS, Draws, WeightedDraws, weighted_draws

_FLOAT64 = np.dtype(np.float64)


def autocovariance(values: npt.ArrayLike) -> Array:
    """γ_k = (1/L) Σ_l z_l z_{l+k} with z = values − mean, for k = 0, …, L − 1, along the first axis, by FFT.

    >>> autocovariance([1.0, -1.0, 1.0, -1.0])
    array([ 1.  , -0.75,  0.5 , -0.25])
    """
    z = finite_array("values", values, _FLOAT64)
    if z.ndim == 0 or z.shape[0] == 0:
        raise ArgumentError("values", values, "has no draws", "Give an array with the draws along the first axis.")
    return _autocovariance(z - z.mean(0))


def long_run_variance(centred: npt.ArrayLike) -> Array:
    """Σ_{k ∈ ℤ} γ_k of one chain, (draw, …): L times the variance of its mean.

    The chain is cut in batches of b = L^{1/3} draws. On the batch means, with autocovariances γ̄_k, it is Geyer's
    initial monotone sequence: Γ_m = γ̄_{2m} + γ̄_{2m+1}, kept while positive and made to fall, gives b (2 ΣΓ_m − γ̄_0).

    Why both: the sequence alone is made for reversible chains. The autocovariance of a stale chain oscillates; cut off
    where it first turns negative, it overstates the variance, without limit as the step nears the limit of stability
    (by 40 % for SGLD with hλ = 0.2 and τ = 3). Batches average over the oscillation. Batch means alone, in turn, miss
    correlation longer than a batch, as of a posterior with flat directions; the sequence follows it. Together they are
    some 5 to 10 % on the safe side in both cases, once the chain is 50 correlation times long; more only so close to
    the limit of stability that the oscillation outlasts several batches.

    It is never taken below b γ̄_0 / log₁₀(L/b), much as in Stan, lest a lucky alternation of batches look exact.

    Args:
        centred: the draws minus the mean to measure from, which need not be the mean of this chain.

    >>> noise = np.random.default_rng(0).standard_normal(100_000)
    >>> chain = np.convolve(noise, np.ones(10) / 10, mode="valid")  # ten times the variance of its draws: Σ γ_k = 1
    >>> bool(0.9 < long_run_variance(chain - chain.mean()) < 1.2)
    True
    """
    z = finite_array("centred", centred, _FLOAT64)
    if z.ndim == 0 or z.shape[0] < LEAST_DRAWS:
        problem = f"has {z.shape[0] if z.ndim else 0} draws"
        raise ArgumentError("centred", centred, problem, f"Give {LEAST_DRAWS} draws at the very least.")
    length = round(len(z) ** (1 / 3))
    batches = len(z) // length
    means = z[len(z) - batches * length :].reshape(batches, length, *z.shape[1:]).mean(1)
    gamma = _autocovariance(means)
    even, odd = gamma[0 : batches - 1 : 2], gamma[1:batches:2]
    kept = np.logical_and.accumulate(even + odd > 0, axis=0)
    total = np.sum(np.minimum.accumulate(even + odd, axis=0), axis=0, where=kept)
    least = gamma[0] / max(1.0, np.log10(batches))
    return np.asarray(length * np.maximum(2 * total - gamma[0], least))


def mcse(values: Draws, *, step_sizes: npt.ArrayLike | Sequence[npt.ArrayLike] | None = None) -> Array:
    """Standard error of the average φ̂ of the draws of one or several chains.

    φ̂ = Σ_s (T_s/T) φ̂_s, where φ̂_s weighs the draws of chain s by their step sizes h_l and T_s = Σ_l h_l. Chains are
    independent, so the error is √(Σ_s (T_s/T)² σ_s²/L_s), with σ_s² the long-run variance of
    z_l = (L_s h_l/T_s)(φ_l − φ̂). The z are measured from the average of **all** chains: chains that disagree, because
    they are stuck, make the error large instead of going unnoticed.

    Args:
        values: (draw,), (chain, draw), (chain, draw, …) for a φ with several components, or a list of chains of
            different lengths.
        step_sizes: one number, one per chain, or one per draw (shaped like the chains). Without them every draw
            counts the same.

    Returns:
        An array of the shape of one φ: 0-dimensional for one number a draw.

    >>> draws = np.random.Generator(np.random.Philox(1)).normal(size=(4, 2500))
    >>> float(mcse(draws))  # independent draws: 1/√10000, give or take a tenth or two
    0.0114
    """
    return error_of_average(weighted_draws(values, step_sizes))


def error_of_average(draws: WeightedDraws) -> Array:
    """The standard error of ``draws.average``, as :func:`mcse` has it."""
    total: Array = np.zeros_like(draws.average)
    for chain, weight, share in zip(draws.chains, draws.weights, draws.shares, strict=True):
        length = len(chain)
        z = length * weight.reshape(length, *(1,) * (chain.ndim - 1)) * (chain - draws.average)
        total = total + share**2 * long_run_variance(z) / length
    return np.sqrt(total)


def effective_sample_size(values: Draws) -> Array:
    """The number of independent draws whose average would be as precise: Var(φ) / mcse².

    Var(φ) is measured from the average of all chains. Where φ does not vary it is the number of draws. For a stale
    chain it is larger than what ArviZ and Stan compute, for the reason in :func:`long_run_variance`.

    >>> draws = np.random.Generator(np.random.Philox(1)).normal(size=1000)
    >>> bool(800 < effective_sample_size(np.repeat(draws, 10)) < 1200)
    True
    """
    draws = weighted_draws(values, None)
    pooled = np.concatenate(draws.chains)
    variance, error = pooled.var(0), error_of_average(draws)
    rounding = np.finfo(np.float64).eps * np.abs(pooled).max(0)  # of a mean of equal numbers
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(variance > rounding**2, variance / error**2, len(pooled))


def _autocovariance(z: Array) -> Array:
    draws = len(z)
    size = 1 << (2 * draws - 1).bit_length()  # zeros enough that the circular correlation does not wrap
    spectrum = np.fft.rfft(z, size, axis=0)
    return np.asarray(np.fft.irfft(np.abs(spectrum) ** 2, size, axis=0)[:draws] / draws)
