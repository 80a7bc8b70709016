"""The ends of the spectrum of a symmetric matrix of which only products are known: Lanczos' method."""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from stalegrad._internal.types import Array

_LOOK = 16  # iterations between two looks at what there is
_CERTAIN = 0.1  # of a value, or of 1: the residual of a direction that counts as found


class Spectrum(NamedTuple):
    """Eigenvalues as far as the space that was looked at knows them, ascending."""

    values: Array
    vectors: Array
    """Orthonormal rows."""
    residuals: Array
    """|A v − λ v| of each."""

    @property
    def certain(self) -> Array:
        """Which of them are eigenvectors indeed."""
        return np.asarray(self.residuals < _CERTAIN * np.maximum(1.0, np.abs(self.values)))


def lanczos(
    product: Callable[[Array], Array],
    size: int,
    most: int,
    generator: np.random.Generator,
    until: Callable[[Spectrum], bool] = lambda seen: False,
) -> Spectrum:
    """Of the space of v, A v, A² v … for a random v, whose bases are kept orthogonal.

    Args:
        product: v ↦ A v.
        size: n.
        most: products at most.
        generator: of v.
        until: whether what has been seen is enough; asked now and then.

    >>> spectrum = lanczos(lambda v: v * [1.0, 5.0, 25.0], 3, 3, np.random.default_rng(0))
    >>> spectrum.values.round(6)
    array([ 1.,  5., 25.])
    """
    most = min(most, size)
    vectors, products = np.empty((most, size)), np.empty((most, size))
    direction = generator.standard_normal(size)
    for k in range(most):
        for _ in range(2):  # twice is enough to be orthogonal
            direction = direction - vectors[:k].T @ (vectors[:k] @ direction)
        vectors[k] = direction / np.linalg.norm(direction)
        direction = products[k] = product(vectors[k])
        if (k + 1) % _LOOK == 0 and k + 1 < most and until(seen := _ritz(vectors[: k + 1], products[: k + 1])):
            return seen
    return _ritz(vectors, products)


def _ritz(vectors: Array, products: Array) -> Spectrum:
    values, inner = np.linalg.eigh((vectors @ products.T + products @ vectors.T) / 2)
    rows = inner.T @ vectors
    return Spectrum(values, rows, np.linalg.norm(inner.T @ products - values[:, None] * rows, axis=1))
