import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy import signal, stats

from stalegrad._internal.errors import ArgumentError
from stalegrad.analysis.estimates import autocovariance, effective_sample_size, long_run_variance, mcse
from stalegrad.theory import stale_sgld

Z = stats.norm.isf(1e-6 / 2)


def autoregression(rho, draws, chains, seed):
    """Stationary AR(1) chains (draw, chain) of variance 1, whose long-run variance is (1 + ρ)/(1 − ρ)."""
    rng = np.random.Generator(np.random.Philox(seed))
    shocks = rng.normal(size=(draws, chains)) * np.sqrt(1 - rho**2)
    shocks[0] /= np.sqrt(1 - rho**2)
    return signal.lfilter([1.0], [1.0, -rho], shocks, axis=0)


def test_autocovariance_equals_the_sum_of_products():
    values = np.random.Generator(np.random.Philox(1)).normal(3.0, size=(37, 2))
    z = values - values.mean(0)
    expected = [(z[: 37 - k] * z[k:]).sum(0) / 37 for k in range(37)]
    assert_allclose(autocovariance(values), expected, atol=1e-13)


def assert_agrees(found, truth, low, high):
    """The mean over chains is between 1 + low and 1 + high times the truth, within its own error."""
    ratio, sure = found.mean() / truth - 1, Z * found.std() / truth / np.sqrt(len(found))
    assert low - sure < ratio < high + sure


@pytest.mark.parametrize("rho", [-0.4, 0.0, 0.5, 0.9])
def test_long_run_variance_of_autoregressions(rho):
    draws = autoregression(rho, 4096, 200, seed=10)
    assert_agrees(long_run_variance(draws - draws.mean(0)), (1 + rho) / (1 - rho), 0.0, 0.1)


@pytest.mark.parametrize("step", [0.2, 0.3])
def test_long_run_variance_of_stale_chains_that_oscillate(step):
    """SGLD with τ = 3, a recursion of order 4; plain initial sequences are 40 % and 200 % too high here."""
    shocks = np.random.Generator(np.random.Philox(19)).normal(size=(9000, 100)) * np.sqrt(2 * step)
    draws = signal.lfilter([1.0], [1.0, -1.0, 0, 0, step], shocks, axis=0)[1000:]
    assert stale_sgld(1.0, step, 3).autocovariance(20).min() < 0
    truth = stale_sgld(1.0, step, 3).asymptotic_variance()
    assert_agrees(long_run_variance(draws - draws.mean(0)), truth, 0.0, 0.12)


def test_long_run_variance_of_fast_and_slow_parts():
    """White noise hides a slow part that makes nine tenths of the answer."""
    draws = autoregression(0.0, 40_000, 40, seed=20) + 0.2 * autoregression(0.99, 40_000, 40, seed=21)
    assert_agrees(long_run_variance(draws - draws.mean(0)), 1 + 0.04 * 199, -0.05, 0.1)


@pytest.mark.parametrize("seed", range(4))
def test_long_run_variance_is_geyers_monotone_sequence_of_batch_means(seed):
    """Written out: pairs of autocovariances while they are positive, none larger than the one before."""
    z = autoregression(0.2 * seed, 500, 1, seed)[:, 0]
    z = z - z.mean()
    means = z[4:].reshape(62, 8).mean(1)
    gamma = [means[: 62 - lag] @ means[lag:] / 62 for lag in range(62)]
    total, last = 0.0, np.inf
    for lag in range(0, 62, 2):
        last = min(last, gamma[lag] + gamma[lag + 1])
        if last <= 0:
            break
        total += last
    expected = 8 * max(2 * total - gamma[0], gamma[0] / np.log10(62))
    np.testing.assert_allclose(long_run_variance(z), expected, rtol=1e-10)


def test_standardised_errors_have_variance_one():
    """The error is honest: over 1,500 estimates from two chains each, (φ̂ − φ̄)/mcse spreads like a standard normal."""
    draws = autoregression(0.8, 2048, 3000, seed=11).T.reshape(1500, 2, 2048)
    standardised = np.array([pair.mean() / mcse(pair) for pair in draws])
    assert abs(standardised.mean()) < Z * standardised.std() / np.sqrt(1500)
    assert abs(standardised.var() - 1) < Z * np.sqrt(2 / 1500) + 0.1


