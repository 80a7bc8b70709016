import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy import integrate, stats

from stalegrad._internal.errors import ArgumentError
from stalegrad.analysis.estimates import crps, interval_coverage, mean_log_density, rmse, score_normal

RNG = np.random.Generator(np.random.Philox(21))
MEAN, VARIANCE = RNG.normal(size=40), RNG.uniform(0.1, 4, size=40)
Y = RNG.normal(MEAN, 1.5 * np.sqrt(VARIANCE))
Z = stats.norm.isf(1e-6 / 2)


def test_log_density_and_error_are_scipys():
    assert_allclose(mean_log_density(MEAN, VARIANCE, Y), stats.norm.logpdf(Y, MEAN, np.sqrt(VARIANCE)).mean())
    assert_allclose(rmse(MEAN, Y) ** 2, np.mean((MEAN - Y) ** 2))


def test_crps_is_the_integral_that_defines_it():
    def by_integration(m, s, y):
        below = integrate.quad(lambda t: stats.norm.cdf(t, m, s) ** 2, min(m, y) - 12 * s, y)[0]
        return below + integrate.quad(lambda t: stats.norm.sf(t, m, s) ** 2, y, max(m, y) + 12 * s)[0]

    expected = [by_integration(*row) for row in zip(MEAN, np.sqrt(VARIANCE), Y, strict=True)]
    assert_allclose(crps(MEAN, VARIANCE, Y), np.mean(expected), rtol=1e-9)


@pytest.mark.parametrize("level", [0.1, 0.5, 0.9, 0.999])
def test_coverage_counts_what_lies_between_the_quantiles(level):
    low, high = stats.norm.interval(level, MEAN, np.sqrt(VARIANCE))
    assert interval_coverage(MEAN, VARIANCE, Y, level) == ((low <= Y) & (high >= Y)).mean()


def test_right_predictions_are_covered_and_have_the_best_proper_scores():
    rows = 20_000
    mean, s = RNG.normal(size=rows), RNG.uniform(0.5, 2, size=rows)
    y = RNG.normal(mean, s)
    for level in (0.5, 0.9):
        assert abs(interval_coverage(mean, s**2, y, level) - level) < Z * np.sqrt(level * (1 - level) / rows)
    for m, v in ((mean + 0.3, s**2), (mean, 1.5 * s**2), (mean, s**2 / 1.5)):
        assert mean_log_density(m, v, y) < mean_log_density(mean, s**2, y)
        assert crps(m, v, y) > crps(mean, s**2, y)


def test_all_at_once_and_in_any_shape():
    together = score_normal(MEAN, VARIANCE, Y, level=0.5).as_dict()
    assert together == {
        "rmse": rmse(MEAN, Y),
        "mean_log_density": mean_log_density(MEAN, VARIANCE, Y),
        "interval_coverage": interval_coverage(MEAN, VARIANCE, Y, 0.5),
        "crps": crps(MEAN, VARIANCE, Y),
    }
    table = score_normal(MEAN.reshape(8, 5), VARIANCE.reshape(8, 5), Y.reshape(8, 5), level=0.5)
    assert table.as_dict() == pytest.approx(together)
    assert score_normal(MEAN, 2.0, Y) == score_normal(MEAN, np.full(40, 2.0), Y)


@pytest.mark.parametrize(
    ("call", "name"),
    [
        (lambda: rmse(1.0, 1.0), "mean"),
        (lambda: rmse([], []), "mean"),
        (lambda: rmse(MEAN, Y[:3]), "y"),
        (lambda: rmse(MEAN, Y * np.nan), "y"),
        (lambda: crps(MEAN, VARIANCE[:3], Y), "variance"),
        (lambda: crps(MEAN, -VARIANCE, Y), "variance"),
        (lambda: mean_log_density(MEAN, 0.0, Y), "variance"),
        (lambda: interval_coverage(MEAN, VARIANCE, Y, 1.0), "level"),
        (lambda: score_normal(MEAN, VARIANCE, Y, 0), "level"),
    ],
)
def test_malformed_arguments_are_named(call, name):
    with pytest.raises(ArgumentError) as caught:
        call()
    assert caught.value.name == name
