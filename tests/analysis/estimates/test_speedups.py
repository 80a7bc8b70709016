import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose

from stalegrad._internal.errors import ArgumentError
from stalegrad.analysis.estimates import bootstrap, iterations_to, speedup, speedup_interval
from stalegrad.theory import stale_sgld

X = np.arange(1, 501)


def test_power_laws_are_read_exactly_between_the_points():
    x = np.array([1.0, 10.0, 100.0])
    assert_allclose(iterations_to([0.5, 0.02], x, x**-2), [0.5**-0.5, 0.02**-0.5])


def test_a_level_is_reached_where_the_curve_stays_below_it():
    curve = np.array([0.0, 4.0, 8.0, 1.0, 3.0, 2.0, 0.5])  # a transient from 0, a peak, a lucky dip at 1.0
    x = np.arange(1.0, 8.0)
    assert iterations_to(8.0, x, curve) == 1.0  # the envelope is 8 from the start
    assert 3 < iterations_to(4.0, x, curve) < 4  # after the peak, not on the way up
    assert 5 < iterations_to(2.5, x, curve) < 6  # the dip to 1.0 does not count
    assert_allclose(iterations_to(0.5, x, curve), 7.0)


@settings(derandomize=True, deadline=None, max_examples=60)
@given(st.lists(st.floats(1e-3, 1e3), min_size=2, max_size=30), st.floats(0.01, 0.99))
def test_nothing_after_the_crossing_is_above_the_level(curve, where):
    loss, x = np.array(curve), np.arange(1, len(curve) + 1)
    level = loss[-1] + where * (loss.max() - loss[-1])
    found = float(iterations_to(level, x, loss))
    above = np.flatnonzero(loss > level * (1 + 1e-9))
    last = x[above[-1]] if above.size else x[0]
    assert last * (1 - 1e-9) <= found <= last + 1 + 1e-9


@pytest.mark.parametrize("factor", [2.0, 7.3])
def test_speedup_of_scaled_curves(factor):
    result = speedup(X, X**-0.8, X, (factor * X) ** -0.8)
    assert_allclose(result.ratios, factor)
    assert_allclose(float(result), factor)
    assert_allclose(result.x_single / result.x_workers, result.ratios)
    assert result.levels.min() == pytest.approx(500**-0.8)


def test_the_axis_may_be_time():
    seconds = 0.02 * X
    result = speedup(seconds, 1 / X, seconds[:400] * 1.5, 1 / (4 * X[:400]), levels=[0.01, 0.005])
    assert_allclose(result.ratios, 4 / 1.5)
    assert_allclose(result.x_single, 0.02 * np.array([100, 200]))


def test_speedup_varies_by_level_and_is_summarised_by_the_geometric_mean():
    result = speedup(X, 1 / X, X, 1 / X**1.5, levels=[0.1, 0.01])
    assert_allclose(result.ratios, [10 / 10 ** (2 / 3), 100 / 100 ** (2 / 3)])
    assert_allclose(result.summary, np.sqrt(np.prod(result.ratios)))


def test_exact_variances_of_stale_chains_speed_up_linearly():
    """The theory's claim on exact curves: W workers cause staleness W − 1, make W updates an iteration, and gain W."""
    updates, workers = np.arange(1, 6001), 4
    fresh, stale = stale_sgld(1.0, 0.05), stale_sgld(1.0, 0.05, workers - 1)
    alone = fresh.finite_run(fresh.stationary(), 6000).variance
    together = stale.finite_run(stale.stationary(), 6000).variance
    assert float(speedup(updates, alone, updates / workers, together)) == pytest.approx(workers, rel=0.01)


def brownian(seed, repetitions, draws_per_step):
    """Running averages of independent draws, so that Var = 1/(draws · x)."""
    noise = np.random.Generator(np.random.Philox(seed)).normal(size=(repetitions, X.size))
    return np.cumsum(noise, axis=1) / X / np.sqrt(draws_per_step)


def test_interval_covers_and_repeats():
    one, many = brownian(1, 150, 1), brownian(2, 100, 5)
    result = speedup_interval(X, one, X, many, seed=9, resamples=300)
    assert result.low < float(result) < result.high
    assert result.low < 5 < result.high
    assert result.high / result.low < 3
    again = speedup_interval(X, one, X, many, seed=9, resamples=300)
    assert (again.low, again.high) == (result.low, result.high)
    other = speedup_interval(X, one, X, many, seed=10, resamples=300)
    assert (other.low, other.high) != (result.low, result.high)
    expected = speedup(X, one.var(0, ddof=1), X, many.var(0, ddof=1))
    assert_allclose(float(result), float(expected))


def test_interval_covers_as_often_as_it_says():
    """120 experiments at 90 %: fewer than 89 covers has probability below 1e-6 if the coverage were 90 %."""
    covered = 0
    for experiment in range(120):
        one, many = brownian(1000 + experiment, 60, 1)[:, ::10], brownian(5000 + experiment, 60, 3)[:, ::10]
        result = speedup_interval(
            X[::10], one, X[::10], many, seed=experiment, levels=[0.005, 0.01], confidence=0.9, resamples=200
        )
        covered += result.low <= 3 <= result.high
    assert covered >= 89
    assert covered < 120