def test_chains_shrink_the_error_like_draws():
    draws = autoregression(0.6, 2000, 16 * 60, seed=12).reshape(2000, 16, 60).transpose(1, 0, 2)
    assert_agrees(mcse(draws[:4]) ** 2, 4 / (4 * 2000), 0.0, 0.12)
    assert_agrees(mcse(draws) ** 2, 4 / (16 * 2000), 0.0, 0.12)


def test_chains_that_disagree_have_a_large_error():
    draws = autoregression(0.0, 500, 4, seed=13).T
    apart = draws + np.array([[-3.0], [-1.0], [1.0], [3.0]])
    assert mcse(draws) < 0.04
    assert mcse(apart) == pytest.approx(np.sqrt(5 / 4), rel=0.1)  # that of a mean of four numbers of variance 5
    assert effective_sample_size(apart) < 6


def test_components_are_independent_of_each_other():
    draws = autoregression(0.5, 300, 12, seed=14).T.reshape(2, 6, 300).transpose(0, 2, 1)
    together = mcse(draws)
    assert together.shape == (6,)
    assert_allclose(together, [mcse(draws[:, :, k]) for k in range(6)])


def test_chains_of_different_lengths_weigh_by_their_time():
    """Independent draws; 100 components, each its own repetition."""
    draws = autoregression(0.0, 8000, 100, seed=15)
    long, short = draws[:6000], draws[6000:]
    assert_agrees(mcse([long, short]) ** 2, 1 / 8000, 0.0, 0.12)
    assert_agrees(mcse([long, short], step_sizes=[1.0, 3.0]) ** 2, 0.25 / 6000 + 0.25 / 2000, 0.0, 0.12)


def test_step_sizes_weigh_the_draws():
    """Independent draws with weights w have error √Σw²."""
    draws = autoregression(0.0, 8000, 100, seed=16)[None]
    h = np.linspace(1.0, 0.01, 8000)
    assert_agrees(mcse(draws, step_sizes=h) ** 2, (h**2).sum() / h.sum() ** 2, 0.0, 0.12)
    assert_allclose(mcse(draws, step_sizes=0.3), mcse(draws))
    assert_allclose(mcse(draws, step_sizes=np.full(8000, 0.3)), mcse(draws))
    assert_allclose(mcse(draws[0, :, 0], step_sizes=h), mcse(draws, step_sizes=[h])[0])


def test_effective_sample_size():
    draws = autoregression(0.8, 10_000, 200, seed=17).reshape(10_000, 2, 100).transpose(1, 0, 2)
    assert_agrees(effective_sample_size(draws), 20_000 / 9, -0.12, 0.04)
    assert effective_sample_size(np.ones(50)) == 50
    assert effective_sample_size(np.full((2, 300), 0.1)) == 600  # whose mean is not quite 0.1
    alternating = np.tile([1.0, -1.0], 500) + autoregression(0.0, 1000, 1, seed=18)[:, 0] * 1e-3
    assert mcse(alternating) == pytest.approx(1e-3 / np.sqrt(1000), rel=0.4)  # the alternation averages out


def test_constant_values_have_no_error():
    assert mcse(np.full((2, 30), 0.1)) == pytest.approx(0, abs=1e-15)


@pytest.mark.parametrize(
    ("call", "name"),
    [
        (lambda: mcse([1.0, 2.0, 3.0]), "values"),
        (lambda: mcse(1.0), "values"),
        (lambda: mcse([]), "values"),
        (lambda: mcse(np.zeros((0, 10))), "values"),
        (lambda: mcse([[1.0, 2.0, 3.0, np.nan]]), "values[0]"),
        (lambda: mcse([np.ones((5, 2)), np.ones((5, 3))]), "values"),
        (lambda: mcse(np.ones((2, 10)), step_sizes=[1.0, 1.0, 1.0]), "step_sizes"),
        (lambda: mcse(np.ones((2, 10)), step_sizes=[1.0, 0.0]), "step_sizes[1]"),
        (lambda: mcse(np.ones((2, 10)), step_sizes=np.ones((2, 9))), "step_sizes[0]"),
        (lambda: mcse(np.ones(10), step_sizes="small"), "step_sizes"),
        (lambda: long_run_variance([1.0, 2.0]), "centred"),
        (lambda: autocovariance(1.0), "values"),
    ],
)
def test_malformed_arguments_are_named(call, name):
    with pytest.raises(ArgumentError) as caught:
        call()
    assert caught.value.name == name
