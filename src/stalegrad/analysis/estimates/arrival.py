"""Whether a chain has arrived where it will stay, or is still on its way: averages of the latter mean nothing."""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from stalegrad._internal.errors import ArgumentError
from stalegrad._internal.types import Array
from stalegrad._internal.validation import finite_array

FAR = 3.0
"""A chain travels if its first and last quarter are farther apart than so many times the spread within a quarter,"""

MOVING = 1.0
"""and its third and last quarter, in the same direction, than so many times."""

FEWEST_DRAWS = 20
"""Of a chain. With fewer nobody knows."""


class Travel(NamedTuple):
    """How far chains have travelled, each in the shape of one φ."""

    distance: Array
    """Between first and last quarter, in spreads within a quarter, of the chain that travels farthest."""
    chain: Array
    """Which chain that is: one that is still on its way, if there is any."""
    travelling: Array
    """Whether any chain is still on its way."""


def arrived(values: npt.ArrayLike) -> Array:
    """Whether no chain is still on its way, in the shape of one φ; chains too short to tell have arrived.

    >>> bool(arrived(np.linspace(0, 1, 40)[None])), bool(arrived(np.linspace(0, 1, 10)[None]))
    (False, True)
    """
    phi = np.asarray(values)
    short = phi.shape[1] < FEWEST_DRAWS
    return np.ones(phi.shape[2:], bool) if short else np.asarray(~travel(phi).travelling)


def travel(values: npt.ArrayLike) -> Travel:
    r"""Distance travelled against spread, chain by chain.

    With :math:`m_1, …, m_4` the means of the quarters of a chain and s the root mean square of the standard deviations
    within quarters, a chain travels if :math:`|m_4 - m_1| ≥ 3 s` and it has not come to rest: :math:`m_4 - m_3` goes in
    the same direction, by :math:`s_4` at least. A straight way has a distance of 10.4. A chain that is stationary, with
    25 effective draws, has a distance of 0.6 on average, and of 3 once in a million; one with hardly any effective
    draws, a random walk, reaches 3 about as often as not, and rightly so: nobody knows where it goes. A chain that
    came from afar and has stopped in its first half is at rest.

    No standard error is looked at: that of a travelling chain is wide because it travels, and would excuse it.

    Args:
        values: φ of every draw, (chain, draw, …), at least 20 draws of each chain.

    >>> noise = np.random.Generator(np.random.Philox(3)).normal(size=(2, 400))
    >>> bool(travel(noise).travelling), bool(travel(noise + np.linspace(0, 20, 400)).travelling)
    (False, True)
    """
    phi = finite_array("values", values, np.dtype(np.float64))
    if phi.ndim < 2 or phi.shape[1] < FEWEST_DRAWS:
        remedy = f"Give an array (chain, draw, …) with {FEWEST_DRAWS} draws a chain at the very least."
        raise ArgumentError("values", values, f"has shape {phi.shape}", remedy)
    length = phi.shape[1] // 4
    quarters = phi[:, -4 * length :].reshape(len(phi), 4, length, *phi.shape[2:])
    means, variances = quarters.mean(axis=2), quarters.var(axis=2)
    rounding = np.square(np.finfo(np.float32).eps * phi).mean(axis=1) + np.finfo(float).tiny
    within, last = (np.sqrt(np.maximum(v, rounding)) for v in (variances.mean(axis=1), variances[:, 3]))
    whole, late = means[:, 3] - means[:, 0], means[:, 3] - means[:, 2]
    distance = np.abs(whole) / within
    moving = (distance >= FAR) & (late * np.sign(whole) >= MOVING * last)
    chain = np.argmax(distance + moving * distance.max(axis=0), axis=0)
    farthest = np.take_along_axis(distance, chain[None], axis=0)[0]
    return Travel(np.asarray(farthest), np.asarray(chain), np.asarray(np.any(moving, axis=0)))
