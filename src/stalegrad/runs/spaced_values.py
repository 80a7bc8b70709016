"""Values of test functions at evenly spaced draws of a chain: a bounded number of them, however long the run is."""

import numpy as np

from stalegrad._internal.types import Array, IntArray

MOST = 1024
"""Draws of a chain that are looked at; the spacing doubles when there are more."""


class SpacedValues:
    """Values at the draws of one chain whose numbers, counted from 1, are multiples of a power of 2."""

    def __init__(self) -> None:
        self.spacing = 1
        self._kept: dict[int, Array] = {}
        self._weights: dict[int, float] = {}

    def wanted(self, first: int, end: int) -> IntArray:
        """Which of the draws in [first, end) are to be looked at."""
        start = -(-(first + 1) // self.spacing) * self.spacing - 1
        return np.arange(start, end, self.spacing)

    def add(self, number: int, values: Array, weight: float = 1.0) -> None:
        """The values at one draw, which has this number, counted from 0."""
        if (number + 1) % self.spacing:
            return
        self._kept[number], self._weights[number] = values, weight
        while len(self._kept) > MOST:
            self.spacing *= 2
            # A new table, not a smaller one: others may be looking at this one.
            self._kept = {n: v for n, v in self._kept.items() if (n + 1) % self.spacing == 0}
            self._weights = {n: self._weights[n] for n in self._kept}

    def until(self, end: int) -> "SpacedValues":
        """What was there when there were so many draws, at the present spacing."""
        then = SpacedValues()
        then.spacing = self.spacing
        then._kept = {number: values for number, values in self._kept.items() if number < end}
        then._weights = self._weights
        return then

    def series(self) -> tuple[IntArray, Array, Array]:
        """Numbers of draws, values (draw, function) and weights, in order; only spacings that are nearly complete."""
        kept = dict(self._kept)
        numbers, spacing = np.array(sorted(kept), np.int64), self.spacing
        while len(numbers) > 1 and len(numbers) < 0.9 * ((numbers[-1] - numbers[0]) // spacing + 1):
            spacing *= 2
            numbers = numbers[(numbers + 1) % spacing == 0]
        if not len(numbers):
            return numbers, np.empty((0, 0)), np.empty(0)
        return (
            numbers,
            np.stack([kept[n] for n in numbers.tolist()]),
            np.array([self._weights.get(n, 1.0) for n in numbers.tolist()]),
        )
