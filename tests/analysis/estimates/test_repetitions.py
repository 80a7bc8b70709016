import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy import stats

from stalegrad._internal.errors import ArgumentError
from stalegrad.analysis.estimates import precision

Z = stats.norm.isf(1e-6 / 2)


def test_definitions():
    estimates = np.random.Generator(np.random.Philox(1)).gamma(2.0, size=(30, 4))
    result = precision(estimates, 1.7)
    assert_allclose(result.bias, estimates.mean(0) - 1.7)
    assert_allclose(result.variance, estimates.var(0, ddof=1))
    assert_allclose(result.mse, ((estimates - 1.7) ** 2).mean(0))
    assert_allclose(result.mse, result.bias**2 + result.variance * 29 / 30)
    assert_allclose(result.bias_error, stats.sem(estimates))
    assert_allclose(result.mse_error, stats.sem((estimates - 1.7) ** 2))
    assert result.repetitions == 30


def test_error_of_the_variance_is_the_jackknife():
    estimates = np.random.Generator(np.random.Philox(2)).gamma(2.0, size=12)
    left_out = np.array([np.delete(estimates, r).var(ddof=1) for r in range(12)])
    expected = np.sqrt(11 / 12 * ((left_out - left_out.mean()) ** 2).sum())
    assert_allclose(precision(estimates, 0.0).variance_error, expected)


@pytest.mark.parametrize("draw", ["normal", "exponential"])
def test_errors_are_the_spread_of_what_they_describe(draw):
    """Over 4,000 experiments of 60 repetitions, each error agrees with the real standard deviation of its quantity."""
    rng = np.random.Generator(np.random.Philox(3))
    sample = rng.normal(1.0, 2.0, size=(60, 4000)) if draw == "normal" else rng.exponential(2.0, size=(60, 4000))
    result = precision(sample, 0.5)
    for quantity, error in [
        (result.bias, result.bias_error),
        (result.mse, result.mse_error),
        (result.variance, result.variance_error),
    ]:
        spread, squares = quantity.var(ddof=1), error**2
        kurtosis = stats.kurtosis(quantity) + 2
        sure = spread * np.sqrt(kurtosis / 4000) + squares.std() / np.sqrt(4000)
        assert abs(squares.mean() - spread) < Z * sure + 0.06 * spread  # the jackknife leans to the safe side
    assert abs(result.variance.mean() - 4.0) < Z * result.variance.std() / np.sqrt(4000)


def test_truth_may_be_one_number_a_component():
    estimates = np.random.Generator(np.random.Philox(4)).normal(size=(5, 3, 2))
    result = precision(estimates, [1.0, -1.0])
    assert_allclose(result.bias, estimates.mean(0) - np.array([1.0, -1.0]))
    assert result.variance_error.shape == (3, 2)


def test_large_offsets_do_not_spoil_the_variance():
    small = np.random.Generator(np.random.Philox(4)).normal(size=20)
    assert_allclose(precision(small + 1e8, 1e8).variance, small.var(ddof=1), rtol=1e-6)


def test_equal_estimates_have_no_spread():
    result = precision(np.full(5, 0.1), 0.0)
    assert result.variance_error == pytest.approx(0, abs=1e-15)
    assert result.mse_error == pytest.approx(0, abs=1e-15)


@pytest.mark.parametrize(
    ("call", "name"),
    [
        (lambda: precision([1.0, 2.0], 0.0), "estimates"),
        (lambda: precision(1.0, 0.0), "estimates"),
        (lambda: precision([1.0, 2.0, np.inf], 0.0), "estimates"),
        (lambda: precision([1.0, 2.0, 3.0], [0.0, 0.0, 0.0]), "truth"),
        (lambda: precision(np.ones((3, 4)), [0.0, 0.0]), "truth"),
        (lambda: precision([1.0, 2.0, 3.0], None), "truth"),
    ],
)
def test_malformed_arguments_are_named(call, name):
    with pytest.raises(ArgumentError) as caught:
        call()
    assert caught.value.name == name
