"""What the commands compute: the numbers of figure 1, and predictions of how a cluster scales."""

import json
from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

from stalegrad._internal.errors import ArgumentError
from stalegrad.engines.simulation import Constant, Exponential, Network
from stalegrad.experiments import fig1
from stalegrad.planning import scaling

LIMIT = stats.norm.isf(1e-6 / 2)  # standard errors that chance exceeds once in a million

SMALL = fig1.Settings(
    runs=20, tau=(1, 3), n_data=100, steps_per_tau=30, bound_tau=(1, 2), bound_steps_per_tau=(30, 60),
    mixing_tau=(0, 20), mixing_step_size=0.01, mixing_steps=4000,
    mixing_burn_in=1000, mixing_thin=5, mixing_runs=500,
)  # fmt: skip


def test_end_points_are_about_equal_at_the_papers_constants():
    numbers = fig1.paper_panel(fig1.Settings())
    assert numbers["end_ratio"] <= 1.35
    assert numbers["end_ratio"] == max(numbers["end_mse"]) / min(numbers["end_mse"])
    for tau, curve, h in zip(fig1.Settings().tau, numbers["curves"], numbers["step_size"], strict=True):
        assert curve["iteration"][0] == 1
        assert curve["iteration"][-1] == 500 * tau
        assert h == pytest.approx(tau ** (-2 / 3) * (500 * tau) ** (-1 / 3) / 30, rel=1e-12)
        assert curve["mse"][0] > 2 * curve["mse"][-1]  # it falls


def test_the_second_panel_agrees_with_the_closed_form():
    panel = {name: np.array(values) for name, values in fig1.mixing_panel(SMALL).items()}
    assert (np.abs(panel["bias"] - panel["exact_bias"]) < LIMIT * panel["bias_error"]).all()
    # The closed form is the limit of long runs; this one is 30 times as long as it remembers.
    np.testing.assert_allclose(panel["variance"], panel["exact_variance"], rtol=0.3)
    assert panel["bias"][1] > panel["bias"][0] + LIMIT * np.hypot(*panel["bias_error"])


def test_reproduce_gives_all_numbers_as_plain_json():
    numbers = fig1.reproduce(SMALL)
    assert {"tau", "end_mse", "end_mse_error", "runs", "curves", "mixing", "posterior", "seconds"} <= set(numbers)
    ends = [row["mse"] for row in numbers["bound"]["rows"] if (row["tau"], row["steps_per_tau"]) == (1, 30)]
    assert ends == pytest.approx(numbers["end_mse"][:1])  # the same run as in the first panel
    assert len(numbers["verdicts"]) == 4
    again = json.loads(json.dumps(numbers, allow_nan=False))
    assert again["tau"] == [1, 3]
    assert again["runs"] == 20
    other = fig1.reproduce(replace(SMALL, seed=1))
    assert other["end_mse"] != numbers["end_mse"]


def test_predictions_are_those_of_constant_times():
    """A worker's cycle is 10 ms + 2 · 1 ms + 1 ms of update: 13 ms, until the server is busy all the time."""
    settings = {"law": lambda workers: Constant(0.01), "network": Network(latency=0.001), "update": 0.001}
    predictions = scaling.predict([1, 2, 8, 13, 26], steps=2000, **settings)
    rates = np.minimum(np.array([1, 2, 8, 13, 26]) / 0.013, 1000)
    np.testing.assert_allclose([p.updates_per_second for p in predictions], rates, rtol=0.01)
    np.testing.assert_allclose([p.speedup for p in predictions], rates * 0.013, rtol=0.01)
    np.testing.assert_allclose([p.server_busy for p in predictions], rates / 1000, rtol=0.01)
    assert [p.mean_staleness for p in predictions] == [0, 1, 7, 12, 25]
    assert [p.max_staleness for p in predictions] == [0, 1, 7, 12, 25]
    assert not any(p.dropped for p in predictions)


def test_a_bound_shows_in_what_is_dropped():
    def law(workers):
        return Exponential(0.01, factors={0: 8.0} if workers > 1 else {})

    (prediction,) = scaling.predict([8], law=law, steps=4000, max_staleness=12)
    assert 0.01 < prediction.dropped < 0.5
    assert prediction.max_staleness <= 12
    assert prediction.mean_staleness <= 12


def test_few_steps_are_enough_for_every_worker_to_come_round():
    """Equal workers without delays come in bursts, and the rate is that of whole bursts."""
    (prediction,) = scaling.predict([64], law=lambda workers: Constant(1.0), steps=100)
    assert prediction.speedup == pytest.approx(64, rel=1e-9)


def test_nothing_takes_time():
    with pytest.raises(ArgumentError, match=r"compute=0\.0: takes no time, so there is no rate"):
        scaling.predict([1], law=lambda workers: Constant(0.0))
