import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy import stats

from stalegrad._internal.errors import ArgumentError
from stalegrad.analysis.estimates import PredictiveAverage, PredictiveNormal, average_predictions
from stalegrad.potentials import Linear

RNG = np.random.Generator(np.random.Philox(31))
MEANS, NOISE = RNG.normal(size=(40, 25)), RNG.uniform(0.5, 2, size=(40, 25))  # (draw, row)
WEIGHTS = RNG.uniform(0.1, 2, size=40)
Z = stats.norm.isf(1e-6 / 2)


def streamed(part=slice(None), scale=1.0):
    average = PredictiveNormal()
    for mean, noise, weight in zip(MEANS[part], NOISE[part], WEIGHTS[part], strict=True):
        average.add(mean, noise, scale * weight)
    return average


def test_mean_and_variance_are_those_of_the_mixture():
    """E y = E μ and E y² = E(σ² + μ²)."""
    average = streamed()
    mean = np.average(MEANS, axis=0, weights=WEIGHTS)
    second = np.average(NOISE + MEANS**2, axis=0, weights=WEIGHTS)
    assert_allclose(average.mean, mean, rtol=1e-12)
    assert_allclose(average.variance, second - mean**2, rtol=1e-12)
    assert_allclose(average.spread**2, np.average((MEANS - mean) ** 2, axis=0, weights=WEIGHTS), rtol=1e-12)
    assert (average.count, average.weight) == (40, pytest.approx(WEIGHTS.sum()))
    assert_allclose(streamed(scale=1e-7).variance, average.variance, rtol=1e-10)


@pytest.mark.parametrize("cut", [0, 1, 13, 40])
def test_chains_averaged_apart_add_up(cut):
    both, whole = streamed(slice(cut)) + streamed(slice(cut, None)), streamed()
    assert_allclose(both.mean, whole.mean, rtol=1e-12)
    assert_allclose(both.variance, whole.variance, rtol=1e-12)
    assert both.count == 40


def test_intervals_hold_what_they_say():
    average = streamed()
    low, high = average.interval(0.8)
    assert_allclose([low, high], stats.norm.interval(0.8, average.mean, np.sqrt(average.variance)), rtol=1e-12)
    y = np.where(np.arange(25) < 5, high + 1e-9, high - 1e-9)
    assert average.scores(y, level=0.8).interval_coverage == 0.8


def test_the_stream_keeps_no_draws():
    average = streamed()
    assert sum(np.size(value) for value in vars(average).values()) <= 4 * MEANS[0].size + 2


def test_linear_regression_comes_out_as_its_closed_form():
    """The predictive distribution is N(xᵀm, xᵀΣx + σ²), and data drawn with it are scored as they should be."""
    x = RNG.normal(size=(60, 3))
    model = Linear(x, x @ [1.0, -2.0, 0.5] + RNG.normal(0, 0.7, size=60), 0.7, 2.0, dtype=np.float64)
    m, sigma = model.posterior()
    count, rows = 4000, 1000
    draws = RNG.multivariate_normal(m, sigma, size=(1, count))
    test = RNG.normal(size=(rows, 3))
    average = average_predictions(draws, np.ones((1, count)), model.predictive(test), batch=None)
    assert isinstance(average, PredictiveNormal)
    spread = np.einsum("ij,jk,ik->i", test, sigma, test)
    tail = 1e-6 / 2 / rows  # for all rows together
    assert np.all(np.abs(average.mean - test @ m) < stats.norm.isf(tail) * np.sqrt(spread / count))
    squares = count * (average.variance - 0.7**2) / spread
    assert stats.chi2.ppf(tail, count - 1) < squares.min() < squares.max() < stats.chi2.isf(tail, count - 1)

    y = RNG.normal(test @ m, np.sqrt(spread + 0.7**2))
    scores = average.scores(y)
    assert abs(scores.interval_coverage - 0.9) < Z * np.sqrt(0.9 * 0.1 / rows)
    density = stats.norm.logpdf(y, test @ m, np.sqrt(spread + 0.7**2))
    assert scores.mean_log_density == pytest.approx(density.mean(), abs=1e-3)


@pytest.mark.parametrize(
    ("call", "name"),
    [
        (lambda: PredictiveNormal().mean, "average"),
        (lambda: PredictiveNormal().variance, "average"),
        (lambda: PredictiveNormal().spread, "average"),
        (lambda: PredictiveNormal().interval(), "average"),
        (lambda: PredictiveNormal().scores([1.0]), "average"),
        (lambda: PredictiveNormal().add(1.0, 1.0), "mean"),
        (lambda: PredictiveNormal().add([np.nan], 1.0), "mean"),
        (lambda: PredictiveNormal().add([1.0], -1.0), "variance"),
        (lambda: PredictiveNormal().add([1.0], [1.0, 2.0]), "variance"),
        (lambda: PredictiveNormal().add([1.0], 1.0, 0.0), "weight"),
        (lambda: streamed().add(MEANS[0, :3], 1.0), "mean"),
        (lambda: streamed().interval(1.5), "level"),
        (lambda: streamed().scores(MEANS[0, :3]), "y"),
    ],
)
def test_malformed_arguments_are_named(call, name):
    with pytest.raises(ArgumentError) as caught:
        call()
    assert caught.value.name == name


def test_averages_of_different_kinds_do_not_add():
    with pytest.raises(TypeError):
        streamed() + PredictiveAverage()
