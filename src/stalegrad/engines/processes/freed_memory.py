"""What the C library does with memory that a worker's model has freed.

Each gradient of a network asks for the same megabytes again. Given back to the system in between, they return as pages
that the kernel has to empty first: with Cifar10-Quick that is a quarter of a gradient's time.
"""

import ctypes

_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3  # of mallopt(3)
_KEPT = 1 << 30  # bytes


def keep_freed_memory() -> None:
    """Have this process, which belongs to a worker, keep what it frees. For the GNU C library only."""
    library = ctypes.CDLL(None)
    if hasattr(library, "mallopt"):
        library.mallopt(_M_TRIM_THRESHOLD, _KEPT)
        library.mallopt(_M_MMAP_THRESHOLD, _KEPT)
