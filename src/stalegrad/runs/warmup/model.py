"""The posterior as the warm-up looks at it: gradients on all data, or on a fixed part of them, counted and reported."""

from dataclasses import replace
from math import ceil

import numpy as np

from stalegrad._internal.types import Array, IntArray
from stalegrad.potentials import Potential, Wrapper
from stalegrad.potentials.coordinates import Coordinates
from stalegrad.potentials.minibatches.scheme import Minibatches

PART = 20_000
"""Data of the part that is looked at first where there are more than twice as many."""

_PILOT_BATCH = 1_000  # data behind a gradient of the pilot chains, at least


class Counter:
    """What has been spent: data seen by gradients."""

    def __init__(self) -> None:
        self.data = 0


class Fixed(Wrapper):
    """U as a fixed part of the data gives it, all of them if it is small enough; its full gradient is on that part.

    Args:
        potential: the model.
        data: how many data to look at; None for all.
        counter: is told what is spent.
        seed: of which data.
    """

    def __init__(self, potential: Potential, data: int | None, counter: Counter, seed: int) -> None:
        super().__init__(potential)
        n, self._counter = potential.n_data, counter
        self._indices: IntArray | None = None
        if data is not None and data < n:
            generator = np.random.Generator(np.random.Philox(key=seed))
            self._indices = np.sort(generator.choice(n, data, replace=False, shuffle=False)).astype(np.int64)

    @property
    def whole(self) -> bool:
        """Whether it is all of the data."""
        return self._indices is None

    def gradient(self, theta: Array, indices: IntArray) -> Array:
        """g̃ of the model, and count the data that it saw."""
        self._counter.data += len(indices)
        return self.potential.gradient(theta, indices)

    def full_gradient(self, theta: Array) -> Array:
        """∇U on the part; NaN where the model overflows or refuses."""
        theta = np.ascontiguousarray(theta, self.dtype)
        with np.errstate(all="ignore"):
            if self._indices is None:
                self._counter.data += self.n_data
                return np.asarray(self.potential.full_gradient(theta), np.float64)
            return np.asarray(self.gradient(theta, self._indices), np.float64)


class PilotModel(Wrapper):
    """The model on minibatches that are large enough for chains to learn from, counted.

    Args:
        potential: the model.
        counter: is told what is spent.
    """

    def __init__(self, potential: Potential, counter: Counter) -> None:
        n, batch = potential.n_data, max(potential.batch_size, _PILOT_BATCH)
        exact = 2 * batch >= n
        super().__init__(potential, Minibatches(n, n if exact else batch))
        self._counter = counter
        self.exact = exact

    def anchored(self, coordinates: Coordinates) -> Coordinates:
        """With control variates at the centre, where gradients are not exact; it takes a pass over all data."""
        if self.exact:
            return coordinates
        self._counter.data += self.n_data
        gradient = self.potential.full_gradient(coordinates.centre)
        return replace(coordinates, anchor_gradient=gradient) if np.isfinite(gradient).all() else coordinates

    @property
    def minibatches_each(self) -> int:
        """How many of the model's own minibatches one gradient is worth."""
        return ceil(self.batch_size / self.potential.batch_size)

    def gradient(self, theta: Array, indices: IntArray) -> Array:
        """g̃ of the model, and count the data that it saw."""
        self._counter.data += len(indices)
        return self.potential.gradient(theta, indices)

    def gradients(self, theta: Array, indices: IntArray, out: Array) -> None:
        """g̃ of every row, and count the data that they saw."""
        self._counter.data += indices.size
        self.potential.gradients(theta, indices, out)
