"""A run in a few numbers."""

import json
import math
from dataclasses import replace

import numpy as np
import pytest

import stalegrad as sg
from stalegrad.analysis.diagnostics import convergence
from stalegrad.engines import Event
from stalegrad.potentials import GaussianMean
from stalegrad.runs.summary import summarise


def sampled(size=3, **changes):
    potential = GaussianMean(np.arange(4.0 * size).reshape(4, size) / size, batch_size=2)
    settings = {"steps": 300, "servers": 2, "workers": 3, "engine": "inline", "progress": False, **changes}
    return sg.sample(potential, sg.SGLD(step_size=0.01), **settings)


def test_numbers_are_those_of_the_run():
    run = sampled(burn_in=50, thin=2)
    summary = summarise(run)
    assert [(c.updates, c.draws, c.dropped, c.max_staleness) for c in summary.chains] == [(300, 125, 0, 2)] * 2
    assert summary.chains[0].mean_staleness == pytest.approx((0 + 1 + 2 * 298) / 300)
    mean, rhat = run.estimate(lambda theta: theta), convergence(run.draws).rhat
    for k, parameter in enumerate(summary.parameters):
        assert parameter.name == f"theta[{k}]"
        assert parameter.mean == pytest.approx(mean.value[k], rel=1e-6)
        assert parameter.standard_error == pytest.approx(mean.standard_error[k], rel=1e-4)
        assert parameter.deviation == pytest.approx(run.draws[..., k].std(), rel=1e-4)
        assert parameter.rhat == pytest.approx(rhat[k], rel=1e-4)
        assert 1 < parameter.ess < 250
    assert (summary.size, summary.events, summary.wall_seconds) == (3, {}, None)


def test_a_chain_that_has_not_arrived_has_no_standard_error():
    run = sampled()
    way = np.array(run.draws)
    way[0, :, 1] += np.linspace(0, 100, 300)
    summary = summarise(replace(run, draws=way))
    assert [math.isnan(each.standard_error) for each in summary.parameters] == [False, True, False]
    assert [math.isnan(each.ess) for each in summary.parameters] == [False, True, False]
    assert summary.table()["parameters"][1]["standard_error"] is None


def test_dropped_gradients_and_faults_are_counted():
    run = sampled(workers=6, max_staleness=4)
    assert run.trace.chains[0].steps == 300
    events = tuple(Event(1.0, 0, worker, kind, "") for worker, kind in enumerate(["died", "raised", "died"]))
    summary = summarise(replace(run, events=events))
    assert summary.chains[0].dropped == len(run.trace.chains[0]) - 300 > 0
    assert summary.chains[0].max_staleness <= 4
    assert summary.events == {"died": 2, "raised": 1}


def test_time_is_that_of_a_real_engine():
    summary = summarise(sampled(steps=50, engine="threads"))
    assert 0 < summary.gradient_seconds < summary.wall_seconds


def test_parameters_are_named_and_spread_over_all_variables():
    run = sampled(size=60)
    layout = {"weights": (5, 10), "bias": (9,), "scale": ()}

    def named(draws):
        return sg.potentials.base.split(draws, layout)

    found = summarise(replace(run, variables=named), parameters=6).parameters
    assert [p.name for p in found] == ["weights[0, 0]", "weights[1, 0]", "weights[2, 0]", "weights[3, 0]",
                                       "weights[4, 0]", "bias[0]"]  # fmt: skip
    everything = summarise(replace(run, variables=named), parameters=1000).parameters
    assert [p.name for p in everything][-2:] == ["bias[8]", "scale"]
    assert len({p.name for p in everything}) == 60
    columns = {p.name: p.mean for p in everything}
    assert columns["weights[3, 7]"] == pytest.approx(run.estimate(lambda theta: theta[37]).value)
    assert columns["scale"] == pytest.approx(run.estimate(lambda theta: theta[59]).value)


