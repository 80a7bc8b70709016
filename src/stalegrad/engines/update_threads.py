"""An update of a long vector on several threads, a part of it on each: the same bits, sooner."""

from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise

from stalegrad._internal.validation import whole_number
from stalegrad.kernels.fused import Part, Split, whole
from stalegrad.kernels.noise import TILE


def split_over(threads: int) -> Split:
    """How an update is split over so many threads: compiled updates free the GIL, so that they run side by side.

    Handing out the parts takes some 50 µs and an update of 10⁵ coordinates 200 µs: threads are for longer vectors.
    """
    count = whole_number("update_threads", threads, least=1)
    return whole if count == 1 else OverThreads(count)


class OverThreads:
    """A :data:`Split` over threads of its own, which end with it.

    Args:
        count: k, how many parts; one of them is updated by the thread that asks.
    """

    def __init__(self, count: int) -> None:
        self._count = count
        self._pool = ThreadPoolExecutor(count - 1, thread_name_prefix="stalegrad-update")

    def __call__(self, part: Part, n: int) -> None:
        """Update all n coordinates. Parts begin at whole tiles, the unit in which noise is made."""
        tiles = -(-n // TILE)
        bounds = [min(n, TILE * (tiles * k // self._count)) for k in range(self._count + 1)]
        first, *others = pairwise(bounds)
        pending = [self._pool.submit(part, start, stop) for start, stop in others if start < stop]
        part(*first)
        for future in pending:
            future.result()
