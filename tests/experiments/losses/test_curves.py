"""From chains to curves."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from stalegrad.experiments.losses import curves
from stalegrad.experiments.losses.layouts import Layout

from .small_task import extent, record


def test_servers_are_estimated_over_all_subsets_of_their_chains():
    layouts = [Layout(1, 1), Layout(2, 1)]
    chains = layouts[1].chains(0, task="a9a", lr=0.01)
    records = dict(
        zip(
            chains,
            [record([4.0, 2.0], predictive=((0.2,), (0.4,)), kept=(1, 2)),
             record([2.0, 2.0], predictive=((0.4,), (0.6,)), kept=(1, 2))],
            strict=True,
        )
    )  # fmt: skip
    found = extent(layouts, records)
    for layout in layouts:
        assert_allclose(found.averages(layout), [[4.0, 3.0], [2.0, 2.0]], rtol=1e-4)
        assert_allclose(found.current(layout), [[4.0, 2.0], [2.0, 2.0]])
    assert_allclose(found.predictive(layouts[1]), [-np.log([0.3, 0.5])])
    assert_allclose(found.predictive(layouts[0]), -np.log([[0.2, 0.4], [0.4, 0.6]]))
    one, two = found.pairs("predictive", *layouts)  # one row a repetition
    assert_allclose(one, -np.log([[0.2, 0.4], [0.4, 0.6]]).mean(0)[None])
    assert_allclose(two, [-np.log([0.3, 0.5])])
    one, two = (found.spread(layout)[0] for layout in layouts)
    assert two == pytest.approx(one / np.sqrt(2))


def test_the_variance_of_servers_is_compared_with_that_of_one():
    """40 repetitions of 4 servers whose ends are independent normals: 1/4, and an interval that holds it."""
    layout, rng = Layout(4, 1), np.random.Generator(np.random.Philox(key=3))
    records = {
        chain: record([end, end], at=(1, 2))
        for seed in range(40)
        for chain, end in zip(layout.chains(seed, task="a9a", lr=0.01), rng.standard_normal(4), strict=True)
    }
    ratio, low, high = extent([layout], records, seeds=40).spread_ratio(layout)
    assert low < 0.25 < high < 1
    assert low < ratio < high
    assert np.isnan(extent([layout], records, seeds=1).spread_ratio(layout)).all()


def test_a_chain_that_diverged_has_no_end():
    layout = Layout(1, 1)
    (chain,) = layout.chains(0, task="a9a", lr=0.01)
    found = extent([layout], {chain: record([4.0], at=(1,), diverged="at 3")})
    assert_allclose(found.averages(layout), [[4.0, np.nan]])
    assert_allclose(found.predictive(layout), [[-np.log(0.5), np.nan]])
    assert np.isnan(found.spread_ratio(layout)).all()


def test_a_chain_that_diverges_later_is_sound_before():
    """Its last losses are no part of curves: one is above that of the start, 9, and stays there."""
    layout = Layout(1, 1)
    (chain,) = layout.chains(0, task="a9a", lr=0.01)
    one = record([4.0, 2.0, 50.0], at=(1, 2, 3), predictive=((0.5,), (0.4,)), kept=(1, 2), diverged="at 3")
    before, after = (extent([layout], {chain: one}, iterations=end) for end in (2, 3))
    assert_allclose(before.averages(layout), [[4.0, 3.0]], rtol=1e-4)
    assert_allclose(before.predictive(layout), -np.log([[0.5, 0.4]]))
    assert_allclose(after.averages(layout), [[4.0, 3.0, np.nan]], rtol=1e-4)
    assert_allclose(after.current(layout), [[4.0, 2.0, np.nan]])
    assert [one.lost(end) for end in (2, 3, 9)] == [False, True, True]


def test_the_band_is_students_interval():
    mean, half = curves.summary(np.array([[1.0], [2.0], [3.0]]))
    assert_allclose((mean, half), ([2.0], [4.302653 / np.sqrt(3)]), rtol=1e-6)
    assert np.isnan(curves.summary(np.array([[1.0]]))[1]).all()


def test_speedup_is_read_where_the_curves_cross():
    axis = np.array([10.0, 20.0, 30.0, 40.0])
    one = np.array([[4.0, 3.0, 2.0, 1.0]])
    assert_allclose(curves.speedups(axis, 5.0, one, one), [1])
    assert_allclose(curves.speedups(axis, 5.0, one, np.array([[2.0, 0.0, 0.0, 0.0]])), [40 / 15])
    assert_allclose(curves.speedups(axis, 5.0, one, np.array([[0.0, 0.0, 0.0, 0.0]])), [40 / 8])  # before the first
    assert np.isnan(curves.speedups(axis, 5.0, one, one + 1)).all()


def test_draws_are_compared_by_updates_and_bursts_do_not_count():
    """φ = 1/L̄ at every iteration, but for one burst; the second of three chains diverges on the way."""
    layout, at = Layout(1, 2), np.arange(1, 101)
    loss = 1.0 / at
    loss[97] = 50.0
    records = dict.fromkeys(layout.chains(0, task="a9a", lr=0.01), record(loss, at=at, workers=2))
    records |= dict.fromkeys(layout.chains(1, task="a9a", lr=0.01), record(loss[:30], at=at[:30], diverged="at 61"))
    records |= dict.fromkeys(layout.chains(2, task="a9a", lr=0.01), record(loss + 1, at=at, workers=2))
    found = dict(extent([layout], records, iterations=100, seeds=3).by_updates(layout))
    assert list(found) == [100, 200]
    assert found[100] == pytest.approx(np.median(loss[45:50]) + 0.5)  # of the two that got there
    assert found[200] == pytest.approx(np.median(1.0 / np.arange(91, 101)) + 0.5, rel=0.01)
