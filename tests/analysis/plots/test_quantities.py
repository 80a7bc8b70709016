"""What is drawn: which numbers of a draw, under which names, with which weights."""

import numpy as np
import pytest

import stalegrad as sg
from stalegrad.analysis.plots import choose, noted
from stalegrad.analysis.plots.components import Components

from .cases import Made, autoregression, model, sample, uneven, without_draws


@pytest.fixture(scope="module")
def run():
    return sample()


def named(draws):
    return {"w": draws[..., :4].reshape(*draws.shape[:-1], 2, 2), "scale": np.exp(draws[..., 4])}


def test_functions_are_evaluated_on_every_draw_and_weighed_by_the_step_sizes(run):
    (quantity,) = choose(run, {"square": lambda theta: float(theta @ theta)}).quantities
    np.testing.assert_array_equal(quantity.common, run.evaluate(lambda theta: float(theta @ theta)))
    np.testing.assert_array_equal(quantity.weights, run.step_sizes)
    np.testing.assert_array_equal(quantity.updates[0], np.arange(32, 301, 2))
    assert (quantity.name, quantity.length, quantity.problem) == ("square", 135, "")


def test_values_from_evaluate_serve_as_well_as_the_function(run):
    def phi(theta):
        return theta[:2]

    given, called = choose(run, {"φ": run.evaluate(phi)}).quantities, choose(run, {"φ": phi}).quantities
    assert [q.name for q in given] == [q.name for q in called] == ["φ[0]", "φ[1]"]
    for one, other in zip(given, called, strict=True):
        np.testing.assert_array_equal(one.common, other.common)
    with pytest.raises(sg.ArgumentError, match=r"(?s)functions\['φ'\]=.*shape \(3, 7\) for 3 chains of 135 draws"):
        choose(run, {"φ": np.zeros((3, 7))})
    with pytest.raises(sg.ArgumentError, match="is not a mapping"):
        choose(run, [phi])


def test_of_many_parameters_those_are_chosen_that_mix_worst():
    rng = np.random.Generator(np.random.Philox(key=3))
    draws = rng.standard_normal((2, 400, 20))
    draws[:, :, 7] = autoregression(0.95, (2, 400), seed=1)
    draws[1, :, 13] += 5  # chains that disagree are worse still
    chosen = choose(Made(draws), most=2)
    assert [q.name for q in chosen.quantities] == ["theta[13]", "theta[7]"]
    assert chosen.how == "Shown are 2 of 20 parameters, those that mix worst."
    np.testing.assert_array_equal(chosen.quantities[1].common, draws[:, :, 7])
    assert choose(Made(draws[:, :, :2]), most=2).how == ""


def test_a_parameter_that_is_not_finite_is_shown_first_and_said():
    draws = np.random.Generator(np.random.Philox(key=3)).standard_normal((2, 50, 20))
    draws[0, -1, 5] = np.inf
    first, second = choose(Made(draws), most=2).quantities
    assert (first.name, first.problem, second.problem) == ("theta[5]", "some draws are NaN or infinite", "")


def test_parameters_by_name(run):
    from dataclasses import replace

    given = replace(run, variables=named)
    by_name = choose(given, parameters=["w[1,0]", "scale"]).quantities
    assert [q.name for q in by_name] == ["w[1, 0]", "scale"]
    np.testing.assert_array_equal(by_name[0].common, run.draws[:, :, 2])
    np.testing.assert_allclose(by_name[1].common, np.exp(run.draws[:, :, 4]), rtol=1e-6)
    assert {q.name for q in choose(given, parameters="w").quantities} == {
        f"w[{i}, {j}]" for i in (0, 1) for j in (0, 1)
    }
    for wrong in ("v", "w[2, 0]", "w[0]", "scale[0]"):
        with pytest.raises(sg.ArgumentError, match=r"parameters=.*It has w of shape \(2, 2\), scale of shape \(\)"):
            choose(given, parameters=[wrong])
    both = choose(given, {"one": lambda theta: 1.0}, ["scale"]).quantities
    assert [q.name for q in both] == ["one", "scale"]


def test_names_count_through_all_variables():
    components = Components(named, np.zeros(5))
    assert [components.name(k) for k in range(5)] == ["w[0, 0]", "w[0, 1]", "w[1, 0]", "w[1, 1]", "scale"]
    assert components.shapes == {"w": (2, 2), "scale": ()}


def test_chains_of_different_lengths_keep_what_they_have():
    run = uneven()
    (quantity,) = choose(run, {"first": lambda theta: theta[0]}).quantities
    assert [len(chain) for chain in quantity.chains] == [len(u) for u in quantity.updates] == [200, 120, 60]
    assert quantity.common.shape == quantity.weights.shape == (3, 60)
    np.testing.assert_array_equal(quantity.common, run.draws[:, :, 0])
    np.testing.assert_array_equal(quantity.chains[0], run.chain_draws[0][:, 0])


def test_few_draws_are_said_to_be_too_few():
    draws = np.zeros((2, 3, 9))
    chosen = choose(Made(draws))
    assert chosen.how == "Shown are 4 of 9 parameters, evenly spread."
    assert {q.problem for q in chosen.quantities} == {"3 draws a chain: too few"}
    assert choose(without_draws()).quantities == ()


def test_what_was_noted_beside_the_draws(run):
    norm, temperature = noted(run)
    np.testing.assert_array_equal(norm.common, run.stats.gradient_norm)
    np.testing.assert_array_equal(temperature.common, run.stats.kinetic_temperature)
    assert [q.name for q in noted(sample(sg.SGLD(step_size=1e-3)))] == ["norm of the gradient"]


def test_repetitions_are_refused_with_a_way_out(run):
    repeated = sg.replay(run.trace, model(), sg.SGHMC(step_size=0.02, friction=5.0), repeats=2)
    with pytest.raises(sg.ArgumentError, match=r"has 2 repetitions.*sg\.replay\(.*first_repeat=r\)"):
        repeated.plot()
    with pytest.raises(sg.ArgumentError, match="has 2 repetitions"):
        noted(repeated)
    one = sg.replay(run.trace, model(), sg.SGHMC(step_size=0.02, friction=5.0), first_repeat=1)
    np.testing.assert_array_equal(choose(one).quantities[0].chains[0].shape, (135,))