def test_interval_of_the_mse_uses_the_truth():
    one, many = brownian(1, 80, 1) + 2.0, brownian(2, 80, 5) + 2.0
    result = speedup_interval(X, one, X, many, seed=0, criterion="mse", truth=2.0, resamples=200)
    expected = speedup(X, ((one - 2) ** 2).mean(0), X, ((many - 2) ** 2).mean(0))
    assert_allclose(float(result), float(expected))
    assert result.low < 5 < result.high


def test_pairs_that_share_their_noise_give_a_narrower_interval():
    """Five workers make the same draws as one, in a fifth of the iterations, but for a hundredth of the variance."""
    one = brownian(1, 80, 1)
    many = one + brownian(2, 80, 100)
    apart, together = (
        speedup_interval(X, one, X / 5, many, seed=0, paired=paired, resamples=400) for paired in (False, True)
    )
    assert float(apart) == float(together)
    assert together.low < 5 / 1.01 < together.high
    assert together.high - together.low < 0.3 * (apart.high - apart.low)


def test_wider_confidence_is_a_wider_interval():
    one, many = brownian(1, 50, 1), brownian(2, 50, 5)
    narrow, wide = (speedup_interval(X, one, X, many, seed=0, confidence=c, resamples=400) for c in (0.5, 0.99))
    assert wide.low < narrow.low < narrow.high < wide.high


def test_resamples_that_miss_a_level_widen_the_interval():
    one, many = brownian(1, 30, 1), brownian(2, 30, 5)
    end = one.var(0, ddof=1)[-1] * 1.0001  # half of the resamples end above it
    result = speedup_interval(X, one, X, many, seed=0, levels=[end], resamples=200)
    assert np.isnan(result.resampled).any()
    assert (result.low, result.high) == (0.0, np.inf)


@pytest.mark.parametrize(
    ("call", "name", "text"),
    [
        (lambda: iterations_to(0.001, X, 1 / X), "level", "does not reach 0.001"),
        (lambda: iterations_to(2.0, X, 1 / X), "level", "from its first point"),
        (lambda: iterations_to(0.0, X, 1 / X), "level", "not positive"),
        (lambda: iterations_to(0.1, X[::-1], 1 / X), "x", "increasing"),
        (lambda: iterations_to(0.1, X - 1, 1 / X), "x", "leave out iteration 0"),
        (lambda: iterations_to(0.1, X[:3], 1 / X), "curve", "500 entries"),
        (lambda: iterations_to(0.1, X, -1 / X), "curve", "negative"),
        (lambda: speedup(X, 1 / X, X, 1 / X, levels=[0.1, 1e-4]), "levels", "loss_single does not reach"),
        (lambda: speedup(X, 1 / X, X[:9], 1 / X[:9], levels=[0.01]), "levels", "loss_workers does not reach"),
        (lambda: speedup(X, 1 / X, X, 1e-6 / X), "loss_single, loss_workers", "no level in common"),
        (lambda: speedup_interval(X, np.ones((9, 5)), X, np.ones((9, 500)), seed=0), "estimates_single", "(9, 5)"),
        (lambda: speedup_interval(X, brownian(1, 9, 1), X, brownian(1, 2, 1), seed=0), "estimates_workers", "(2, 500)"),
        (lambda: speedup_interval(X, 1 / X, X, 1 / X, seed=0), "estimates_single", "2 dimensions"),
        (lambda: speedup_interval(X, [], X, [], seed=0, criterion="mse"), "truth", "missing"),
        (lambda: speedup_interval(X, [], X, [], seed=0, confidence=1.0), "confidence", "between 0 and 1"),
        (lambda: speedup_interval(X, [], X, [], seed=0, criterion="bias"), "criterion", "'variance', 'mse'"),
        (lambda: speedup_interval(X, [], X, [], seed=0, resamples=5), "resamples", "100"),
        (lambda: speedup_interval(X, brownian(1, 9, 1), X, brownian(1, 9, 1), seed=-1), "seed", "range"),
        (lambda: speedup_interval(X, brownian(1, 9, 1), X, brownian(1, 8, 1), seed=0, paired=True), "paired", "(9, 8)"),
    ],
)
def test_malformed_arguments_are_named(call, name, text):
    with pytest.raises(ArgumentError) as caught:
        call()
    assert caught.value.name == name
    assert text in str(caught.value)


def test_resampled_variances_are_those_of_the_sample_on_average():
    """Over all 27 ways to draw three repetitions from three, exactly."""
    estimates = np.array([[0.3, -1.0], [1.7, 2.0], [-0.4, 0.1]])
    error = estimates - estimates.mean(0)
    counts = np.array([np.bincount(drawn, minlength=3) for drawn in itertools.product(range(3), repeat=3)], float)
    np.testing.assert_allclose(bootstrap._loss(error, counts, False).mean(0), estimates.var(0, ddof=1), rtol=1e-12)


def test_the_interval_leaves_out_as_much_on_either_side():
    x = np.geomspace(1, 100, 8)
    noise = np.random.Generator(np.random.Philox(1)).standard_normal((2, 40, 8)) / np.sqrt(x)
    found = speedup_interval(x, noise[0], x, noise[1], seed=2, confidence=0.8, resamples=200)
    assert found.low == np.quantile(found.resampled, 0.1, method="lower")
    assert found.high == np.quantile(found.resampled, 0.9, method="higher")
