"""Figure 2 on small data: its parts against closed forms and plain NumPy, and all of it end to end."""

import json
from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from typer.testing import CliRunner

import stalegrad as sg
from stalegrad import cli
from stalegrad.analysis.estimates import speedup_interval
from stalegrad.engines import available_cores
from stalegrad.experiments import fig2, fig2_plain, times
from stalegrad.experiments.fig2_posterior import posterior
from stalegrad.experiments.logistic_loss import MeanLogisticLoss
from stalegrad.experiments.parts import OutOfTimeError, Parts
from stalegrad.potentials.wrappers.whitened import Whitened
from stalegrad.protocol.trace import Trace

from .small_data import GROUPS, small_data

pytestmark = pytest.mark.long


@pytest.fixture(scope="module")
def data():
    return small_data()


@pytest.fixture(scope="module")
def model(data):
    return posterior(data, batch_size=50)


def with_bias(rows):
    return np.column_stack([rows.toarray(), np.ones(rows.shape[0])])


@pytest.mark.parametrize("count", [1, 63, 130])
def test_the_loss_of_many_draws_is_that_of_each(data, count):
    theta = np.random.Generator(np.random.Philox(key=1)).standard_normal((count, sum(GROUPS) + 1))
    theta[0] *= 20  # a draw that is sure of itself, and wrong
    expected = np.logaddexp(0, -data.y_test * (theta @ with_bias(data.X_test).T)).mean(1)
    assert_allclose(MeanLogisticLoss(data.X_test, data.y_test)(theta), expected, rtol=2e-6)


def test_whitened_gradients_are_those_of_the_chain_rule(data):
    rng = np.random.Generator(np.random.Philox(key=2))
    inner = sg.potentials.Logistic(data.X, data.y, batch_size=7, intercept=True, dtype=np.float64)
    n = inner.size
    factor, centre = np.tril(rng.standard_normal((n, n))) + 4 * np.eye(n), rng.standard_normal(n)
    outer = Whitened(inner, centre, factor)
    z, indices, out = rng.standard_normal((5, n)), rng.integers(2000, size=(5, 7)), np.empty((5, n))
    outer.gradients(z, indices, out)
    theta = centre + np.linalg.solve(factor.T, z.T).T
    assert_allclose(outer.original(z), theta, rtol=1e-12)
    for row in range(5):
        assert_allclose(out[row], np.linalg.solve(factor, inner.gradient(theta[row], indices[row])), rtol=1e-9)
        assert_array_equal(out[row], outer.gradient(z[row], indices[row]))


def test_the_mode_has_no_slope_and_unit_curvature(data, model):
    exact = Whitened(
        sg.potentials.Logistic(data.X, data.y, intercept=True, dtype=np.float64),
        model.potential.centre,
        np.linalg.inv(model.potential.coordinates.factor.astype(np.float64)).T,
    )
    assert_allclose(exact.full_gradient(np.zeros(exact.size)), 0, atol=2e-4)
    e = 1e-3
    basis = e * np.eye(exact.size)
    hessian = np.array([exact.full_gradient(step) - exact.full_gradient(-step) for step in basis]) / (2 * e)
    assert_allclose(hessian, np.eye(exact.size), atol=1e-3)


def test_slope_and_bend_of_phi_and_the_noise_are_what_differences_give(model):
    n, e = model.potential.size, 0.05
    basis = e * np.eye(n)
    assert_allclose(model.slope, (model.phi(basis) - model.phi(-basis)) / (2 * e), atol=2e-5)
    second = (model.phi(basis) + model.phi(-basis) - 2 * model.phi(np.zeros((1, n)))) / e**2
    assert_allclose(np.diag(model.bend), second, atol=2e-4)
    draws = model.potential.minibatches.draw_many(0, 0, np.zeros(4000, int), np.arange(4000), 1)
    gradients = np.array([model.potential.gradient(np.zeros(n), indices) for indices in draws[:, 0]])
    assert_allclose(np.var(gradients, axis=0), np.diag(model.noise), rtol=0.2)


@pytest.mark.parametrize("staleness", [0, 8])
def test_the_measured_variance_is_that_of_the_closed_form(model, staleness):
    """400 runs know a variance to 7 %; the posterior of 2,000 data is normal to a few per cent more."""
    h, steps = 0.02, 1500
    run = sg.replay(
        Trace.constant_staleness(staleness, steps), model.potential, sg.SGLD(step_size=h), repeats=400, thin=5
    )
    measured = run.running(model.phi, batched=True)[:, 0].var(0, ddof=1)
    expected = model.variance(h, staleness, steps)[4::5]
    assert_allclose(measured[20:], expected[20:], rtol=0.45)


def tiny(**changes):
    plain = fig2.Plain(runs=20, workers=(1, 3), step_size=2e-4, steps=600, thin=5)
    usual = fig2.Settings(
        plain=plain,
        runs=60,
        max_workers=3,
        step_size=0.02,
        steps=1500,
        thin=5,
        engine="inline",
        timed_steps=200,
        slowed_seconds=0.5,
    )
    return replace(usual, **changes)


@pytest.fixture(scope="module")
def numbers(data):
    told = []
    result = fig2.reproduce(tiny(), data, report=lambda what, share: told.append((what, share)))
    assert told[-1][1] == 1.0
    assert any("slowed" in what for what, _ in told)
    return result


def test_end_to_end_on_small_data(numbers, tmp_path):
    assert numbers["workers"] == [1, 2, 3]
    assert_allclose(numbers["iteration_speedup"], [1, 2, 3], rtol=0.5)
    for speedup, (low, high) in zip(numbers["iteration_speedup"], numbers["iteration_speedup_interval"], strict=True):
        assert 0 < low <= speedup <= high < np.inf
    assert_allclose(numbers["staleness"]["mean"], [0, 1, 2], atol=0.05)
    text, picture = fig2.save(numbers, tmp_path / "new")
    assert json.loads(text.read_text())["runs"] == 60
    assert picture.read_bytes().startswith(b"\x89PNG")


