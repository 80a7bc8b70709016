"""A run in several sessions is the run in one: what it keeps and what it uses go on where the session before ended."""

import shutil
from dataclasses import dataclass

import numpy as np
import pytest

import stalegrad as sg
from stalegrad.engines import Engine
from stalegrad.runs.store.folder import chain_folder
from stalegrad.testing import small_model

SETTINGS = {"burn_in": 20, "thin": 4, "seed": 3, "progress": False}
KERNELS = {
    "splitting": sg.SGHMC(step_size=sg.schedules.Polynomial(0.02, 5.0, 0.4), friction=5.0, integrator="splitting"),
    "sgld": sg.SGLD(step_size=0.002),
}


@pytest.mark.parametrize("kernel", KERNELS)
def test_a_lone_worker_keeps_the_same_draws_in_one_session_and_in_three(tmp_path, kernel):
    """On the inline engine, bit for bit: minibatches, noise, schedule, burn-in and thinning."""
    whole = sg.sample(small_model(), KERNELS[kernel], steps=120, engine="inline", **SETTINGS)
    sg.sample(small_model(), KERNELS[kernel], steps=43, engine="inline", store=tmp_path / "x", **SETTINGS)
    sg.resume(tmp_path / "x", small_model(), KERNELS[kernel], steps=77, progress=False)
    resumed = sg.resume(tmp_path / "x", small_model(), KERNELS[kernel], steps=120, progress=False)
    assert resumed.draws.shape == whole.draws.shape == (1, 25, 5)
    np.testing.assert_array_equal(resumed.draws, whole.draws)
    np.testing.assert_array_equal(resumed.stats.gradient_norm, whole.stats.gradient_norm)
    np.testing.assert_array_equal(resumed.step_sizes, whole.step_sizes)
    for column in ("worker", "count", "staleness", "step_size"):
        one, three = (getattr(run.trace.chains[0], column) for run in (whole, resumed))
        np.testing.assert_array_equal(one, three)


@pytest.mark.parametrize("engine", ["inline", "threads"])
def test_burn_in_and_thinning_are_counted_from_the_start_of_the_run(tmp_path, engine):
    """With several workers the second session has a trace of its own; its replay is one session."""
    kernel = KERNELS["splitting"]
    sg.sample(small_model(), kernel, steps=43, workers=3, engine=engine, store=tmp_path / "x", **SETTINGS)
    resumed = sg.resume(tmp_path / "x", small_model(), kernel, steps=120, progress=False)
    assert resumed.draws.shape == (1, 25, 5)
    np.testing.assert_array_equal(resumed.draws, sg.replay(resumed.trace, small_model(), kernel).draws)
    assert resumed.trace.chains[0].applied_twice() == 0


def test_a_third_session_goes_on_to_the_steps_of_the_second(tmp_path):
    kernel = KERNELS["sgld"]
    sg.sample(small_model(), kernel, steps=40, engine="inline", store=tmp_path / "x", **SETTINGS)
    sg.resume(tmp_path / "x", small_model(), kernel, steps=80, progress=False)
    assert sg.resume(tmp_path / "x", small_model(), kernel, progress=False).trace.chains[0].steps == 80


def leave_at_different_lengths(tmp_path, folder, kernel):
    """As a kill may: each chain has its own last checkpoint, chain 1 of update 80, and chain 0 of update 40."""
    sg.sample(small_model(), kernel, steps=40, servers=2, engine="inline", store=folder, **SETTINGS)
    shutil.copytree(chain_folder(folder, 0), tmp_path / "before")
    sg.resume(folder, small_model(), kernel, steps=80, progress=False)
    shutil.rmtree(chain_folder(folder, 0))
    shutil.copytree(tmp_path / "before", chain_folder(folder, 0))


def test_chains_that_a_kill_has_left_at_different_lengths_end_at_the_same(tmp_path):
    kernel, folder = KERNELS["sgld"], tmp_path / "x"
    leave_at_different_lengths(tmp_path, folder, kernel)
    run = sg.resume(folder, small_model(), kernel, steps=120, progress=False)
    assert [chain.steps for chain in run.trace.chains] == [120, 120]


@dataclass(frozen=True)
class Never(Engine):
    """No run gets as far as this."""

    def run(self, job):
        raise AssertionError("the run goes on")


def test_no_chain_may_have_made_more_steps_than_are_asked_for(tmp_path):
    """60 steps would be fewer than chain 1 has made."""
    kernel, folder = KERNELS["sgld"], tmp_path / "x"
    leave_at_different_lengths(tmp_path, folder, kernel)
    with pytest.raises(sg.ArgumentError, match="is less than the 80 updates that the run has made"):
        sg.resume(folder, small_model(), kernel, steps=60, engine=Never(), progress=False)


def test_gradients_that_were_dropped_are_no_updates_of_a_chain_that_goes_on(tmp_path):
    """The chain goes on with the noise of its next update, however many gradients have come."""
    kernel, settings = KERNELS["sgld"], {"workers": 3, "max_staleness": 1, "engine": "inline", **SETTINGS}
    sg.sample(small_model(), kernel, steps=43, store=tmp_path / "x", **settings)
    resumed = sg.resume(tmp_path / "x", small_model(), kernel, steps=120, progress=False)
    (chain,) = resumed.trace.chains
    assert chain.steps == 120 < len(chain)
    np.testing.assert_array_equal(resumed.draws, sg.replay(resumed.trace, small_model(), kernel).draws)
