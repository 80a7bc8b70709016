"""Best step sizes: closed forms where there are some, minimality everywhere, and the rates they must give."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose

from stalegrad import theory
from stalegrad._internal.errors import ArgumentError
from stalegrad.theory.posynomials import minimiser

constants = st.floats(1e-6, 1e6)


def test_closed_forms():
    steps, tau = np.array([10.0, 1e3, 1e7]), 3.0
    for order in (1, 2, 4):
        best = theory.variance_optimal_step(steps, order=order, m0=2, m2=5)
        assert_allclose(best, (2 / (2 * order * 5 * steps)) ** (1 / (2 * order + 1)), rtol=1e-12)
    assert_allclose(theory.bias_optimal_step(steps, tau, m0=2, m1=5, m2=7), np.sqrt(2 / (steps * 22)), rtol=1e-12)
    assert_allclose(theory.mse_optimal_step(steps, tau, m0=2, m1=5, m2=7), (2 / (104 * steps)) ** (1 / 3), rtol=1e-12)
    assert_allclose(theory.bias_optimal_step(steps, order=3, m2=2), (1 / (6 * steps)) ** (1 / 4), rtol=1e-12)


@settings(derandomize=True, deadline=None, max_examples=60)
@given(st.floats(1, 1e9), st.floats(0, 1e3), st.integers(1, 4), constants, constants, constants)
def test_no_other_step_is_better(steps, tau, order, m0, m1, m2):
    factors = np.array([0.5, 0.9, 1.1, 2.0])
    options = {"order": order, "m0": m0, "m1": m1, "m2": m2}
    cases = [
        (theory.bias_optimal_step(steps, tau, **options), lambda h: theory.bias_bound(steps, h, tau, **options)),
        (theory.mse_optimal_step(steps, tau, **options), lambda h: theory.mse_bound(steps, h, tau, **options)),
    ]
    for best, bound in cases:
        assert np.all(bound(best * factors) > bound(best))


@settings(derandomize=True, deadline=None, max_examples=40)
@given(st.lists(st.floats(1, 1e6), min_size=1, max_size=6), st.floats(0, 100), st.integers(1, 3), constants, constants)
def test_no_other_common_step_is_better_for_several_chains(steps, tau, order, m1, m2):
    counts = np.array(steps)
    options = {"order": order, "m1": m1, "m2": m2}
    pairs = [
        (theory.chains_bias_optimal_step, theory.chains_bias_bound, (tau,), options),
        (theory.chains_mse_optimal_step, theory.chains_mse_bound, (tau,), options),
        (theory.chains_variance_optimal_step, theory.chains_variance_bound, (), {"order": order, "m2": m2}),
    ]
    for optimum, bound, more, kwargs in pairs:
        best = optimum(counts, *more, **kwargs)
        here = bound(counts * best, best, *more, **kwargs)
        for factor in (0.5, 0.9, 1.1, 2.0):
            assert bound(counts * best * factor, best * factor, *more, **kwargs) > here


@pytest.mark.parametrize("order", [1, 2, 3])
def test_rates_are_the_slopes_of_the_optimised_bounds(order):
    steps = np.array([1e12, 1e14])
    best = theory.variance_bound(steps, theory.variance_optimal_step(steps, order=order), order=order)
    rate = theory.variance_rate(steps, order=order)
    assert_allclose(best[1] / best[0], rate[1] / rate[0], rtol=1e-10)
    # Where the τ term dominates (order ≥ 2, or a large τ) the rest follows (τ/L)^{1/2} and (τ/L)^{2/3}, in L and in τ.
    for count, tau in [(steps, 1e6), (1e14, np.array([1e6, 1e8]))]:
        bias = theory.bias_bound(count, theory.bias_optimal_step(count, tau, order=order), tau, order=order)
        mse = theory.mse_bound(count, theory.mse_optimal_step(count, tau, order=order), tau, order=order)
        assert_allclose(bias[1] / bias[0], np.divide(*theory.bias_rate(count, tau)[::-1]), rtol=1e-4)
        assert_allclose(mse[1] / mse[0], np.divide(*theory.mse_rate(count, tau)[::-1]), rtol=1e-4)


@pytest.mark.parametrize("order", [1, 2])
def test_rates_without_staleness_and_of_several_chains(order):
    steps = np.array([1e12, 1e15])
    bias = theory.bias_bound(steps, theory.bias_optimal_step(steps, order=order), order=order)
    assert_allclose(bias[1] / bias[0], np.divide(*theory.bias_rate(steps, order=order)[::-1]), rtol=1e-9)
    mse = theory.mse_bound(steps, theory.mse_optimal_step(steps, order=order), order=order)
    assert_allclose(mse[1] / mse[0], np.divide(*theory.mse_rate(steps, order=order)[::-1]), rtol=1e-9)
    for tau in (0.0, 1e6):  # one chain and eight of as many updates: in the ratio that the rates have
        chains = [np.full(count, 1e20) for count in (1, 8)]
        best = [theory.chains_mse_optimal_step(each, tau, order=order) for each in chains]
        bound = [theory.chains_mse_bound(e * h, h, tau, order=order) for e, h in zip(chains, best, strict=True)]
        rate = theory.mse_rate(1e20, tau, order=order, chains=[1, 8])
        assert_allclose(bound[1] / bound[0], rate[1] / rate[0], rtol=1e-3)
    few, many = (theory.chains_variance_bound(np.full(s, 1e9) * 1e-3, 1e-3, order=order) for s in (1, 8))
    assert_allclose(many / few, np.divide(*theory.variance_rate(1e9, chains=[8, 1], order=order)))


def test_stale_step_size_is_the_optimum_without_the_other_term():
    steps, tau = np.array([500.0, 5e4]), np.array([1.0, 20.0])
    mse = theory.mse_optimal_step(steps, tau, m0=3, m1=2, m2=0)
    assert_allclose(theory.stale_step_size(steps, tau, constant=(3 / 4) ** (1 / 3)), mse, rtol=1e-12)
    bias = theory.bias_optimal_step(steps, tau, m0=3, m1=2, m2=0)
    assert_allclose(theory.stale_step_size(steps, tau, constant=1.5**0.5, criterion="bias"), bias, rtol=1e-12)


def test_figure_1_steps_of_the_paper():
    tau = np.array([1, 2, 5, 10, 15, 20])
    h = theory.stale_step_size(500 * tau, tau, constant=1 / 30)
    assert_allclose(h * 500 * tau, 500 ** (2 / 3) / 30)  # the same T for every curve, about 2.1
    assert_allclose(theory.mse_rate(500 * tau, tau), 500 ** (-2 / 3))  # so the end points agree


def test_linear_speedup_leaves_the_variance_equal():
    workers = np.array([1, 2, 4, 9])
    per_worker = 9000 / theory.linear_speedup(workers)
    assert_allclose(theory.variance_rate(workers * per_worker), theory.variance_rate(9000))
    assert_allclose(theory.linear_speedup(6, baseline=2), 3)


def test_minimiser_survives_extreme_coefficients():
    assert_allclose(minimiser([(1e-300, -1), (1e300, 4)]), 1e-120 * 0.25**0.2)
    assert_allclose(minimiser([(1e300, -1), (1e-300, 1), (1e-300, 2)]), 10**200 * 0.5 ** (1 / 3))


@pytest.mark.parametrize(
    ("call", "name"),
    [
        (lambda: theory.bias_optimal_step(100, 0, m2=0), "m0, m1, m2"),
        (lambda: theory.mse_optimal_step(100, [1, 0], m2=0), "m0, m1, m2"),
        (lambda: theory.variance_optimal_step(100, m0=0), "m0, m1, m2"),
        (lambda: theory.variance_optimal_step(-5), "steps"),
        (lambda: theory.chains_mse_optimal_step(5.0), "steps"),
        (lambda: theory.stale_step_size(100, 0), "staleness"),
        (lambda: theory.stale_step_size(100, 1, criterion="variance"), "criterion"),
        (lambda: theory.mse_rate(100, -1), "staleness"),
        (lambda: theory.linear_speedup(0), "workers"),
        (lambda: theory.bias_optimal_step([1, 2], [1, 2, 3]), "steps, staleness"),
    ],
)
def test_malformed_arguments_are_named(call, name):
    with pytest.raises(ArgumentError) as caught:
        call()
    assert caught.value.name == name
