"""The experiment on free staleness, small: its figures are those of theory, and it goes on where it was stopped."""

import json

import numpy as np
import pytest
from scipy import stats
from typer.testing import CliRunner

from stalegrad.cli import app
from stalegrad.experiments.free_staleness import dropping, experiment, gaussian, logistic
from stalegrad.experiments.free_staleness.networks import LENET

from .small_data import small_data

pytestmark = pytest.mark.long

SMALL = logistic.Settings(
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
    monkeypatch.setattr(logistic, "sampled", None)
    monkeypatch.setattr(logistic, "posterior_means", None)
    again = logistic.measure(tmp_path, SMALL, lambda what, share: None, small_data())
    assert json.dumps(first) == json.dumps(again)
    assert {(row["workers"], row["compensated"]) for row in first["speedup"]} == {(4, False), (4, True)}
    assert first["truth"]["accepted"] > 0.1


def test_speedups_are_those_of_errors_that_are_known():
    """Errors of W workers whose bias is b times as large need b times the updates, at the best step of each."""
    settings = logistic.Settings(thin=10, steps=8000, seed=1)
    L = 10.0 * np.arange(1, 801)
    steps = np.geomspace(1e-4, 1e-1, 60)[:, None, None]
    signs = np.tile([-1.0, 1.0], 50)[None, :, None]

    def errors(b):
        return b * steps + signs / np.sqrt(steps * L)

    found = logistic.speedup(errors(1.0), errors(4.0), 16, settings, resamples=2)
    assert found["speedup"] == pytest.approx(4.0, rel=0.1)


def test_dropping_shifts_and_waiting_shifts_less():
    settings = dropping.Settings(chains=6, steps=600, burn_in=200, correlations=(0.0, 1.0), step_sizes=(0.02,))
    rows = {(row["correlation"], row["policy"]): row for row in dropping.measure(settings)["rows"]}
    assert rows[1.0, "drop"]["shift"] < -0.5
    assert abs(rows[1.0, "wait"]["shift"]) < 0.5
    assert abs(rows[0.0, "drop"]["shift"]) < 0.5
    assert rows[1.0, "drop"]["dropped"] > 0.02
    assert rows[1.0, "wait"]["dropped"] == 0


def test_plans_of_networks_keep_to_a_budget():
    assert LENET.within(None) is LENET
    assert LENET.within(0.001).strides == 1
    assert LENET.within(1e6).strides == LENET.strides
    assert {unit.updates for unit in LENET.units()} == {LENET.gradients}


def test_the_command(tmp_path, monkeypatch):
    tiny = experiment.Settings(
        gaussian=gaussian.Settings(runs=3, steps=60, burn_in=20, staleness=(0, 4)),
        dropping=dropping.Settings(chains=3, steps=60, burn_in=20, correlations=(0.0, 1.0)),
        cost_sizes=(10,),
        a9a=SMALL,
    )
    monkeypatch.setattr(experiment, "Settings", lambda: tiny)
    monkeypatch.setattr(logistic, "a9a", small_data)
    sections = [word for name in ("gaussian", "a9a", "dropping", "cost") for word in ("--section", name)]
    done = CliRunner().invoke(app, ["reproduce", "free-staleness", "--out", str(tmp_path), *sections])
    assert done.exit_code == 0, done.output
    numbers = json.loads((tmp_path / "free_staleness.json").read_text())
    assert {"gaussian", "a9a", "dropping", "cost"} <= set(numbers)
    assert numbers["cost"]["rows"][0]["update_ratio"] > 0
    assert (tmp_path / "free_staleness.png").stat().st_size > 10_000
    refused = CliRunner().invoke(app, ["reproduce", "free-staleness", "--out", str(tmp_path), "--section", "a10a"])
    assert refused.exit_code != 0
