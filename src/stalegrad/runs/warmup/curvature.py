"""The Hessian of U by differences of gradients, and coordinates in which it is the identity."""

from typing import NamedTuple

import numpy as np

from stalegrad._internal.types import Array
from stalegrad.potentials import Potential
from stalegrad.potentials.coordinates import Coordinates
from stalegrad.potentials.wrappers.whitened import InCoordinates

MOST_DENSE = 600
"""Parameters up to which S is a full matrix: it takes n² multiplications an update, and its Hessian 2n gradients on all
data, or on a part of them."""

_WIDEST = 1e6
"""A direction along which nothing curves is taken to be so many times wider than the unit of its coordinates."""


class Bowl(NamedTuple):
    """What the Hessian is like at a point, in coordinates whose units are about right."""

    values: Array
    """Its eigenvalues, ascending."""
    vectors: Array
    """Its eigenvectors, as columns."""

    @property
    def upward(self) -> bool:
        """Whether U curves upwards in every direction, as far as rounding lets one see."""
        return bool(self.values[0] > -1e-4 * self.values[-1])


def bowl(potential: Potential, coordinates: Coordinates) -> Bowl:
    """The Hessian of V(z) = U(c + S z) at z = 0, by central differences: 2n full gradients.

    The step is a tenth of a unit, a hundredth in double precision.

    Args:
        potential: U.
        coordinates: c and S.
    """
    target = InCoordinates(potential, coordinates)
    step = 0.01 if potential.dtype == np.float64 else 0.1
    columns = np.empty((potential.size, potential.size))
    origin = np.zeros(potential.size)
    for i in range(potential.size):
        moved = origin.copy()
        moved[i] = step
        columns[i] = (target.full_gradient(moved) - target.full_gradient(-moved)) / (2 * step)
    if not np.isfinite(columns).all():
        columns = np.where(np.isfinite(columns), columns, 0.0)
    return Bowl(*np.linalg.eigh((columns + columns.T) / 2))


def whitening(coordinates: Coordinates, seen: Bowl) -> Coordinates:
    """Coordinates with the same centre in which the Hessian is the identity, as far as it curves upwards.

    Along directions where it curves downwards, or not at all, the scale is that of its amount, within bounds.
    """
    floor = max(float(np.abs(seen.values).max()) / _WIDEST**2, 1 / _WIDEST**2)
    spread = 1 / np.sqrt(np.maximum(np.abs(seen.values), floor))
    return stretched(coordinates, seen.vectors * spread)


def stretched(coordinates: Coordinates, matrix: Array, shift: Array | None = None) -> Coordinates:
    """Dense coordinates with S′ S′ᵀ = S M (S M)ᵀ and the centre c + S·shift.

    Args:
        coordinates: c and S.
        matrix: M, (n, n).
        shift: of the centre, in z.
    """
    inner, dtype = coordinates.matrix(), coordinates.centre.dtype
    centre = coordinates.centre.astype(np.float64)
    if shift is not None:
        centre = centre + inner @ shift
    return Coordinates(centre.astype(dtype), factor=upper_root(inner @ matrix).astype(dtype))


def upper_root(root: Array) -> Array:
    """The upper triangular S with S Sᵀ = R Rᵀ and a positive diagonal: R Q for a rotation Q.

    >>> root = upper_root(np.array([[1.0, 2.0], [0.5, 3.0]]))
    >>> np.allclose(root @ root.T, [[5.0, 6.5], [6.5, 9.25]]), bool(np.allclose(root, np.triu(root)))
    (True, True)
    """
    _, r = np.linalg.qr(root[::-1].T)  # R reversed has a lower triangular root: r.T
    upper = r.T[::-1, ::-1]
    return np.asarray(np.triu(upper * np.sign(np.diag(upper))))
