"""Draws that are on disk and larger than the memory: read in bounded blocks, and not all where they are very many."""

import numpy as np
import pytest
import zarr

from stalegrad.analysis.plots import choose, components, quantities

from .cases import Made

CHAINS, DRAWS, SIZE = 2, 60, 3000


class OnDisk:
    """Draws (chain, draw, n) that are computed when they are read, and that count how much was read."""

    def __init__(self):
        self.shape, self.largest, self.total = (CHAINS, DRAWS, SIZE), 0, 0

    def __getitem__(self, key):
        chain, rows = key
        taken = np.atleast_1d(np.arange(DRAWS)[rows])
        block = 1e6 * chain + 1e4 * taken[:, None] + np.arange(SIZE)
        self.largest, self.total = max(self.largest, block.size), self.total + block.size
        return block if isinstance(rows, slice) else block[0]


@pytest.fixture
def bounds(monkeypatch):
    """What a gigabyte is to a large model, these few numbers are to this one."""
    monkeypatch.setattr(components, "BLOCK_ENTRIES", 4 * SIZE)
    monkeypatch.setattr(components.stride, "__defaults__", (CHAINS * 20 * SIZE,))
    monkeypatch.setattr(quantities, "_SCAN_ENTRIES", CHAINS * 10 * SIZE)


def test_blocks_and_the_whole_are_bounded(bounds):
    draws = OnDisk()
    chosen = choose(Made(draws), most=3)
    assert chosen.how == (
        "Shown are 3 of 3,000 parameters, those that mix worst among 512 that were looked at. "
        "One draw in every 3 was read."
    )
    assert draws.largest <= 4 * SIZE
    assert draws.total <= (1 + CHAINS * 10 + CHAINS * 20) * SIZE
    for quantity in chosen.quantities:
        index = int(quantity.name[6:-1])
        for chain in range(CHAINS):
            np.testing.assert_array_equal(quantity.chains[chain], 1e6 * chain + 1e4 * np.arange(0, DRAWS, 3) + index)
        np.testing.assert_array_equal(quantity.updates[0], 1 + np.arange(0, DRAWS, 3))


def test_the_real_bounds_are_those_that_the_documentation_states():
    lenet = 431_080
    chains = [np.broadcast_to(np.float32(0), (draws, lenet)) for draws in (310, 310)]
    assert components.stride(chains) == 1
    assert components.stride([np.broadcast_to(np.float32(0), (620, lenet))] * 2) == 2
    assert components.BLOCK_ENTRIES * 4 == 2**24


def test_a_stored_array_is_drawn_like_one_in_memory(tmp_path):
    values = np.random.Generator(np.random.Philox(key=1)).standard_normal((2, 30, 8)).astype(np.float32)
    stored = zarr.create_array(tmp_path / "draws.zarr", data=values, chunks=(1, 7, 8))
    for run in (Made(stored), Made(values, chain_draws=tuple(zarr.create_array({}, data=chain) for chain in values))):
        for one, other in zip(choose(run).quantities, choose(Made(values)).quantities, strict=True):
            assert one.name == other.name
            np.testing.assert_array_equal(one.common, other.common)
