"""The numbers that a draw is made of: their names, and how to read a few of them out of very many draws.

Draws may live on disk and be larger than the memory. They are read in blocks of at most ``BLOCK_ENTRIES`` numbers, of
which the wanted ones are kept, and at most ``MOST_ENTRIES`` numbers are read in all: where a run has more, every k-th
draw is looked at, with the least k that will do.
"""

import math
import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from stalegrad._internal.errors import ArgumentError
from stalegrad._internal.types import Array, IntArray
from stalegrad.potentials.names import component_name

BLOCK_ENTRIES = 1 << 22
"""16 MB in float32."""

MOST_ENTRIES = 1 << 28
"""1 GB in float32: 310 draws of each of two chains of a network with 431,080 weights."""


class Components:
    """The scalar components of named variables, numbered through all of them.

    Args:
        variables: turns draws (…, n) into named variables, see :meth:`stalegrad.potentials.Potential.variables`.
        example: one draw, (n,).

    >>> components = Components(lambda draws: {"w": draws[..., :4].reshape(-1, 2, 2), "b": draws[..., 4]}, np.zeros(5))
    >>> components.count, [components.name(k) for k in (0, 3, 4)]
    (5, ['w[0, 0]', 'w[1, 1]', 'b'])
    >>> components.range("w"), components.range("w[1,0]")
    (range(0, 4), range(2, 3))
    """

    def __init__(self, variables: Callable[[Array], dict[str, Array]], example: Array) -> None:
        self._variables = variables
        pieces = variables(np.asarray(example)[None])
        self._shapes = {name: np.shape(piece)[1:] for name, piece in pieces.items()}
        ends = np.cumsum([math.prod(shape) for shape in self._shapes.values()])
        self._starts = dict(zip(self._shapes, [0, *ends[:-1].tolist()], strict=True))
        self.count = int(ends[-1])

    @property
    def shapes(self) -> dict[str, tuple[int, ...]]:
        """The shape of every variable, by name."""
        return self._shapes

    def name(self, index: int) -> str:
        """What component number ``index`` is called."""
        variable = next(name for name in reversed(self._starts) if self._starts[name] <= index)
        return component_name(variable, self._shapes[variable], index - self._starts[variable])

    def range(self, name: str) -> range:
        """The numbers of all components of a variable, or of the one component that ``name`` is the name of."""
        found = re.fullmatch(r"(.*)\[([\d,\s]+)\]", name, re.DOTALL)
        if name in self._shapes:
            return range(self._starts[name], self._starts[name] + math.prod(self._shapes[name]))
        if found and found[1] in self._shapes:
            shape, place = self._shapes[found[1]], [int(digits) for digits in re.findall(r"\d+", found[2])]
            if len(place) == len(shape) and all(at < size for at, size in zip(place, shape, strict=True)):
                index = self._starts[found[1]] + int(np.ravel_multi_index(place, shape))
                return range(index, index + 1)
        shapes = ", ".join(f"{each} of shape {shape}" for each, shape in self._shapes.items())
        raise ArgumentError(
            "parameters", name, "is neither a variable of this model nor a component of one",
            f"It has {shapes}; write a component as {self.name(self.count - 1)!r}.",
        )  # fmt: skip

    def read(self, chain: Any, indices: Sequence[int] | IntArray, every: int = 1) -> Array:
        """These components of every k-th draw of a chain (draw, n), as float64 (draw, component)."""
        wanted = np.asarray(indices)
        parts = [self._pick(block, wanted) for block in blocks(chain, every)]
        return np.concatenate(parts) if parts else np.empty((0, len(wanted)))

    def _pick(self, block: Array, wanted: IntArray) -> Array:
        picked = np.empty((len(block), len(wanted)))
        for name, piece in self._variables(block).items():
            flat = np.asarray(piece).reshape(len(block), -1)
            inside = (wanted >= self._starts[name]) & (wanted < self._starts[name] + flat.shape[1])
            picked[:, inside] = flat[:, wanted[inside] - self._starts[name]]
        return picked


def blocks(chain: Any, every: int = 1) -> Iterator[Array]:
    """Every k-th draw of a chain (draw, n), a bounded number at a time; ``chain`` need not be in memory."""
    rows = every * max(1, BLOCK_ENTRIES // max(1, chain.shape[-1]))
    for first in range(0, len(chain), rows):
        yield np.asarray(chain[first : first + rows : every])


def stride(chains: Sequence[Any], entries: int = MOST_ENTRIES) -> int:
    """The least k for which every k-th draw of all chains is no more than so many numbers."""
    total: int = sum(math.prod(chain.shape) for chain in chains)
    return max(1, math.ceil(total / entries))
