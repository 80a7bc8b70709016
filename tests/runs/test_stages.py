"""Runs that optimise before they sample, in one go or in cycles: what is kept, and that they replay and go on."""

import numpy as np
import pytest

import stalegrad as sg
from stalegrad.kernels.temperatures import Annealing
from stalegrad.protocol import executor

from .cases import RANDOM_ORDER, gaussian, sample

PLAIN = sg.SGHMC(step_size=0.01, friction=3.0, integrator="splitting")
KERNELS = {
    "optimise, then sample": PLAIN.after_optimising(13, step_size=0.02),
    "cycles": PLAIN.in_cycles(10, explore=0.6, floor=1e-4),
    "optimise, then cycles": PLAIN.in_cycles(10, explore=0.6, floor=1e-4).after_optimising(13),
    "annealing": sg.SGHMC(step_size=0.01, friction=3.0, temperature=Annealing(5.0, 1.0, 13)),
    "thermostat": sg.SGNHT(step_size=0.01, noise=2.0).in_cycles(10, explore=0.6),
}
KEPT = {
    "cycles": [update for update in range(60) if update % 10 >= 6],
    "thermostat": [update for update in range(60) if update % 10 >= 6],
    "optimise, then cycles": [update for update in range(13, 60) if update % 10 >= 6],
}


@pytest.mark.parametrize("thin", [1, 3])
@pytest.mark.parametrize("name", KERNELS)
def test_only_what_samples_is_kept(name, thin):
    kernel, kept = KERNELS[name], KEPT.get(name, list(range(13, 60)))
    run = sample(gaussian(), kernel, steps=60, workers=3, thin=thin, servers=2, engine=RANDOM_ORDER)
    assert run.draws.shape[1] == len(kept) // thin
    expected = [float(kernel.schedule(update)) for update in kept[thin - 1 :: thin]]
    np.testing.assert_allclose(run.step_sizes, [expected, expected])
    np.testing.assert_array_equal(sg.replay(run.trace, gaussian()).draws, run.draws)


@pytest.mark.parametrize("name", KERNELS)
def test_without_heat_it_is_the_cold_chain_and_with_it_that_of_the_temperature(name):
    """Update by update against a chain whose kernel is that of the update, at a constant temperature."""
    from stalegrad.protocol.chain import Chain, Each

    kernel, model = KERNELS[name], gaussian()
    start = np.full((1, model.size), 0.5)
    changing = Chain(kernel, start, seed=4, chain=0)
    for update in range(40):
        constant = Chain(kernel.at(update), start, seed=4, chain=0)
        constant.restore(update, changing.snapshot())
        gradient = np.full_like(start, np.sin(update))
        steps = float(kernel.schedule(update))
        changing.apply(gradient.copy(), 0, Each(lambda *_: None))
        constant.apply(gradient.copy(), 0, Each(lambda *_: None), steps)
        for name_, array in changing.snapshot().items():
            np.testing.assert_array_equal(array, constant.snapshot()[name_])


@pytest.mark.parametrize("engine", ["inline", "threads", pytest.param("processes", marks=pytest.mark.long)])
@pytest.mark.parametrize("name", ["cycles", "optimise, then sample"])
def test_every_engine_replays(name, engine):
    run = sg.sample(gaussian(), KERNELS[name], steps=60, workers=2, seed=1, engine=engine, progress=False)
    np.testing.assert_array_equal(sg.replay(run.trace, gaussian()).draws, run.draws)


@pytest.mark.parametrize("name", ["cycles", "optimise, then cycles"])
@pytest.mark.long
def test_compiled_blocks_keep_and_make_the_same(name, monkeypatch):
    one_by_one = sample(gaussian(), KERNELS[name], steps=60, workers=3, thin=2, engine=RANDOM_ORDER)
    monkeypatch.setattr(executor, "WORTH_A_BLOCK", 1)
    monkeypatch.setattr(executor, "WORTH_LOADING", 1)
    in_blocks = sample(gaussian(), KERNELS[name], steps=60, workers=3, thin=2, engine=RANDOM_ORDER)
    np.testing.assert_array_equal(in_blocks.draws, one_by_one.draws)
    np.testing.assert_array_equal(in_blocks.stats.gradient_norm, one_by_one.stats.gradient_norm)


@pytest.mark.parametrize("cut", [5, 27])
def test_a_stored_run_goes_on_in_the_stage_where_it_was(tmp_path, cut):
    kernel = KERNELS["optimise, then cycles"]
    options = {"workers": 1, "seed": 1, "engine": "inline", "progress": False}
    whole = sg.sample(gaussian(), kernel, steps=60, **options)
    sg.sample(gaussian(), kernel, steps=max(cut, 27), store=tmp_path / "run", **options)
    run = sg.resume(tmp_path / "run", gaussian(), steps=60, progress=False)
    np.testing.assert_array_equal(np.asarray(run.draws[:]), whole.draws)
    assert sg.load(tmp_path / "run").trace.thinning == whole.trace.thinning


def test_chains_start_where_another_run_ended():
    ensemble = sg.sample(
        gaussian(), sg.SGHMC(step_size=0.01, friction=3.0, temperature=0.0), steps=30, servers=3, engine="inline",
        progress=False, initial=np.arange(3.0)[:, None] * np.ones(gaussian().size),
    )  # fmt: skip
    run = sg.sample(gaussian(), PLAIN, steps=5, servers=3, initial=ensemble, engine="inline", progress=False)
    np.testing.assert_array_equal(run.trace.initial, ensemble.draws[:, -1])
    np.testing.assert_array_equal(sg.replay(run.trace, gaussian()).draws, run.draws)
    with pytest.raises(sg.ArgumentError, match="last draws of 3 chains"):
        sg.sample(gaussian(), PLAIN, steps=5, servers=2, initial=ensemble, progress=False)


@pytest.mark.parametrize("architecture", [sg.Downpour(), sg.WorkerNoise(), sg.StaleGradients(tame=3.0)])
def test_architectures_that_cannot_follow_the_temperature_refuse(architecture):
    kernel = sg.SGHMC(step_size=0.01, friction=3.0).after_optimising(10)
    with pytest.raises(sg.ArgumentError, match="temperature"):
        sg.sample(gaussian(), kernel, steps=60, architecture=architecture, progress=False)


def test_chains_with_different_cycles_are_refused():
    kernels = [PLAIN.in_cycles(10), PLAIN.in_cycles(20)]
    with pytest.raises(sg.ArgumentError, match="cycles that differ"):
        sg.sample(gaussian(), kernels, steps=60, servers=2, progress=False)
