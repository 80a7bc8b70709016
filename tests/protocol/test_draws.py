"""Which updates become draws, and how they are collected elsewhere."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import stalegrad as sg
from stalegrad.protocol.chain import Chain
from stalegrad.protocol.collector import DrawCollector
from stalegrad.protocol.draws import Thinning


@given(burn_in=st.integers(0, 30), thin=st.integers(1, 9), steps=st.integers(0, 100))
def test_index_update_and_number_of_draws_say_the_same(burn_in, thin, steps):
    thinning = Thinning(burn_in, thin)
    kept = [update for update in range(steps) if thinning.index(update) is not None]
    assert kept == list(range(burn_in + thin - 1, steps, thin))
    assert thinning.draws(steps) == len(kept)
    assert [thinning.index(update) for update in kept] == list(range(len(kept)))
    assert [thinning.update(draw) for draw in range(len(kept))] == kept
    assert thinning.updates(steps).tolist() == kept


@given(
    burn_in=st.integers(0, 30), thin=st.integers(1, 5), steps=st.integers(0, 100), cycle=st.integers(2, 20),
    share=st.floats(0, 0.99), since=st.integers(0, 100),
)  # fmt: skip
def test_of_cycles_the_last_part_is_kept(burn_in, thin, steps, cycle, share, since):
    explore = int(share * cycle)
    thinning = Thinning(burn_in, thin, cycle, explore)
    kept = [update for update in range(burn_in, steps) if update % cycle >= explore][thin - 1 :: thin]
    assert [update for update in range(steps) if thinning.index(update) is not None] == kept
    assert [thinning.index(update) for update in kept] == list(range(len(kept)))
    assert thinning.draws(steps) == len(kept)
    assert thinning.updates(steps).tolist() == kept
    assert [thinning.update(draw) for draw in range(len(kept))] == kept
    assert thinning.updates(steps, since=since).tolist() == [update for update in kept if update >= since]


@pytest.mark.parametrize("taken_after", [0, 30, 100])
def test_a_collector_keeps_what_is_due_and_what_was_taken_stays(taken_after):
    chain = Chain(sg.SGHMC(step_size=0.1, friction=1.0), np.zeros((1, 3)), seed=2, chain=0)
    collector, thinning = DrawCollector(Thinning(3, 2), 3, np.float64), Thinning(3, 2)
    kept, blocks = [], []
    for update in range(120):
        gradient = np.full((1, 3), float(update))
        chain.apply(gradient, 0, collector)
        if thinning.index(update) is not None:
            kept.append((chain.position[0].copy(), np.sqrt(3) * update, (chain.state.momentum[0] ** 2).mean()))
        if update == taken_after:
            blocks.append(collector.take())
            assert collector.bytes == 0
    assert collector.bytes == 24 * (len(kept) - len(blocks[0].draws))
    blocks.append(collector.take())
    for column, expected in enumerate(zip(*kept, strict=True)):
        np.testing.assert_allclose(np.concatenate([block[column] for block in blocks]), expected)
