"""The experiment on free staleness, small: its figures are those of theory, and it goes on where it was stopped."""

import json
from dataclasses import replace

import numpy as np
import pytest
from scipy import stats
from typer.testing import CliRunner

from stalegrad.cli import app
from stalegrad.datasets import Dataset
from stalegrad.experiments.free_staleness import dropping, experiment, gaussian, logistic, mse, networks, softmax
from stalegrad.experiments.free_staleness.networks import CIFAR10, LENET
from stalegrad.experiments.free_staleness.picture import draw
from stalegrad.experiments.free_staleness.softmax_model import WhitenedSoftmax
from stalegrad.potentials import GaussianMean, Softmax

from .small_data import small_data

pytestmark = pytest.mark.long

SMALL = mse.Settings(
    workers=(1, 4), runs=6, steps=600, thin=20, step_sizes=(0.02, 0.04), common_step=0.04, truth_steps=60
)


def test_compensated_chains_have_the_closed_form_at_every_staleness():
    found = gaussian.measure(gaussian.Settings(runs=24, steps=800, burn_in=300, staleness=(0, 16)))
    limit = stats.t.isf(1e-6 / 2 / 24, 23)  # 24 comparisons
    for row in found["rows"]:
        errors = np.abs(np.array(row["variance"]) - row["closed_form"]) / row["error"]
        assert errors.max() < limit
    assert None in [value for row in found["rows"] for value in row["plain"]]  # plain chains blow up


def test_a9a_goes_on_where_it_was_stopped(tmp_path, monkeypatch):
    first = logistic.measure(tmp_path, SMALL, lambda what, share: None, small_data())
    monkeypatch.setattr(mse, "sampled", None)
    monkeypatch.setattr(logistic, "posterior_means", None)
    again = logistic.measure(tmp_path, SMALL, lambda what, share: None, small_data())
    assert json.dumps(first) == json.dumps(again)
    assert {(row["workers"], row["compensated"]) for row in first["speedup"]} == {(4, False), (4, True)}
    assert first["truth"]["accepted"] > 0.1


def test_speedups_are_those_of_errors_that_are_known():
    """Errors of W workers whose bias is b times as large need b times the updates, at the best step of each."""
    settings = mse.Settings(thin=10, steps=8000, seed=1)
    L = 10.0 * np.arange(1, 801)
    steps = np.geomspace(1e-4, 1e-1, 60)[:, None, None]
    signs = np.tile([-1.0, 1.0], 50)[None, :, None]

    def errors(b):
        return b * steps + signs / np.sqrt(steps * L)

    found = mse.speedup(errors(1.0), errors(4.0), 16, settings, resamples=2)
    assert found["speedup"] == pytest.approx(4.0, rel=0.1)


def test_dropping_shifts_and_waiting_shifts_less():
    settings = dropping.Settings(chains=6, steps=600, burn_in=200, correlations=(0.0, 1.0), step_sizes=(0.02,))
    rows = {(row["correlation"], row["policy"]): row for row in dropping.measure(settings)["rows"]}
    assert rows[1.0, "drop"]["shift"] < -0.5
    assert abs(rows[1.0, "wait"]["shift"]) < 0.5
    assert abs(rows[0.0, "drop"]["shift"]) < 0.5
    assert rows[1.0, "drop"]["dropped"] > 0.02
    assert rows[1.0, "wait"]["dropped"] == 0


def small_images():
    """Three classes of images with four pixels."""
    rng = np.random.Generator(np.random.Philox(key=8))
    centres = rng.standard_normal((3, 2, 2))
    y, y_test = rng.integers(3, size=800), rng.integers(3, size=200)
    X, X_test = (centres[labels] + rng.standard_normal((len(labels), 2, 2)) for labels in (y, y_test))
    return Dataset("small images", X, y, X_test, y_test, ("a", "b", "c"), "made for a test")


TINY_SOFTMAX = mse.Settings(
    name="softmax", workers=(1, 16), runs=4, steps=300, thin=10, batch_size=50, step_sizes=(0.02, 0.04),
    common_step=0.04, relaxations=2.0, truth_steps=60,
)  # fmt: skip


