"""When φ is looked at, and φ̂."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from stalegrad._internal.errors import ArgumentError
from stalegrad.experiments.losses import tasks
from stalegrad.experiments.losses.chain_run import Files, lengthen
from stalegrad.experiments.losses.evaluation import grid_error, places, refuse_unless_a_place, running_average

from .small_task import logistic_model, name, use

pytestmark = pytest.mark.long


def test_a_shorter_chain_is_looked_at_where_a_longer_one_is():
    few, many = places(500, density=20), places(20_000, density=20)
    assert_array_equal(few, many[: len(few)])
    assert np.diff(few[:20]).max() == 1
    assert np.diff(many).max() <= 20_000 / 20
    assert {100, 200, 300, 500, 1000, 20_000} <= set(many.tolist())


def test_other_lengths_are_refused_with_what_would_do():
    refuse_unless_a_place(500, 20)
    with pytest.raises(ArgumentError, match=r"iterations=499.*Give \d+ or 500"):
        refuse_unless_a_place(499, 20)


def test_the_average_is_over_all_updates_and_weighted_by_steps():
    found = running_average(9.0, np.array([4.0, 1.0]), np.array([1, 4]), np.array([1.0, 2.0, 1.0, 1.0]))
    assert_allclose(found, [4.0, (4 + 2 * 3 + 2 + 1) / 5])


def test_the_average_does_not_depend_on_how_often_one_looks(tmp_path, monkeypatch):
    """The same chain, looked at as a9a is, half as often, and at every iteration: within 0.1 %."""
    model, ends, looked = logistic_model(6000), {}, {}
    for density in (30, tasks.TASKS["a9a"].density, 500):
        use(model, monkeypatch, density=density, iterations=500)
        found = lengthen(Files(tmp_path / str(density), name(workers=4)), 500)
        ends[density], looked[density] = found.average(tasks.TASKS["a9a"], 500)[-1], len(found.places)
    assert looked[30] < looked[60] < looked[500] == 500
    assert ends[30] == pytest.approx(ends[60], rel=1e-3)
    assert ends[60] == pytest.approx(ends[500], rel=1e-3)


def test_oscillations_are_averaged_right_where_looks_are_a_third_of_a_period_apart():
    """One update in 2,000 sets off 200 updates of oscillation up to twenty times the loss, as nine workers do."""
    updates, since = np.arange(1, 9001), np.arange(200)
    burst = 10 * np.sin(np.pi * since / 200) ** 2 * (1 - np.cos(2 * np.pi * since / 27))
    begun = np.random.default_rng(3).random(9000) < 1 / 2000
    phi = 2 / (1 + updates / 100) * (1 + np.convolve(begun, burst)[:9000])
    errors = {}
    for apart in (None, 2, 1):
        at = 9 * places(1000, 40, apart)
        errors[apart] = abs(running_average(2.0, phi[at - 1], at, np.ones(9000))[-1] / phi.mean() - 1)
    assert errors[1] < 1e-3
    assert errors[1] < errors[2]
    assert errors[None] > 0.02


def test_networks_are_looked_at_as_often_by_updates_for_every_number_of_workers():
    task = tasks.TASKS["mnist"]
    common = places(1000, task.density)
    for workers in (1, 2, 4, 6, 9):
        at = task.looked_at(workers, 1000)
        assert np.isin(common, at).all()
        assert np.diff(at).max() == max(1, 9 // workers)
    assert_array_equal(tasks.TASKS["a9a"].looked_at(9, 1000), places(1000, tasks.TASKS["a9a"].density))


def test_a_coarse_grid_is_found_out():
    at = np.array([1, 10, 100])
    assert grid_error(9.0, np.array([9.0, 1.0, 9.0]), at, np.ones(100)) > 0.3
