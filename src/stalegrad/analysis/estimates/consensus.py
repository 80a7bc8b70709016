"""Draws of subset posteriors made into draws of the posterior: consensus Monte Carlo's last step."""

from typing import Any

import numpy as np

from stalegrad._internal.errors import ArgumentError
from stalegrad._internal.types import Array
from stalegrad._internal.validation import one_of


def consensus_draws(draws: Any, *, weights: str = "full") -> Array:
    r"""Precision-weighted averages of the draws of S subset posteriors, one of each at a time.

    .. math:: θ_d = \Bigl(\sum_s Σ_s^{-1}\Bigr)^{-1} \sum_s Σ_s^{-1} θ_{s,d},

    where Σ_s is the sample covariance of chain s. (Scott, Blocker, Bonassi, Chipman, George and McCulloch, 2016, Bayes
    and big data: the consensus Monte Carlo algorithm.) Where all subset posteriors are normal, these are draws of the
    posterior, exactly as far as the covariances are known. **Where they are not, it is not**: averages of draws are
    closer to normal than the draws. The consensus of skewed subset posteriors is less skewed than the posterior, and
    off in its mean; of subset posteriors with several modes it is concentrated where no mode is. More draws do not
    help.

    Args:
        draws: (…, S, D, n), D draws of each subset posterior.
        weights: ``"full"`` covariances, which need D > n, or ``"diagonal"`` ones: n variances of each chain, for models
            of many parameters.

    Returns:
        Draws (…, D, n).

    >>> rng = np.random.default_rng(1)
    >>> narrow, wide = rng.normal(0.0, 1.0, (5000, 1)), rng.normal(5.0, 2.0, (5000, 1))
    >>> consensus = consensus_draws([narrow, wide])
    >>> f"{consensus.mean():.1f} {consensus.var():.1f}"  # 5 · (1/4) / (1 + 1/4) and 1 / (1 + 1/4)
    '1.0 0.8'
    """
    values = np.asarray(draws)
    one_of("weights", weights, ("full", "diagonal"))
    if values.ndim < 3 or values.shape[-3] < 2:
        problem = f"has shape {values.shape}, that is no two chains of draws"
        raise ArgumentError("draws", values.shape, problem, "Give (chain, draw, parameter).")
    count, size = values.shape[-2:]
    if count <= (size if weights == "full" else 1):
        problem = f"has {count} draws a chain for covariances of {size} parameters"
        raise ArgumentError("draws", values.shape, problem, "Give more draws, or weights='diagonal'.")
    exact = values.astype(np.float64)
    centred = exact - exact.mean(axis=-2, keepdims=True)
    if weights == "diagonal":
        precisions = (count - 1) / np.square(centred).sum(axis=-2, keepdims=True)
        together = (precisions * exact).sum(axis=-3) / precisions.sum(axis=-3)
        return np.asarray(together, values.dtype)
    inverses = np.linalg.inv(np.swapaxes(centred, -1, -2) @ centred / (count - 1))
    weighed = (exact @ inverses).sum(axis=-3)  # inverses are symmetric
    return np.asarray(
        np.swapaxes(np.linalg.solve(inverses.sum(axis=-3), np.swapaxes(weighed, -1, -2)), -1, -2), values.dtype
    )
