"""Weighted mean and variance of arrays as they come, none of them kept."""

from collections.abc import Mapping
from typing import Any, Self

import numpy as np

from stalegrad._internal.errors import ArgumentError
from stalegrad._internal.types import Array
from stalegrad._internal.validation import real_number


class StreamingMoments:
    """x̂ = Σ_l h_l x_l / Σ_l h_l and Σ_l h_l (x_l − x̂)² / Σ_l h_l, of arrays x_l of one shape.

    Memory is that of two of the x, however many there are. ``first + second`` has the moments of both streams.
    """

    def __init__(self) -> None:
        self.count = 0
        """Draws added so far."""
        self.weight = 0.0
        """Σ_l h_l."""
        self._mean: Array = np.zeros(0)
        self._squares: Array = np.zeros(0)  # Σ_l h_l (x_l − x̂)²

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

    def arrays(self) -> dict[str, Array]:
        """All that the moments are made of, as plain arrays; :meth:`restore` reads them."""
        return {"totals": np.array([self.count, self.weight]), "mean": self._mean, "squares": self._squares}

    def restore(self, arrays: Mapping[str, Array]) -> None:
        """Go on from what :meth:`arrays` gave."""
        self.count, self.weight = int(arrays["totals"][0]), float(arrays["totals"][1])
        self._mean, self._squares = np.array(arrays["mean"]), np.array(arrays["squares"])

    def _take(self, name: str, given: Any, values: Array, weight: float) -> None:
        """Count ``values``, which the caller has checked and who gave them as the argument ``name``."""
        h = real_number("weight", weight, above=0)
        if self.count == 0:
            self._mean, self._squares = np.zeros_like(values), np.zeros_like(values)
        elif values.shape != self._mean.shape:
            problem = f"has shape {values.shape}, the draws before had {self._mean.shape}"
            raise ArgumentError(name, given, problem, "Predict the same rows with every draw.")
        # West (1979): the mean moves by its share of the difference, which loses no digits in a long stream.
        self.weight += h
        self.count += 1
        difference = values - self._mean
        self._mean += difference * (h / self.weight)
        self._squares += h * difference * (values - self._mean)

    @property
    def _variance(self) -> Array:
        """Σ_l h_l (x_l − x̂)² / Σ_l h_l."""
        return np.maximum(self._squares, 0) / self.weight

    def _refuse_empty(self) -> None:
        if self.count == 0:
            raise ArgumentError("average", self, "has no draws yet", "Add a prediction first.")
