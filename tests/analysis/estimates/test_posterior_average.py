import numpy as np
import pytest
from numpy.testing import assert_allclose

from stalegrad._internal.errors import ArgumentError
from stalegrad.analysis.estimates import Estimate, combine_chains, estimate, mcse
from stalegrad.analysis.estimates.posterior_average import plus_minus
from stalegrad.theory import stale_sgld

DRAWS = np.random.Generator(np.random.Philox(8)).normal(1.0, 0.5, size=(3, 400, 2))


def test_an_estimate_is_the_weighted_average_with_its_error():
    result = estimate(DRAWS, step_sizes=[0.1, 0.2, 0.3])
    assert_allclose(result.weights, [1 / 6, 2 / 6, 3 / 6])
    assert_allclose(result.chains, DRAWS.mean(1))
    assert_allclose(result.value, combine_chains(DRAWS.mean(1), [1, 2, 3]))
    assert_allclose(result.standard_error, mcse(DRAWS, step_sizes=[0.1, 0.2, 0.3]))


def test_step_sizes_that_vary_weigh_draws_and_chains():
    h = [np.linspace(1, 2, 400), np.linspace(3, 1, 400), np.full(400, 0.5)]
    result = estimate(DRAWS, step_sizes=h)
    assert_allclose(result.value, sum(w @ chain for w, chain in zip(h, DRAWS, strict=True)) / np.sum(h))
    assert_allclose(result.weights, np.sum(h, axis=1) / np.sum(h))


def test_it_is_a_number_and_an_array():
    one = estimate(DRAWS[:, :, 0])
    assert float(one) == pytest.approx(DRAWS[:, :, 0].mean())
    assert_allclose(one, DRAWS[:, :, 0].mean())
    assert np.asarray(one).shape == ()
    two = estimate(DRAWS)
    assert_allclose(np.asarray(two), DRAWS.mean((0, 1)))
    assert np.asarray(two, dtype=np.float32).dtype == np.float32
    assert_allclose(np.exp(two), np.exp(DRAWS.mean((0, 1))))
    with pytest.raises(ArgumentError, match=r"shape \(2,\).*\.value"):
        float(two)


@pytest.mark.parametrize(
    ("value", "error", "text"),
    [
        (0.32414, 0.00031, "0.3241 ± 0.0003"),
        (0.32414, 0.00096, "0.324 ± 0.001"),
        (-0.0004, 0.002, "-0.000 ± 0.002"),
        (5.0, 3.0, "5 ± 3"),
        (12345.6, 210.0, "12300 ± 200"),
        (99.97, 0.09, "99.97 ± 0.09"),
        (0.001, 12.0, "0 ± 10"),
        (3.21e-7, 1e-9, "(3.21 ± 0.01)e-07"),
        (3.21e12, 4e10, "(3.21 ± 0.04)e+12"),
        (2.5, 0.0, "2.5 ± 0"),
        (np.nan, 1.0, "nan ± 1"),
        (1.0, np.inf, "1 ± inf"),
    ],
)
def test_shown_to_the_digit_that_is_known(value, error, text):
    assert plus_minus(value, error) == text


def test_repr_of_arrays_is_short():
    error = np.full((5, 2), 0.1)
    shown = repr(Estimate(np.arange(10.0).reshape(5, 2), error, error[None], np.ones(1)))
    assert shown == "Estimate of shape (5, 2): [0.0 ± 0.1, 1.0 ± 0.1, 2.0 ± 0.1, 3.0 ± 0.1, 4.0 ± 0.1, 5.0 ± 0.1, …]"
    assert repr(estimate(DRAWS[:, :, 0])).startswith("1.0")


def test_standard_error_agrees_with_the_exact_one_of_a_stale_chain():
    """300 chains of stale SGLD: the mean squared standard error is the exact variance of the average."""
    h, tau, steps, chains = 0.2, 3, 3000, 300
    rng = np.random.Generator(np.random.Philox(21))
    path = np.zeros((steps + 1, chains))
    for step in range(steps):
        path[step + 1] = path[step] - h * path[max(step - tau, 0)] + np.sqrt(2 * h) * rng.normal(size=chains)
    recursion = stale_sgld(1.0, h, tau)
    exact = recursion.finite_run(recursion.start(0.0), steps).variance[-1]
    squares = np.array([estimate(path[1:, chain]).standard_error for chain in range(chains)]) ** 2
    assert abs(squares.mean() / exact - 1) < 4.9 * squares.std() / exact / np.sqrt(chains) + 0.1
