"""What the paper says of stale gradients, measured: the bias grows linearly with τ, the variance does not depend on it.

One datum 0 with noise 1/√N gives exact gradients of N(0, 1/(N+1)), and coordinates that share no data are independent
runs. All τ use the same noise, so slopes are taken for every coordinate and then averaged, which makes them sharp.
"""

import numpy as np
import pytest
from scipy import stats

import stalegrad as sg
from stalegrad.theory import stale_sgld

from .cases import sample

FALSE_ALARM = 1e-6
N, RUNS = 1000, 2000
CURVATURE = N + 1.0
DRIFT = 0.01  # h · curvature
STEP = DRIFT / CURVATURE
STEPS, BURN_IN = 6000, 1000
TAU = np.array([0, 2, 5, 10, 20])
WEIGHTS = (TAU - TAU.mean()) / np.square(TAU - TAU.mean()).sum()  # of the least-squares slope


@pytest.fixture(scope="module")
def averages():
    """Averages of θ and of θ², in units of the posterior's scale: each (τ, run)."""
    potential = sg.potentials.GaussianMean(np.zeros((1, RUNS)), noise_scale=N**-0.5, dtype=np.float64)
    first, second = [], []
    for tau in TAU:
        trace = sg.Trace.constant_staleness(int(tau), BURN_IN + STEPS, seed=3)
        draws = sg.replay(trace, potential, sg.SGLD(step_size=STEP), burn_in=BURN_IN).draws[0] * np.sqrt(CURVATURE)
        first.append(draws.mean(axis=0))
        second.append(np.square(draws, out=draws).mean(axis=0))
    return np.array(first), np.array(second)


def exactly(tau):
    return stale_sgld(CURVATURE, STEP, int(tau))


def interval(values):
    """Of the mean, missed once in a million."""
    return stats.t.interval(1 - FALSE_ALARM, len(values) - 1, values.mean(), stats.sem(values))


def test_the_bias_of_the_square_grows_linearly_with_staleness(averages):
    biases = np.array([exactly(tau).variance * CURVATURE - 1 for tau in TAU])
    low, high = interval(WEIGHTS @ averages[1])
    assert low < WEIGHTS @ biases < high
    assert high - low < 0.05 * WEIGHTS @ biases, "too coarse to see another slope"
    # to first order the bias is h · curvature · (τ + ½)
    np.testing.assert_allclose(biases, DRIFT * (TAU + 0.5), rtol=0.15)


@pytest.mark.parametrize("index", range(len(TAU)))
def test_the_bias_is_that_of_the_closed_form(averages, index):
    low, high = interval(averages[1][index])
    assert low < exactly(TAU[index]).variance * CURVATURE < high
    assert high - low < 0.07


def test_the_variance_of_the_mean_does_not_depend_on_staleness(averages):
    deviations = np.square(averages[0] - averages[0].mean(axis=1, keepdims=True))
    change = (WEIGHTS @ deviations) * np.ptp(TAU) / deviations.mean()  # from τ = 0 to 20, as a share of the variance
    low, high = interval(change)
    assert low < 0 < high
    assert high - low < 0.015, "too coarse to call it independent"
    # What little change a run of finite length has, the closed form knows.
    runs = [exactly(tau).finite_run(exactly(tau).stationary(), STEPS) for tau in TAU]
    exact = np.array([run.variance[-1] for run in runs])
    assert low < (WEIGHTS @ exact) * np.ptp(TAU) / exact.mean() < high


def test_the_variance_is_that_of_the_closed_form(averages):
    """2/(hλ) per unit of L: RUNS estimates have a chi-square spread about it."""
    run = exactly(5).finite_run(exactly(5).stationary(), STEPS)
    ratio = averages[0][2].var(ddof=1) / (run.variance[-1] * CURVATURE) * (RUNS - 1)
    law = stats.chi2(RUNS - 1)
    assert law.ppf(FALSE_ALARM / 2) < ratio < law.isf(FALSE_ALARM / 2)


def test_the_staleness_of_a_run_is_what_counts_not_its_source(averages):
    """W equal workers that take turns are constant staleness W − 1, up to the minibatches, which are exact here."""
    potential = sg.potentials.GaussianMean(np.zeros((1, 100)), noise_scale=N**-0.5, dtype=np.float64)
    kernel = sg.SGLD(step_size=STEP)
    run = sample(potential, kernel, steps=300, workers=6, seed=3)
    synthetic = sg.replay(sg.Trace.constant_staleness(5, 300, seed=3), potential, kernel)
    np.testing.assert_array_equal(run.draws, synthetic.draws)
