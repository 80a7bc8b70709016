"""The memory that a server shares with its workers' processes: nobody's part of it is anybody else's."""

import os

import numpy as np
import pytest

from stalegrad.engines.processes.shared import Slots, anonymous_file


@pytest.mark.parametrize("size", [1, 5, 16, 17, 40])
def test_headers_points_and_gradients_of_all_workers_lie_apart(size):
    """Also where vectors are no multiple of a cache line."""
    workers, dtype = 3, np.float32
    descriptor = anonymous_file(Slots.bytes(workers, size, dtype))
    try:
        slots, others = (Slots(descriptor, workers, size, dtype) for _ in range(2))
        for w in range(workers):
            for k in range(8):
                slots.headers[w][k] = 100 * w + k
            slots.points[w][...] = 1000 + w
            slots.gradients[w][...] = 2000 + w
        for w in range(workers):  # as another process sees it
            assert others.headers[w].tolist() == [100 * w + k for k in range(8)]
            assert (others.points[w] == 1000 + w).all()
            assert (others.gradients[w] == 2000 + w).all()
            assert others.points[w].ctypes.data % 64 == others.gradients[w].ctypes.data % 64 == 0
        slots.close()
        others.close()
    finally:
        os.close(descriptor)
