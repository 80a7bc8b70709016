"""The short call on posteriors whose moments are known in closed form: draws in θ, replayed, stored and resumed."""

import numpy as np
import pytest

import stalegrad as sg
from stalegrad.potentials import Linear, from_gradient


def regression(n_data=400, scales=(1.0, 1e3, 1e-3), far=0.0, **options):
    """A linear regression in raw units, collinear, and its exact posterior."""
    rng = np.random.default_rng(3)
    X = rng.normal(size=(n_data, len(scales)))
    X[:, 1] += 0.9 * X[:, 0]
    X = X * np.array(scales)
    w = (np.arange(len(scales)) + 1.0) / np.array(scales)
    y = X @ w + rng.normal(size=n_data)
    prior = 1e7
    model = Linear(X, y, noise_scale=1.0, prior_scale=prior, dtype=np.float64, **options)
    precision = X.T @ X + np.eye(len(scales)) / prior**2
    covariance = np.linalg.inv(precision)
    return model, covariance @ X.T @ y, covariance


def misses(run, mean, covariance):
    """Means in standard deviations, and logarithms of the ratios of standard deviations, both at their worst."""
    draws = np.asarray(run.draws[:], np.float64).reshape(-1, len(mean))
    deviations = np.sqrt(np.diag(covariance))
    return np.abs((draws.mean(axis=0) - mean) / deviations).max(), np.abs(np.log(draws.std(axis=0) / deviations)).max()


@pytest.fixture(scope="module")
def sampled():
    model, mean, covariance = regression(batch_size=40)
    return model, mean, covariance, sg.sample(model, steps=4000, servers=2, engine="inline", progress=False)


def test_raw_units_and_collinear_columns_are_sampled_right_by_the_short_call(sampled):
    *_, mean, covariance, run = sampled
    # 2 · 4000 updates that forget in about 10 are some 500 effective draws: 5 standard errors and the bias
    off, ratio = misses(run, mean, covariance)
    assert off < 0.1 + 5 / np.sqrt(500)
    assert ratio < 0.05 + 5 / np.sqrt(1000)


def test_it_says_what_was_found_and_chosen(sampled):
    *_, run = sampled
    found = run.warmup
    assert found.mode
    assert found.coordinates == "dense"
    assert found.burn_in == run.trace.burn_in > 0
    assert found.numbers[0]["step_size"] == run.step_sizes[0, 0]
    assert "a mode was found" in str(found)
    assert f"burn_in={found.burn_in:,}" in str(found)


def test_chains_start_apart(sampled):
    *_, covariance, run = sampled
    starts = run.trace.coordinates.original(run.trace.initial)
    apart = np.abs(starts[0] - starts[1]) / np.sqrt(np.diag(covariance))
    assert apart.max() > 0.5


def test_a_replay_has_the_same_bits_in_theta_also_from_a_file(sampled, tmp_path):
    model, *_, run = sampled
    trace = sg.Trace.load(run.trace.save(tmp_path / "trace.npz"))
    again = sg.replay(trace, model)
    assert np.array_equal(again.draws, run.draws)
    assert again.warmup == run.warmup


def test_started_far_away_it_finds_the_same_place():
    model, mean, covariance = regression()
    far = mean + 100 * np.sqrt(np.diag(covariance)) * np.array([1, -1, 1])
    run = sg.sample(model, steps=3000, initial=far, engine="inline", progress=False)
    off, ratio = misses(run, mean, covariance)
    assert off < 0.1 + 5 / np.sqrt(200)
    assert ratio < 0.05 + 5 / np.sqrt(400)


def test_a_stored_run_keeps_draws_of_theta_and_goes_on_in_its_coordinates(tmp_path):
    model, mean, covariance = regression(batch_size=40)
    first = sg.sample(model, steps=600, store=tmp_path / "run", progress=False, engine="threads")
    assert misses(first, mean, covariance)[0] < 2
    whole = sg.resume(tmp_path / "run", model, steps=1200, progress=False)
    assert whole.draws.shape[1] == first.draws.shape[1] + 600
    loaded = sg.load(tmp_path / "run")
    assert loaded.warmup == first.warmup
    assert np.array_equal(np.asarray(sg.replay(loaded.trace, model).draws), np.asarray(whole.draws[:]))


def test_what_is_given_is_respected():
    model, *_ = regression(batch_size=40)
    kernel = sg.SGHMC(friction=3.0, integrator="splitting")
    run = sg.sample(model, kernel, steps=300, burn_in=7, engine="inline", progress=False)
    table = run.trace.record.kernels[0]
    assert (table["friction"], table["name"], run.trace.burn_in) == (3.0, "SGHMC", 7)
    assert set(run.warmup.numbers[0]) == {"step_size"}


def test_explicit_runs_have_no_warm_up():
    model, *_ = regression(batch_size=40)
    run = sg.sample(model, sg.SGLD(step_size=1e-9), steps=5, engine="inline", progress=False)
    assert (run.warmup, run.trace.coordinates, run.trace.burn_in) == (None, None, 0)


def test_without_a_warm_up_a_friction_is_not_found():
    model, *_ = regression()
    with pytest.raises(sg.ArgumentError, match="friction='auto': is found by the warm-up alone"):
        sg.sample(model, sg.SGHMC(step_size=1e-3), steps=5, warmup=None, engine="inline", progress=False)


@pytest.mark.parametrize("kernel", [sg.PSGLD(), sg.SGLD()], ids=str)
def test_where_there_can_be_no_warm_up_a_step_size_is_found_as_before(kernel):
    model, *_ = regression(scales=(1.0, 2.0, 0.5), batch_size=40)
    wrapped = model if kernel.learns_metric else sg.potentials.svrg(model, refresh=5)
    run = sg.sample(wrapped, kernel, steps=30, engine="inline", progress=False)
    assert run.warmup is None
    with pytest.raises(sg.ArgumentError, match="does not go with"):
        sg.sample(wrapped, kernel, steps=30, warmup=sg.Warmup(), engine="inline", progress=False)


def test_steps_that_trials_have_shortened_are_not_put_down_to_noise():
    """All data are in every gradient: whatever makes the step short, it is no minibatch."""

    def walls(theta, indices):
        return theta + 300 * (np.maximum(theta - 2.5, 0) - np.maximum(-theta - 2.5, 0))

    model = from_gradient(walls, size=2, n_data=1, dtype=np.float64)
    run = sg.sample(model, steps=2000, workers=4, engine="inline", progress=False)
    assert run.warmup.numbers[0]["step_size"] < 0.05
    assert not any("minibatches" in hint for hint in run.warmup.hints)
    assert not run.warmup.concerns
