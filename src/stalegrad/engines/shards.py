"""A sharded server: one update of a long vector, a part of it on each of several threads."""

from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise

from stalegrad.checks import whole_number
from stalegrad.kernels.base import Part, Split, whole
from stalegrad.noise import TILE


def split_over(shards: int) -> Split:
    """How an update is split over ``shards`` threads: compiled updates free the GIL, so that they run side by side.

    Handing out the parts takes some 50 µs and an update of 10⁵ coordinates 200 µs: shards are for longer vectors.
    """
    count = whole_number("shards", shards, least=1)
    return whole if count == 1 else Shards(count)


class Shards:
    """A :data:`Split` over threads of its own, which end with it.

    Args:
        count: k, how many parts; one of them is updated by the thread that asks.
    """

    def __init__(self, count: int) -> None:
        self._count = count
        self._pool = ThreadPoolExecutor(count - 1, thread_name_prefix="stalegrad-shard")

    def __call__(self, part: Part, n: int) -> None:
        """Update all n coordinates. Parts begin at whole tiles, the unit in which noise is made."""
        tiles = -(-n // TILE)
        bounds = [min(n, TILE * (tiles * k // self._count)) for k in range(self._count + 1)]
        first, *others = pairwise(bounds)
        pending = [self._pool.submit(part, start, stop) for start, stop in others if start < stop]
        part(*first)
        for future in pending:
            future.result()