def test_repetitions_add_up_over_calls(tmp_path, monkeypatch):
    """Without time one block is made; each later one is added, and what is there is not made again."""
    model, functions = GaussianMean(np.zeros((4, 3)), batch_size=2), lambda z: np.column_stack([z[:, 0], z[:, 1] ** 2])
    settings = replace(SMALL, runs=7, block=3, steps=200)
    truth = {"mean": [0.0, 1.0], "error": [0.0, 0.0]}
    nothing = lambda what, share: None  # noqa: E731
    first = mse.measured(tmp_path, settings, model, functions, truth, nothing, deadline=0.0)
    assert (first["runs"], first["runs_planned"]) == (3, 7)
    again = mse.measured(tmp_path, settings, model, functions, truth, nothing, deadline=0.0)
    assert json.dumps(again) == json.dumps(first)
    whole = mse.measured(tmp_path, settings, model, functions, truth, nothing)
    assert whole["runs"] == 7
    monkeypatch.setattr(mse, "sampled", None)
    assert json.dumps(mse.measured(tmp_path, settings, model, functions, truth, nothing)) == json.dumps(whole)
    monkeypatch.undo()
    once = mse.measured(tmp_path / "once", replace(settings, block=7), model, functions, truth, nothing)
    bias = [[row["bias"] for row in found["bias"]] for found in (once, whole)]
    assert json.dumps(bias[0]) == json.dumps(bias[1])  # the same repetitions, NaN where they diverged


class TestSoftmax:
    def test_gradients_are_those_of_the_model_itself_in_coordinates_that_are_nearly_white(self):
        data = small_images()
        X = np.column_stack([data.X.reshape(800, 4), np.ones(800)]).astype(np.float32)
        whitened, plain = WhitenedSoftmax(X, data.y, 80), Softmax(X, data.y, batch_size=80, dtype=np.float64)
        z = np.random.default_rng(0).standard_normal((2, whitened.size)).astype(np.float32)
        jacobian = np.array([(whitened.original(e) - whitened.mode).ravel() for e in np.eye(whitened.size)])
        for row in z:
            theta = whitened.original(row)[0].ravel()
            expected = jacobian @ plain.full_gradient(theta.astype(np.float64))
            np.testing.assert_allclose(whitened.full_gradient(row), expected, atol=2e-3)
            np.testing.assert_allclose(whitened.gradient(row, np.arange(800)), expected, atol=2e-3)
        assert np.abs(whitened.full_gradient(np.zeros(whitened.size))).max() < 0.05  # the mode
        quantiles = softmax._curvatures(whitened, steps=10)
        assert quantiles["largest"] < 2
        assert 0.7 < quantiles["0.5"] < 1.3

    def test_it_goes_on_where_it_was_stopped(self, tmp_path, monkeypatch):
        first = softmax.measure(tmp_path, TINY_SOFTMAX, lambda what, share: None, small_images())
        monkeypatch.setattr(mse, "sampled", None)
        monkeypatch.setattr(softmax, "_truth", None)
        again = softmax.measure(tmp_path, TINY_SOFTMAX, lambda what, share: None, small_images())
        assert json.dumps(first) == json.dumps(again)
        (row,) = (row for row in first["speedup"] if row["compensated"] and row["phi"] == "variance")
        assert row["seconds"][0] == pytest.approx(row["share"] * row["speedup"])
        assert 0.8 < row["share"] < 0.95  # two of sixteen workers take four times as long


def test_virtual_seconds_are_those_of_the_cluster():
    """Three quick workers and one that takes four times as long make 3.25 times as many updates as one."""
    settings = mse.Settings(workers=(1, 4), steps=4000)
    (row,) = mse.in_seconds([{"workers": 4, "speedup": 4.0, "low": 3.0, "high": 5.0}], settings)
    assert row["seconds"] == pytest.approx([3.25, 3.25 * 3 / 4, 3.25 * 5 / 4], rel=0.03)


