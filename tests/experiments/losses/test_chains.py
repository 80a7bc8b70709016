"""Chains that are made, left, made longer and read back."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import stalegrad as sg
from stalegrad._internal.errors import StoreError
from stalegrad.experiments.losses import tasks
from stalegrad.experiments.losses.chain_record import ChainRecord
from stalegrad.experiments.losses.chain_run import Files, lengthen

from .small_task import name, use

pytestmark = pytest.mark.long


def test_a_chain_that_goes_on_is_the_chain(small, tmp_path):
    """For each form: its state holds everything that it carries."""
    for changes in ({}, {"temperature": 0.0}, {"momentum": "workers", "temperature": 0.0}, {"fresh": True}):
        chain = name(workers=3, **changes)
        whole = lengthen(Files(tmp_path / "whole", chain), 50)
        assert lengthen(Files(tmp_path / "parts", chain), 10).iterations == 10
        parts = lengthen(Files(tmp_path / "parts", chain), 50)
        assert_array_equal(parts.loss, whole.loss)
        assert_array_equal(parts.log_predictive, whole.log_predictive)
        again = lengthen(Files(tmp_path / "parts", chain), 30)
        assert again.facts == parts.facts


def test_without_its_state_it_begins_anew_and_is_the_same(small, tmp_path):
    files = Files(tmp_path, name(workers=2))
    short = lengthen(files, 20)
    files.state.unlink()
    assert_array_equal(lengthen(files, 50).loss[: len(short.loss)], short.loss)


def test_a_chain_that_was_looked_at_less_often_is_made_again(small, tmp_path, monkeypatch):
    use(small, monkeypatch, density=5)
    files = Files(tmp_path, name(workers=2))
    coarse = lengthen(files, 50)
    use(small, monkeypatch, updates_between=4)
    assert not coarse.has(tasks.TASKS["a9a"], 50)
    fine = lengthen(files, 50)
    assert len(fine.places) > len(coarse.places)
    assert_array_equal(fine.loss[np.isin(fine.places, coarse.places)], coarse.loss)
    assert ChainRecord.load(files.record).has(tasks.TASKS["a9a"], 50)


def test_the_time_that_is_over_leaves_a_chain_that_goes_on(small, tmp_path):
    files = Files(tmp_path, name(workers=2))
    assert 0 < lengthen(files, 50, deadline=0.0).iterations < 50
    assert lengthen(files, 50).iterations == 50


def test_the_loss_over_all_test_data_is_that_of_the_last_draw_or_none(small, tmp_path):
    files = Files(tmp_path, name(workers=2))
    short = lengthen(files, 10).facts["whole_test_loss"]
    left = lengthen(files, 50, deadline=0.0)
    assert 10 < left.iterations < 50
    assert "whole_test_loss" not in left.facts
    assert lengthen(files, 50).facts["whole_test_loss"] != short


def test_the_losses_are_those_of_a_run_of_ones_own(small, tmp_path):
    found = lengthen(Files(tmp_path, name(lr=0.001)), 40)
    kernel = tasks.TASKS["a9a"].recipe.kernel(300)
    run = sg.sample(small.potential, kernel, steps=40, seed=0, engine="inline", progress=False)
    losses = [-small.log_likelihood(theta).mean() for theta in run.draws[0]]
    assert_allclose(found.loss, losses, rtol=1e-5)
    weights = run.step_sizes[0]
    average = np.cumsum(weights * losses) / np.cumsum(weights)
    assert_allclose(found.average(tasks.TASKS["a9a"], 40), average, rtol=1e-5)


def test_learning_rates_decay_with_the_iterations_of_a_worker(small):
    task = tasks.TASKS["a9a"]
    one, nine = (small.kernel(task, 0.001, 1.0, workers).schedule for workers in (1, 9))
    assert nine(9 * 10_000) == pytest.approx(one(10_000))
    assert_allclose(name(9).weights(task, 91)[90], one(10) / one(0))


def test_a_chain_that_diverges_says_when(small, tmp_path):
    found = lengthen(Files(tmp_path, name(workers=9, lr=1e20)), 50)
    assert "update" in found.facts["diverged"]
    assert found.has(tasks.TASKS["a9a"], 50)
    assert len(found.average(tasks.TASKS["a9a"], 50)) < 50


def test_fresh_gradients_are_those_of_one_worker(small, tmp_path):
    found = lengthen(Files(tmp_path, name(workers=9, fresh=True)), 20)
    assert found.facts["staleness_max"] == 0
    assert lengthen(Files(tmp_path, name(workers=9)), 20).facts["staleness_mean"] > 7


def test_one_worker_that_keeps_the_momentum_is_sgd_with_momentum(small, tmp_path):
    """With W = 1 both controls are the same algorithm; only the server's starts with no momentum, too, at T = 0."""
    cold, own = (lengthen(Files(tmp_path, name(temperature=0.0, momentum=who)), 20) for who in ("server", "workers"))
    assert_allclose(own.loss[:3], cold.loss[:3], rtol=1e-3)


def test_records_are_read_back_and_rubbish_is_refused(small, tmp_path):
    files = Files(tmp_path, name(workers=2, seed=3, layers="paper"))
    found = lengthen(files, 10)
    again = ChainRecord.load(files.record)
    assert again.name == found.name
    assert_allclose(again.predictive_loss(10), found.predictive_loss(10))
    assert_allclose(found.predictive_loss(1), found.loss[:1], rtol=1e-2)  # of one draw they are the same
    files.record.write_bytes(b"rubbish")
    with pytest.raises(StoreError, match="Delete it to have it made again"):
        ChainRecord.load(files.record)
