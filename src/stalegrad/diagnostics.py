"""Whether chains agree: rank-normalised R-hat and bulk effective sample size, from ArviZ.

ArviZ is imported here only, and when it is asked for.
"""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from stalegrad.checks import finite_array
from stalegrad.errors import ArgumentError, MissingExtra
from stalegrad.types import Array

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
    :func:`stalegrad.estimates.effective_sample_size`, which does not.

    Args:
        values: φ of every draw, (chain, draw, …), at least 4 draws of each chain.

    >>> draws = np.random.Generator(np.random.Philox(4)).normal(size=(4, 1000))
    >>> agree, differ = convergence(draws), convergence(draws + [[0], [0], [0], [3]])
    >>> bool(agree.rhat < 1.01), bool(differ.rhat > 1.4), bool(agree.ess > 3000), bool(differ.ess < 50)
    (True, True, True, True)
    """
    phi = finite_array("values", values, _FLOAT64)
    if phi.ndim < 2 or phi.shape[0] < 1 or phi.shape[1] < LEAST_DRAWS:
        remedy = f"Give an array (chain, draw, …) with {LEAST_DRAWS} draws a chain at the very least."
        raise ArgumentError("values", values, f"has shape {phi.shape}", remedy)
    try:
        from arviz_stats.base import array_stats
    except ModuleNotFoundError as error:
        if error.name is None or error.name.partition(".")[0] not in ("arviz_stats", "scipy"):
            raise
        raise MissingExtra("R-hat", "demo") from error
    with np.errstate(invalid="ignore", divide="ignore"):  # a φ that does not vary
        rhat = array_stats.rhat(phi, chain_axis=0, draw_axis=1, method="rank")
        ess = array_stats.ess(phi, chain_axis=0, draw_axis=1, method="bulk")
    return Convergence(np.asarray(rhat), np.asarray(ess))