class TestNetworks:
    def test_chains_of_a_plan_are_as_long(self):
        assert {unit.updates for unit in LENET.units()} == {LENET.gradients}
        assert LENET.units()[0].lr == LENET.main_rate

    def test_names_of_forms_differ(self):
        names = [unit.name for plan in (LENET, CIFAR10) for unit in (*plan.units(), *plan.failure_units())]
        assert len(names) == len(set(names))

    def test_what_trains_and_what_does_not(self, tmp_path, monkeypatch):
        """A form trains at a learning rate if all its chains end below the loss of guessing."""
        plan = networks.Plan(
            "cifar10", (0.1, 0.2), 0.1, seeds=2, strides=1, failure=networks.Failure(0.1, 3, (4, 6), 2)
        )

        def execute(unit):
            if unit.workers == 16 and not unit.tame and unit.ahead:
                return {"loss": [8e5 if unit.seed else float("nan")], "seconds": 1.0}  # of weights that are too large
            if unit.workers == 16 and not unit.tame:
                return {"diverged": "yes", "seconds": 1.0, "log_likelihood": np.zeros(3)}
            return {"loss": [3.0 if unit.lr > 0.15 and not unit.ahead else 1.0], "seconds": 1.0}

        monkeypatch.setattr(networks, "execute", execute)
        nothing = networks.measure(tmp_path, plan, lambda what, share: None, budget=0)
        assert nothing["chains"] == [0, 33]
        assert {verdict["outcome"] for verdict in nothing["failure"]["verdicts"]} == {"cannot be told"}
        assert {row["largest_lr"] for row in nothing["rows"]} == {None}
        found = networks.measure(tmp_path, plan, lambda what, share: None)
        assert found["chains"] == [33, 33]
        again = networks.measure(tmp_path, plan, lambda what, share: None, budget=0)
        assert json.dumps(again) == json.dumps(found)
        largest = {(row["form"], row["workers"]): row["largest_lr"] for row in found["rows"]}
        assert largest == {
            ("fresh", 1): 0.1, ("plain", 9): 0.1, ("ahead", 9): 0.2, ("tamed", 9): 0.2,
            ("plain", 16): None, ("ahead", 16): None, ("tamed", 16): 0.2,
        }  # fmt: skip
        assert [(row["form"], row["workers"]) for row in found["failure"]["rows"]][:3] == [
            ("plain", 4), ("plain", 6), ("ahead", 4),
        ]  # fmt: skip
        verdicts = {verdict["statement"]: verdict for verdict in found["verdicts"]}
        assert len(verdicts) == 4  # of the rate with two seeds: two forms, two numbers of workers
        lived = verdicts["lr 0.1, 16 workers: tamed ends below plain after 144 gradients"]
        assert lived["outcome"] == "holds"
        assert lived["evidence"] == f"2 seeds: {1 - np.log(10):+.3f} ± 0.000; 2 of the plain chains diverged"
        same = verdicts["lr 0.1, 9 workers: tamed ends below plain after 144 gradients"]
        assert same["outcome"] == "cannot be told"
        draw({"cifar10": found, "lenet": found}, tmp_path / "picture.png")
        assert (tmp_path / "picture.png").stat().st_size > 10_000

    def test_more_workers_are_worse_where_intervals_of_paired_seeds_say_so(self, tmp_path, monkeypatch):
        plan = networks.Plan("cifar10", (), 0.1, seeds=1, strides=1, failure=networks.Failure(0.1, 3, (4, 6), 5))

        def execute(unit):
            """Seeds differ by more than numbers of workers do; tamed ones gain, and one that looks ahead diverges."""
            gain = {"plain": 0.1, "ahead": 0.1, "tamed": -0.1}[
                "tamed" if unit.tame else (unit.ahead and "ahead") or "plain"
            ]
            if unit.ahead and not unit.tame and unit.workers == 6 and unit.seed == 4:
                return {"diverged": "yes", "seconds": 1.0}
            return {"loss": [1 + 0.2 * unit.seed + gain * (unit.workers == 6) * (1 + 0.1 * unit.seed)], "seconds": 1.0}

        monkeypatch.setattr(networks, "execute", execute)
        found = networks.measure(tmp_path, plan, lambda what, share: None)["failure"]
        assert [verdict["outcome"] for verdict in found["verdicts"]] == ["holds", "cannot be told", "does not hold"]
        assert "6 above 4 by +0.120 ± 0.020" in found["verdicts"][0]["evidence"]
        assert [row["diverged"] for row in found["rows"]] == [0, 0, 0, 1, 0, 0]
        assert found["rows"][3]["loss"][4] == pytest.approx(np.log(10))


def test_the_command(tmp_path, monkeypatch):
    tiny = experiment.Settings(
        gaussian=gaussian.Settings(runs=3, steps=60, burn_in=20, staleness=(0, 4)),
        dropping=dropping.Settings(chains=3, steps=60, burn_in=20, correlations=(0.0, 1.0)),
        cost_sizes=(10,),
        a9a=SMALL,
        softmax=TINY_SOFTMAX,
    )
    monkeypatch.setattr(experiment, "Settings", lambda: tiny)
    monkeypatch.setattr(logistic, "a9a", small_data)
    monkeypatch.setattr(softmax, "mnist", small_images)
    names = ("gaussian", "a9a", "dropping", "cost", "softmax")
    sections = [word for name in names for word in ("--section", name)]
    done = CliRunner().invoke(app, ["reproduce", "free-staleness", "--out", str(tmp_path), *sections])
    assert done.exit_code == 0, done.output
    numbers = json.loads((tmp_path / "free_staleness.json").read_text())
    assert set(names) <= set(numbers)
    again = CliRunner().invoke(app, ["reproduce", "free-staleness", "--out", str(tmp_path), "--section", "dropping"])
    assert "Does dropping bias?" in again.output
    assert set(names) <= set(json.loads((tmp_path / "free_staleness.json").read_text()))  # what was there stays
    assert numbers["cost"]["rows"][0]["update_ratio"] > 0
    assert (tmp_path / "free_staleness.png").stat().st_size > 10_000
    refused = CliRunner().invoke(app, ["reproduce", "free-staleness", "--out", str(tmp_path), "--section", "a10a"])
    assert refused.exit_code != 0