def test_variables_that_are_not_pieces_of_theta():
    """A model with constrained parameters transforms its draws."""
    run = replace(sampled(), variables=lambda draws: {"size": np.exp(draws[..., 0])})
    (parameter,) = summarise(run).parameters
    assert parameter.name == "size"
    assert parameter.mean == pytest.approx(run.estimate(lambda theta: np.exp(theta[0])).value)


def test_long_runs_are_thinned_for_rhat_alone():
    run = sampled(size=1, steps=5000)
    (parameter,) = summarise(run).parameters
    assert parameter.rhat == pytest.approx(float(convergence(run.draws[:, ::3])[0][0]), rel=1e-4)
    assert parameter.mean == pytest.approx(run.estimate(lambda theta: theta[0]).value)


@pytest.mark.parametrize("run", [lambda: sampled(steps=3), lambda: sampled(repeats=2)], ids=["short", "repeated"])
def test_without_enough_draws_there_is_nothing_to_say_of_parameters(run):
    summary = summarise(run())
    assert summary.parameters == ()
    assert len(summary.chains) == 2


def test_a_diverged_run_still_has_chains():
    run = sampled()
    draws = run.draws.copy()
    draws[1, -1, 0] = np.inf
    assert summarise(replace(run, draws=draws)).parameters == ()


def test_plain_types_without_nan():
    run = sampled(servers=1)
    constant = replace(run, draws=np.ones_like(run.draws))
    summary = summarise(constant)
    assert math.isnan(summary.parameters[0].rhat)
    table = json.loads(json.dumps(summary.table(), allow_nan=False))
    assert table["parameters"][0]["rhat"] is None
    assert table["parameters"][0]["mean"] == pytest.approx(1.0)
    assert table["chains"][0] == {
        "updates": 300, "draws": 300, "dropped": 0, "mean_staleness": summary.chains[0].mean_staleness,
        "max_staleness": 2,
    }  # fmt: skip


class TestParameterTable:
    def test_a_data_frame_by_name(self):
        run = sampled()
        table, shown = run.summary(), summarise(run).parameters
        assert type(table).__module__.startswith("pandas")
        assert list(table.columns) == ["mean", "sd", "mcse", "ess", "rhat"]
        assert list(table.index) == ["theta[0]", "theta[1]", "theta[2]"]
        assert table["mean"]["theta[1]"] == shown[1].mean
        assert table.loc["theta[2]", "mcse"] == shown[2].standard_error
        assert [table["sd"].iloc[0], table["ess"].iloc[0], table["rhat"].iloc[0]] == [
            shown[0].deviation, shown[0].ess, shown[0].rhat
        ]  # fmt: skip

    def test_without_pandas_it_prints_as_well(self, monkeypatch):
        monkeypatch.setattr("stalegrad.runs.parameter_table.find_spec", lambda name: None)
        run = sampled()
        table = run.summary()
        assert table["mean"]["theta[1]"] == summarise(run).parameters[1].mean
        lines = str(table).splitlines()
        assert [line.split()[0] for line in lines] == ["mean", "theta[0]", "theta[1]", "theta[2]"]
        assert len({len(line) for line in lines}) == 1

    def test_many_parameters_are_worked_out_in_pieces(self, monkeypatch):
        run = sampled(size=100)
        whole = run.summary()
        assert len(whole) == 100
        monkeypatch.setattr("stalegrad.runs.parameter_table._AT_ONCE", 7)
        np.testing.assert_allclose(run.summary(), whole, rtol=1e-9)

    def test_some_of_them(self):
        run = sampled(size=5)
        assert list(run.summary(["theta[4]", "theta[0]"]).index) == ["theta[4]", "theta[0]"]
        with pytest.warns(UserWarning, match="the model has 5 parameters, of which run.summary.. shows 2"):
            assert list(run.summary(most=2).index) == ["theta[0]", "theta[2]"]
        with pytest.raises(sg.ArgumentError, match=r"parameters='thet'.*theta of shape \(5,\)"):
            run.summary("thet")

    def test_too_few_draws(self):
        with pytest.raises(sg.ArgumentError, match="has 3 draws of each chain"):
            sampled(steps=3).summary()
