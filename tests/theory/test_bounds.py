"""The bounds, against the formulas written out by hand and against what they must reduce to."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from stalegrad._internal.errors import ArgumentError
from stalegrad.theory import (
    bias_bound,
    chains_bias_bound,
    chains_mse_bound,
    chains_variance_bound,
    mse_bound,
    variance_bound,
)


def test_single_chain_formulas_with_their_constants():
    assert_allclose(bias_bound(50, 0.2, 3, order=2, m0=2, m1=5, m2=7), 2 / 10 + 5 * 3 * 0.2 + 7 * 0.2**2)
    assert_allclose(mse_bound(50, 0.2, 3, order=2, m0=2, m1=5, m2=7), 2 / 10 + 5 * 9 * 0.04 + 7 * 0.2**4)
    assert_allclose(variance_bound(50, 0.2, order=2, m0=2, m2=7), 2 / 10 + 7 * 0.2**4)


def test_staleness_enters_bias_linearly_and_mse_quadratically():
    tau = np.array([0.0, 1.0, 2.0, 4.0])
    assert_allclose(np.diff(bias_bound(10, 0.1, tau)), 0.1 * np.diff(tau))
    assert_allclose(np.diff(mse_bound(10, 0.1, tau)), 0.01 * np.diff(tau**2))


def test_inputs_broadcast():
    table = bias_bound(np.array([[10], [20], [30]]), 0.1, [0, 1])
    assert table.shape == (3, 2)
    assert_allclose(table[2, 1], bias_bound(30, 0.1, 1))


def test_one_chain_among_several_is_the_single_chain():
    steps, h, tau = 80, 0.05, 4
    assert_allclose(
        chains_bias_bound([steps * h], [h], tau, order=2, m1=3, m2=2), bias_bound(80, h, 4, order=2, m1=3, m2=2)
    )
    assert_allclose(chains_mse_bound([steps * h], [h], tau, m1=3, m2=2), mse_bound(80, h, 4, m1=9, m2=4))
    assert_allclose(chains_variance_bound([steps * h], [h], m2=2), variance_bound(80, h, m2=2))


def test_several_unequal_chains_by_hand():
    times, steps = np.array([2.0, 4.0, 6.0]), np.array([0.1, 0.2, 0.3])
    mean, total = 4.0, 12.0
    assert_allclose(chains_bias_bound(times, steps, 5), 1 / mean + 6 / mean * (5 * 0.3 + 0.3))
    mixing = (1 - 1 / mean) / total + 1 / mean**2
    assert_allclose(chains_mse_bound(times, steps, 5, m0=2, m1=3), 2 * mixing + 2.25 * (9 * 25 * 0.09 + 0.09))
    assert_allclose(chains_variance_bound(times, steps), 1 / total + np.sum((times / total) ** 2 * steps**2))


def test_many_chains_divide_the_variance_and_leave_the_bias():
    for chains in (2, 5):
        assert_allclose(chains_variance_bound([3.0] * chains, 0.1), chains_variance_bound([3.0], 0.1) / chains)
        assert_allclose(chains_bias_bound([3.0] * chains, 0.1, 2), chains_bias_bound([3.0], 0.1, 2))


def test_leading_axes_of_times_are_vectorised():
    times = np.array([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]])
    bounds = chains_mse_bound(times, [0.1, 0.2], [0, 1, 2])
    assert_allclose(bounds, [chains_mse_bound(t, [0.1, 0.2], k) for k, t in enumerate(times)])


@pytest.mark.parametrize(
    ("call", "name"),
    [
        (lambda: bias_bound(0, 0.1), "steps"),
        (lambda: bias_bound([1, np.nan], 0.1), "steps"),
        (lambda: bias_bound(10, -0.1), "step_size"),
        (lambda: mse_bound(10, 0.1, -1), "staleness"),
        (lambda: mse_bound(10, 0.1, order=0), "order"),
        (lambda: mse_bound(10, 0.1, order=1.5), "order"),
        (lambda: variance_bound(10, "wide"), "step_size"),
        (lambda: variance_bound(10, 0.1, m2=-1), "m2"),
        (lambda: bias_bound([1, 2, 3], [0.1, 0.2]), "steps, step_size, staleness"),
        (lambda: chains_bias_bound(3.0, 0.1), "times"),
        (lambda: chains_bias_bound([], 0.1), "times"),
        (lambda: chains_mse_bound([1.0, 2.0], [0.1, 0.1, 0.1]), "times, step_sizes"),
        (lambda: chains_variance_bound([1.0], [0.1, 0.2]), "step_sizes"),
        (lambda: chains_bias_bound([1.0, 2.0], 0.1, [[0, 1], [1, 0]]), None),
        (lambda: chains_bias_bound(np.ones((3, 2)), 0.1, [0, 1]), "times without the chains, staleness"),
    ],
)
def test_malformed_arguments_are_named(call, name):
    if name is None:
        assert call().shape == (2, 2)
        return
    with pytest.raises(ArgumentError) as caught:
        call()
    assert caught.value.name == name
    assert caught.value.remedy
