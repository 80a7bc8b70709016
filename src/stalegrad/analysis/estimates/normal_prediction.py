"""The posterior predictive distribution of numbers, averaged over draws as they come, none of them kept."""

import numpy as np
import numpy.typing as npt

from stalegrad._internal.types import Array
from stalegrad.analysis.estimates.moments import StreamingMoments
from stalegrad.analysis.estimates.normal_scores import (
    DEFAULT_LEVEL,
    NormalScores,
    checked_normal,
    half_width,
    score_normal,
)


class PredictiveNormal(StreamingMoments):
    """Mean and variance of the mixture Σ_l h_l N(μ_il, σ²_il) / Σ_l h_l, one normal a draw.

    By the law of total variance, with all averages over draws weighted by h_l,

        mean m_i = E μ_i,    variance v_i = E σ²_i + Var μ_i:

    the noise that no data take away, and what the data leave open about the mean. Intervals and scores are those of the
    normal N(m_i, v_i). They are exact where the mixture is normal, as for linear regression with known noise; of any
    other mixture the normal has the first two moments, and no more.

    Memory is that of four predictions, whatever the number of draws; chains that were averaged apart can be added.

    >>> average = PredictiveNormal()
    >>> average.add([1.0, 5.0], variance=0.5)
    >>> average.add([3.0, 5.0], variance=0.5)
    >>> average.mean, average.variance, average.spread
    (array([2., 5.]), array([1.5, 0.5]), array([1., 0.]))
    """

    def add(self, mean: npt.ArrayLike, variance: npt.ArrayLike, weight: float = 1.0) -> None:
        """Take in one draw's prediction.

        Args:
            mean: μ_l of every row, (rows,) or any other shape; always the same rows.
            variance: σ²_l of the noise, one number or one a row. With 0 the average is over the means alone.
            weight: h_l.
        """
        self._take("mean", mean, np.stack(checked_normal(mean, variance)), weight)

    @property
    def mean(self) -> Array:
        """m_i, the predictive mean of every row."""
        self._refuse_empty()
        return np.array(self._mean[0])

    @property
    def variance(self) -> Array:
        """v_i, of noise and spread together."""
        self._refuse_empty()
        return np.asarray(self._mean[1] + self._variance[0])

    @property
    def spread(self) -> Array:
        """Standard deviation over draws of μ_i: what the data leave open about the mean."""
        self._refuse_empty()
        return np.asarray(np.sqrt(self._variance[0]))

    def interval(self, level: float = DEFAULT_LEVEL) -> tuple[Array, Array]:
        """Ends of the central intervals that hold y_i with probability ``level`` under N(m_i, v_i)."""
        half = half_width(level) * np.sqrt(self.variance)
        return self.mean - half, self.mean + half

    def scores(self, y: npt.ArrayLike, level: float = DEFAULT_LEVEL) -> NormalScores:
        """Error, log density, coverage at ``level`` and CRPS, see :mod:`stalegrad.analysis.estimates.normal_scores`."""
        return score_normal(self.mean, self.variance, y, level)

    def __repr__(self) -> str:
        rows = self._mean[0].size if self.count else 0
        return f"PredictiveNormal({self.count} draws, {rows} rows)"
