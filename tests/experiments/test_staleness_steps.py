"""Steps that know staleness: the rules, and an experiment that finds what theory says of them."""

import json

import numpy as np
import pytest
from typer.testing import CliRunner

from stalegrad import SGLD, Trace
from stalegrad.cli import app
from stalegrad.experiments import staleness_steps
from stalegrad.experiments.staleness_rules import RULES, factors, optimal, with_rule

pytestmark = pytest.mark.long


@pytest.mark.parametrize("kappa", [0.5, 3.0, 50.0])
def test_the_optimal_rule_is_the_best_of_all(kappa):
    tau = np.random.default_rng(0).geometric(0.2, 200) - 1
    best = optimal(tau, kappa)
    assert best.mean() == pytest.approx(1)
    assert best.min() >= 0

    def first_order(f):
        return (f * tau).mean() + kappa * (f**2).mean()

    for seed in range(50):
        other = np.maximum(0, best + 0.1 * np.random.default_rng(seed).standard_normal(200))
        assert first_order(other / other.mean()) > first_order(best)
    for rule in RULES:
        assert first_order(factors(rule, tau, kappa)) >= first_order(best) - 1e-9


@pytest.mark.parametrize("rule", RULES)
def test_rules_fall_with_staleness_have_the_mean_one_and_do_nothing_where_it_is_constant(rule):
    f = factors(rule, np.arange(20))
    assert f.mean() == pytest.approx(1)
    assert (np.diff(f) <= 0).all()
    np.testing.assert_allclose(factors(rule, np.full(7, 8)), 1.0)


def test_a_trace_with_a_rule_has_the_steps_of_the_schedule_times_f():
    trace = Trace.random_staleness([1, 1, 1, 1], 50, seed=1)
    kernel = SGLD(step_size=0.1)
    assert with_rule(trace, "constant", kernel.schedule) is trace
    steps = with_rule(trace, "inverse", kernel.schedule).chains[0].step_size
    np.testing.assert_allclose(steps, 0.1 * factors("inverse", trace.chains[0].staleness))


def test_the_bias_that_is_measured_is_the_one_of_first_order():
    """At a small step, with exponential times and exact gradients; constant steps against the optimal rule."""
    settings = staleness_steps.Settings(
        runs=200, batch_runs=3, steps=6000, step_sizes=(0.02,), few=(1,), relaxations=8.0
    )
    model = staleness_steps.exact_model(settings)
    trace = staleness_steps.trace_of(settings, "9 exponential")
    for rule in ("constant", "optimal"):
        found = staleness_steps.measure(settings, "exact gradients", model, trace, rule)
        expected = 0.02 * found["first_order"]
        assert abs(found["bias"][0] - expected) < 5 * found["bias_error"][0] + 0.3 * expected


def test_the_command(tmp_path, monkeypatch):
    tiny = staleness_steps.Settings(runs=3, batch_runs=3, steps=30, step_sizes=(0.1, 0.2), few=(1,), relaxations=1.0)
    monkeypatch.setattr(staleness_steps, "Settings", lambda **changed: tiny)
    done = CliRunner().invoke(app, ["reproduce", "staleness-steps", "--out", str(tmp_path)])
    assert done.exit_code == 0, done.output
    numbers = json.loads((tmp_path / "staleness_steps.json").read_text())
    assert len(numbers["results"]) == 2 * (1 + 4 * len(RULES))
    assert (tmp_path / "staleness_steps.png").stat().st_size > 10_000
