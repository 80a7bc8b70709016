"""The posterior predictive distribution of classes, averaged over draws as they come, none of them kept."""

from collections.abc import Mapping
from typing import Self

import numpy as np
import numpy.typing as npt

from stalegrad._internal.types import Array
from stalegrad.analysis.estimates.moments import StreamingMoments
from stalegrad.analysis.estimates.scores import (
    DEFAULT_BINS,
    Bins,
    Reliability,
    Scores,
    checked_probabilities,
    reliability_curve,
    score,
)
from stalegrad.analysis.estimates.uncertainty import RiskCoverage, entropies, risk_coverage


class PredictiveAverage(StreamingMoments):
    """p̂_ik = Σ_l h_l p(y_i = k | x_i, θ_l) / Σ_l h_l, and how far the draws spread around it.

    Memory is that of three predictions, whatever the number of draws. With the step sizes h_l as weights, the average
    over the draws of all chains is Σ_s (T_s/T) p̂_s, that of the chains' own; ``first + second`` computes it from chains
    that were averaged apart.

    The logarithm is concave, so the averaged prediction's log-likelihood is never below the average of the draws' own
    (Jensen); and the square is convex, so its Brier score is never above theirs.

    >>> average = PredictiveAverage()
    >>> average.add([[0.9, 0.1]])
    >>> average.add([[0.5, 0.5]])
    >>> average.probabilities, average.spread
    (array([[0.7, 0.3]]), array([[0.2, 0.2]]))
    >>> average.scores([0]).accuracy
    1.0
    """

    def __init__(self) -> None:
        super().__init__()
        self._entropies = StreamingMoments()  # of the draws' own predictions

    def __add__(self, other: object) -> Self:
        both = super().__add__(other)
        if isinstance(other, PredictiveAverage):
            both._entropies = self._entropies + other._entropies
        return both

    def arrays(self) -> dict[str, Array]:
        """Also the moments of entropies."""
        own = {f"entropy-{part}": array for part, array in self._entropies.arrays().items()}
        return super().arrays() | own

    def restore(self, arrays: Mapping[str, Array]) -> None:
        """Go on from what :meth:`arrays` gave."""
        super().restore(arrays)
        self._entropies.restore({part: arrays[f"entropy-{part}"] for part in ("totals", "mean", "squares")})

    def add(self, probabilities: npt.ArrayLike, weight: float = 1.0) -> None:
        """Take in one draw's prediction.

        Args:
            probabilities: p(y_i = k | x_i, θ_l), (rows, classes); always the same rows.
            weight: h_l.
        """
        p = checked_probabilities(probabilities)
        self._take("probabilities", probabilities, p, weight)
        self._entropies._take("probabilities", probabilities, entropies(p), weight)

    @property
    def probabilities(self) -> Array:
        """p̂_ik, averaged over the draws, (rows, classes)."""
        self._refuse_empty()
        return self._mean.copy()

    @property
    def spread(self) -> Array:
        """Standard deviation over draws of p(y_i = k | x_i, θ): what the data leave open about each probability."""
        self._refuse_empty()
        return np.sqrt(self._variance)

    @property
    def entropy(self) -> Array:
        """H(p̂_i) of every row, in nats: all that is uncertain about it."""
        self._refuse_empty()
        return entropies(self._mean)

    @property
    def expected_entropy(self) -> Array:
        """E H(p_i(θ)) over draws: what would stay uncertain if θ were known, such as of inputs that are ambiguous."""
        self._refuse_empty()
        return self._entropies._mean.copy()

    @property
    def mutual_information(self) -> Array:
        """H(p̂_i) − E H(p_i(θ)) ≥ 0, between class and θ: what more data would make certain (Houlsby et al. 2011)."""
        return np.asarray(np.maximum(self.entropy - self.expected_entropy, 0.0))

    def risk_coverage(self, y: npt.ArrayLike) -> RiskCoverage:
        """The error rate at every share of rows that are answered, those of small entropy first."""
        self._refuse_empty()
        return risk_coverage(self._mean, y, self.entropy)

    def scores(self, y: npt.ArrayLike, bins: Bins = DEFAULT_BINS) -> Scores:
        """Accuracy, log-likelihood, Brier score and calibration error of p̂."""
        self._refuse_empty()
        return score(self._mean, y, bins)

    def reliability(self, y: npt.ArrayLike, bins: Bins = DEFAULT_BINS) -> Reliability:
        """How often p̂ was right at each confidence, see :func:`~stalegrad.analysis.estimates.reliability_curve`."""
        self._refuse_empty()
        return reliability_curve(self._mean, y, bins)

    def __repr__(self) -> str:
        rows, classes = self._mean.shape if self.count else (0, 0)
        return f"PredictiveAverage({self.count} draws, {rows} rows, {classes} classes)"
