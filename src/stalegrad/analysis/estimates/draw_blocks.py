"""Draws read a block at a time, for runs whose draws do not fit into memory."""

from collections.abc import Iterator

import numpy as np

from stalegrad._internal.errors import ArgumentError
from stalegrad._internal.types import Array
from stalegrad._internal.validation import whole_number

BLOCK_BYTES = 1 << 22
"""What a block takes at most, unless one draw of every chain takes more."""


def draw_blocks(draws: Array, thin: int = 1) -> Iterator[tuple[slice, Array]]:
    """Where the next draws go among all that are kept, and the draws themselves, (chain, draw, parameter).

    Args:
        draws: (chain, draw, parameter), an array or what can be sliced like one and has its ``shape`` and ``dtype``,
            such as an array on disk.
        thin: keep every thin-th draw, counted as by :func:`stalegrad.sample`.

    >>> [(where, block[0, :, 0].tolist()) for where, block in draw_blocks(np.arange(7.0).reshape(1, 7, 1), thin=3)]
    [(slice(0, 2, None), [2.0, 5.0])]
    """
    chains, _, size = draws.shape
    kept = kept_draws(draws, thin)
    length = max(1, BLOCK_BYTES // max(1, chains * size * np.dtype(draws.dtype).itemsize))
    for first in range(0, len(kept), length):
        part = kept[first : first + length]
        yield slice(first, first + len(part)), np.asarray(draws[:, part.start : part.stop : part.step])


def kept_draws(draws: Array, thin: int = 1) -> range:
    """Which draws are kept; one at least."""
    thin = whole_number("thin", thin, least=1)
    kept = range(thin - 1, draws.shape[1], thin)
    if draws.shape[1] == 0:
        remedy = "Keep some, or have the average made while they come: sg.sample(..., averages=...), run.averages."
        raise ArgumentError("draws", draws.shape, "holds none: the run kept no draws, or made none", remedy)
    if not kept:
        raise ArgumentError(
            "thin", thin, f"leaves none of {draws.shape[1]} draws", "Give a run with more, or thin less."
        )
    return kept
