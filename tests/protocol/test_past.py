"""A trace in a few numbers, block by block."""

from dataclasses import replace

import numpy as np
import pytest

import stalegrad as sg
from stalegrad.engines.simulation import LogNormal
from stalegrad.protocol import chain_trace
from stalegrad.protocol.past import Past
from stalegrad.protocol.staleness_counts import StalenessCounts


@pytest.fixture
def chain(monkeypatch):
    monkeypatch.setattr(chain_trace, "BLOCK_ROWS", 7)
    (made,) = sg.simulate(workers=5, steps=200, compute=LogNormal(1.0, 0.7), max_staleness=5).chains
    assert len(list(made.blocks())) > 20
    assert made.steps < len(made)
    return made


def test_of_blocks_is_that_of_the_whole(chain):
    past, updates = Past.of(chain), chain.updates()
    assert (past.rows, past.steps) == (len(chain), chain.steps)
    assert (past.staleness_sum, past.staleness_max) == (updates.staleness.sum(), updates.staleness.max())
    assert past.seconds == chain.time[-1]
    assert past.counts == {worker: chain.count[chain.worker == worker].max() for worker in range(5)}


@pytest.mark.parametrize("epoch", [1, 10])
def test_minibatches_go_on_at_an_epoch(chain, epoch):
    past = Past.of(chain)
    for worker, count in past.next_counts(epoch).items():
        assert count % epoch == 0
        assert 0 < count - past.counts[worker] <= epoch


def test_nothing_has_happened_yet():
    assert Past().next_counts() == {}
    assert Past().then(sg.Trace.constant_staleness(0, 3).chains[0].part(slice(0, 0))) == Past()


def test_staleness_is_counted_the_same(chain):
    counts = chain.staleness_counts
    for tau, used, dropped in zip(*counts, strict=True):
        assert used == np.sum(chain.accepted & (chain.staleness == tau))
        assert dropped == np.sum(~chain.accepted & (chain.staleness == tau))
    assert counts.mean == chain.staleness[chain.accepted].mean()
    assert counts.largest == chain.staleness[chain.accepted].max()
    for q in (0.0, 0.5, 0.9, 0.99, 1.0):
        assert counts.quantile(q) == np.quantile(chain.staleness, q, method="higher")
    twice = StalenessCounts.together([counts, counts])
    np.testing.assert_array_equal(twice.used, 2 * counts.used)
    assert twice.arrived == 2 * len(chain)


def test_rows_of_updates_are_found_across_blocks(chain):
    numbers = np.arange(3, chain.steps, 11)
    np.testing.assert_array_equal(chain.of_updates(numbers).time, chain.updates().time[numbers])
    np.testing.assert_array_equal(chain.arrivals(numbers), np.flatnonzero(chain.accepted)[numbers])
    assert len(chain.of_updates(np.empty(0, int))) == 0


def test_and_so_are_their_step_sizes(chain):
    sizes = np.where(chain.accepted, np.linspace(0.1, 0.2, len(chain)), np.nan)
    stepped, numbers = replace(chain, step_size=sizes), np.arange(3, chain.steps, 11)
    np.testing.assert_array_equal(stepped.steps_of(numbers), stepped.of_updates(numbers).step_size)
    assert stepped.steps_of(np.array([2, 10**6])).tolist() == sizes[chain.accepted][[2]].tolist()
    assert len(stepped.steps_of(np.empty(0, int))) == 0