def test_nine_workers_are_nine_times_as_fast_at_equal_precision(model):
    """The figure's claim: at least 0.85 · 9, and an interval that holds 9."""
    settings = tiny(runs=300, steps=2000)
    traces = [settings.cluster.trace(w, settings.steps, model.potential.size, seed=0) for w in (1, 9)]
    one, nine = fig2.sample_all(settings, model, traces, report=lambda what, share: None)
    updates = settings.thin * np.arange(1, one.shape[1] + 1)
    result = speedup_interval(updates, one, updates / 9, nine, seed=0, paired=True)
    assert float(result) >= 0.85 * 9
    assert result.low < 9 < result.high


def test_times_name_their_engine_and_follow_the_rates(numbers):
    assert numbers["time_speedup_measured"]["engine"] == numbers["calibration"]["engine"] == "inline"
    measured = len(numbers["time_speedup_measured"]["workers"])
    assert measured == min(3, available_cores())
    cluster = numbers["cluster"]
    rates = np.array(cluster["updates_per_second"])
    assert_allclose(rates / rates[0], [1, 2, 3], rtol=0.05)  # exchanges are short next to gradients
    scaled = np.array(numbers["iteration_speedup"]) * rates / (rates[0] * np.arange(1, 4))
    assert_allclose(cluster["time_speedup"], scaled)
    assert_allclose(cluster["time_speedup_slowed"], numbers["iteration_speedup"], rtol=1e-6)  # in virtual time


def test_the_same_seed_gives_the_same_numbers(data, numbers):
    again = fig2.reproduce(tiny(), data)
    assert again["curves"] == numbers["curves"]
    assert again["iteration_speedup_interval"] == numbers["iteration_speedup_interval"]


def test_it_goes_on_where_it_was_stopped(data, numbers, tmp_path, monkeypatch):
    first = fig2.reproduce(tiny(), data, parts=Parts(tmp_path, "fig2"))
    assert first["curves"] == numbers["curves"]
    for module in (fig2, fig2_plain):
        monkeypatch.setattr(module, "replay", None)
    monkeypatch.setattr(fig2, "measured_rates", None)
    again = fig2.reproduce(tiny(), data, parts=Parts(tmp_path, "fig2", deadline=0.0))
    assert json.dumps({**again, "seconds": 0}) == json.dumps({**first, "seconds": 0})


def test_a_budget_that_is_over_leaves_a_smaller_figure_that_says_so(data, numbers, tmp_path):
    parts, late = Parts(tmp_path, "fig2"), Parts(tmp_path, "fig2", deadline=0.0)
    with pytest.raises(OutOfTimeError):
        fig2.reproduce(tiny(), data, parts=late)
    fig2.reproduce(tiny(plain=fig2.Plain(runs=20, workers=(1,), step_size=2e-4, steps=600, thin=5)), data, parts=parts)
    for path in tmp_path.glob("fig2-times-*"):
        path.unlink()
    settings = tiny(runs=61)  # of whose blocks of 50 and 11 the first is there
    found = fig2.reproduce(settings, data, parts=late)
    assert (found["runs"], found["planned_runs"], found["timed"]) == (50, 61, False)
    assert (found["plain"]["workers"], found["plain"]["missing"]) == ([1], [3])
    assert "W = 3: not computed" in found["verdicts"][1]["evidence"]
    assert found["verdicts"][1]["outcome"] == "cannot be told"
    for path in tmp_path.glob("fig2-plain-*"):
        path.unlink()
    assert fig2.reproduce(settings, data, parts=late)["plain"] is None
    for each in (found, {**found, "plain": None}):
        _, picture = fig2.save(each, tmp_path / "drawn")
        assert picture.read_bytes().startswith(b"\x89PNG")
    whole = numbers["curves"][2]["variance"]
    assert found["curves"][2]["variance"] != whole


def test_the_command_prints_a_table_and_says_what_it_wrote(numbers, monkeypatch, tmp_path):
    asked = []
    monkeypatch.setattr(
        fig2, "reproduce", lambda settings, report, parts: asked.append(settings) or report("x", 0.5) or numbers
    )
    out = tmp_path / "new" / "folder"
    result = CliRunner().invoke(
        cli.app, ["reproduce", "fig2", "--out", str(out), "--runs", "60", "--max-workers", "3", "--seed", "4"]
    )
    assert result.exit_code == 0, result.output
    assert asked == [fig2.Settings(runs=60, max_workers=3, seed=4)]
    assert f"{numbers['iteration_speedup'][2]:.2f}" in result.output
    assert sorted(path.name for path in out.iterdir()) == ["fig2.json", "fig2.png"]


@pytest.mark.parametrize("engine", ["threads", "processes"])
def test_real_engines_are_measured(model, engine):
    kernel = sg.SGLD(step_size=0.02)
    alone = times.time_worker(model.potential, kernel, engine, steps=300)
    assert 0 < alone.gradient < 0.1
    assert 0 < alone.update <= alone.served
    one, two = (times.measure_times(model.potential, kernel, w, engine, steps=30 * w, slowed=0.01) for w in (1, 2))
    assert 0 < one.updates_per_second < 105  # no faster than the pauses allow
    assert 0 < two.updates_per_second < 220
    assert one.served > 0
    machine = alone.machine()
    rates = times.simulated_rates(machine, [1, 2], model.potential.size, seed=0, steps=500)
    assert rates[0] <= rates[1] * 1.01
