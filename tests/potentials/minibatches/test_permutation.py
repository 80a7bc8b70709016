"""The network behind large epochs permutes the cells of its rectangle, or walks through it would never end."""

import numpy as np
import pytest

from stalegrad.potentials.minibatches.draws import _feistel


@pytest.mark.parametrize(("a", "b"), [(18, 17), (17, 17), (32, 31), (40, 7)])
@pytest.mark.parametrize("seed", range(3))
def test_every_cell_is_reached_from_exactly_one(a, b, seed):
    words = np.random.default_rng(seed).integers(2**63, size=4).astype(np.uint64)
    cells = [int(_feistel(np.uint64(x), np.uint64(a), np.uint64(b), words)) for x in range(a * b)]
    assert sorted(cells) == list(range(a * b))
    assert cells != sorted(cells)
