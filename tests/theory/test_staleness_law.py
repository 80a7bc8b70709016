"""The Gaussian oracle for staleness that is drawn afresh for every update."""

import numpy as np
import pytest
from scipy import stats

import stalegrad as sg
from stalegrad._internal.errors import ArgumentError
from stalegrad.theory import stale_sghmc, stale_sgld

LAW = np.array([0.1, 0.2, 0.0, 0.4, 0.3])
CHAINS = {
    "SGLD": (lambda law: stale_sgld(1.0, 0.05, law), sg.SGLD(step_size=0.05)),
    "SGHMC": (lambda law: stale_sghmc(1.0, 0.1, 2.0, law), sg.SGHMC(step_size=0.1, friction=2.0)),
}


@pytest.mark.parametrize("name", CHAINS)
@pytest.mark.parametrize("tau", [0, 1, 4])
def test_a_law_of_one_value_is_that_value(name, tau):
    recursion, _ = CHAINS[name]
    one = recursion(np.eye(6)[tau])
    np.testing.assert_array_equal(one.transition, recursion(tau).transition)
    assert one.variance == recursion(tau).variance


@pytest.mark.parametrize("name", CHAINS)
def test_mean_and_variance_of_real_chains(name):
    """The mean from a distant start is exact; the variance leaves out some tenths of a percent."""
    recursion, kernel = CHAINS[name]
    exact = recursion(LAW)
    potential = sg.potentials.from_gradient(lambda theta, _: theta, 400, n_data=1, dtype=np.float64)
    trace = sg.Trace.random_staleness(LAW, 1500, chains=8, seed=1)
    far = sg.replay(trace, potential, kernel, initial=np.full(400, 3.0))
    start = exact.trajectory(exact.start(3.0, momentum_variance=1.0), 40).mean[1:]
    means = far.draws[:, :40].mean(axis=2)  # (chain, update)
    worst = stats.ttest_1samp(means[:, 5::5], start[5::5], axis=0).pvalue.min()
    assert worst > 1e-6
    variance = np.square(far.draws[:, 300:]).mean(axis=(1, 2))
    assert variance.mean() == pytest.approx(exact.variance, rel=0.015)
    assert abs(variance.mean() - exact.variance) < abs(variance.mean() - recursion(0).variance)


@pytest.mark.parametrize("law", [[], [0.5, 0.4], [1.5, -0.5], [[1.0]], [np.nan, 1.0], 1.5, -1, "two"])
def test_what_is_no_law(law):
    with pytest.raises(ArgumentError, match="staleness"):
        stale_sgld(1.0, 0.1, law)
