"""The posterior predictive distribution, averaged over draws as they come, none of them kept."""

from typing import Self

import numpy as np
import numpy.typing as npt

from stalegrad.checks import real_number
from stalegrad.errors import ArgumentError
from stalegrad.estimates.scores import DEFAULT_BINS, Bins, Scores, checked_probabilities, score
from stalegrad.types import Array


class PredictiveAverage:
    """p̂_ik = Σ_l h_l p(y_i = k | x_i, θ_l) / Σ_l h_l, and how far the draws spread around it.

    Memory is that of two predictions, whatever the number of draws. With the step sizes h_l as weights, the average
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
        self.count = 0
        """Draws added so far."""
        self.weight = 0.0
        """Σ_l h_l."""
        self._mean = self._squares = np.zeros((0, 0))  # the second is Σ_l h_l (p_l − p̂)²

    def add(self, probabilities: npt.ArrayLike, weight: float = 1.0) -> None:
        """Take in one draw's prediction.

        Args:
            probabilities: p(y_i = k | x_i, θ_l), (rows, classes); always the same rows.
            weight: h_l.
        """
        p = checked_probabilities(probabilities)
        h = real_number("weight", weight, above=0)
        if self.count == 0:
            self._mean, self._squares = np.zeros_like(p), np.zeros_like(p)
        elif p.shape != self._mean.shape:
            problem = f"has shape {p.shape}, the draws before had {self._mean.shape}"
            raise ArgumentError("probabilities", probabilities, problem, "Predict the same rows with every draw.")
        # West (1979): the mean moves by its share of the difference, which loses no digits in a long stream.
        self.weight += h
        self.count += 1
        difference = p - self._mean
        self._mean += difference * (h / self.weight)
        self._squares += h * difference * (p - self._mean)

    @property
    def probabilities(self) -> Array:
        """p̂_ik, (rows, classes)."""
        self._refuse_empty()
        return self._mean.copy()

    @property
    def spread(self) -> Array:
        """Standard deviation over draws of p(y_i = k | x_i, θ): what the data leave open about each probability."""
        self._refuse_empty()
        return np.sqrt(np.maximum(self._squares, 0) / self.weight)

    def scores(self, y: npt.ArrayLike, bins: Bins = DEFAULT_BINS) -> Scores:
        """Accuracy, log-likelihood, Brier score and calibration error of p̂, see :mod:`stalegrad.estimates.scores`."""
        self._refuse_empty()
        return score(self._mean, y, bins)

    def __add__(self, other: object) -> Self:
        if not isinstance(other, type(self)):
            return NotImplemented
        if self.count and other.count and self._mean.shape != other._mean.shape:
            problem = f"averages shape {other._mean.shape}, the first {self._mean.shape}"
            raise ArgumentError("other", other, problem, "Add averages over the same rows.")
        both = type(self)()
        filled = [part for part in (self, other) if part.count]
        both.count = sum(part.count for part in filled)
        both.weight = sum(part.weight for part in filled)
        if filled:
            both._mean = np.asarray(sum(part._mean * (part.weight / both.weight) for part in filled))
            between = (part.weight * np.square(part._mean - both._mean) for part in filled)
            both._squares = np.asarray(sum(part._squares + extra for part, extra in zip(filled, between, strict=True)))
        return both

    def __repr__(self) -> str:
        rows, classes = self._mean.shape
        return f"PredictiveAverage({self.count} draws, {rows} rows, {classes} classes)"

    def _refuse_empty(self) -> None:
        if self.count == 0:
            raise ArgumentError("average", self, "has no draws yet", "Call add(probabilities) first.")
