"""Whether chains agree: rank-normalised R-hat and bulk effective sample size from ArviZ, and a plain, quick R-hat.

ArviZ is imported here only, and when it is asked for: it brings SciPy along, which takes a second.
"""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from stalegrad._internal.errors import ArgumentError
from stalegrad._internal.types import Array
from stalegrad._internal.validation import finite_array

LEAST_DRAWS = 4
"""Per chain: halves of two are the least that R-hat can compare."""

_FLOAT64 = np.dtype(np.float64)


class Convergence(NamedTuple):
    """What the draws of several chains say about their mixing, each in the shape of one φ."""

    rhat: Array
    """Rank-normalised split R-hat: 1 when the halves of all chains look alike. NaN of a constant φ, or of one chain."""
    ess: Array
    """Bulk effective sample size: how many independent draws the draws of all chains are worth."""


def convergence(values: npt.ArrayLike) -> Convergence:
    """R-hat and bulk ESS of a test function (Vehtari, Gelman, Simpson, Carpenter and Bürkner, 2021).

    For a stale chain this ESS errs on the low side, see
    :func:`stalegrad.analysis.estimates.effective_sample_size`, which does not.

    Args:
        values: φ of every draw, (chain, draw, …), at least 4 draws of each chain.

    >>> draws = np.random.Generator(np.random.Philox(4)).normal(size=(4, 1000))
    >>> agree, differ = convergence(draws), convergence(draws + [[0], [0], [0], [3]])
    >>> bool(agree.rhat < 1.01), bool(differ.rhat > 1.4), bool(agree.ess > 3000), bool(differ.ess < 50)
    (True, True, True, True)
    """
    phi = _checked(values)
    from arviz_stats.base import array_stats

    with np.errstate(invalid="ignore", divide="ignore"):  # a φ that does not vary
        rhat = array_stats.rhat(phi, chain_axis=0, draw_axis=1, method="rank")
        ess = array_stats.ess(phi, chain_axis=0, draw_axis=1, method="bulk")
    return Convergence(np.asarray(rhat), np.asarray(ess))


def split_rhat(values: npt.ArrayLike) -> Array:
    """The plain R-hat of the halves of chains (Gelman et al., Bayesian Data Analysis, 3rd edition, 11.4), vectorised.

    With W the mean variance within the 2S half-chains of length n and B/n the variance of their means, it is
    √((n − 1)/n + (B/n)/W). It is what :func:`convergence` gives but for the ranks, hundreds of times as fast.

    Args:
        values: φ of every draw, (chain, draw, …), at least 4 draws of each chain.

    >>> draws = np.random.Generator(np.random.Philox(4)).normal(size=(4, 1000))
    >>> bool(split_rhat(draws) < 1.01), bool(split_rhat(draws + [[0], [0], [0], [3]]) > 1.4)
    (True, True)
    """
    halves = half_chains(_checked(values))
    length = halves.shape[1]
    within, between = halves.var(axis=1, ddof=1).mean(axis=0), halves.mean(axis=1).var(axis=0, ddof=1)
    with np.errstate(invalid="ignore", divide="ignore"):  # a φ that does not vary
        return np.asarray(np.sqrt((length - 1) / length + between / within))


def half_chains(phi: Array) -> Array:
    """The 2S halves of S chains, (chain, draw, …). Of an odd number of draws the one in the middle is left out."""
    half = phi.shape[1] // 2
    return np.concatenate([phi[:, :half], phi[:, -half:]])


def _checked(values: npt.ArrayLike) -> Array:
    phi = finite_array("values", values, _FLOAT64)
    if phi.ndim < 2 or phi.shape[0] < 1 or phi.shape[1] < LEAST_DRAWS:
        remedy = f"Give an array (chain, draw, …) with {LEAST_DRAWS} draws a chain at the very least."
        raise ArgumentError("values", values, f"has shape {phi.shape}", remedy)
    return phi
