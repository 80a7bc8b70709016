"""R-hat, effective sample size and Monte Carlo error: ours against ArviZ, and both against what is known exactly."""

import numpy as np
import pytest
from arviz_stats.base import array_stats
from numpy.testing import assert_allclose
from scipy import signal, stats

from stalegrad._internal.errors import ArgumentError
from stalegrad.analysis.diagnostics import LEAST_DRAWS, convergence, split_rhat
from stalegrad.analysis.estimates import effective_sample_size, mcse
from stalegrad.theory import stale_sgld

Z = stats.norm.isf(1e-6 / 2)
CHAINS, DRAWS, SERIES = 4, 2000, 40


def autoregression(rho, seed):
    """Stationary AR(1) of variance 1, (chain, draw, series): ESS is (1 − ρ)/(1 + ρ) of the draws."""
    rng = np.random.Generator(np.random.Philox(seed))
    shocks = rng.normal(size=(CHAINS, DRAWS, SERIES)) * np.sqrt(1 - rho**2)
    shocks[:, 0] /= np.sqrt(1 - rho**2)
    return signal.lfilter([1.0], [1.0, -rho], shocks, axis=1)


def arviz(function, values, **options):
    return np.asarray(function(values, chain_axis=0, draw_axis=1, **options))


def mean_ratio(found, truth):
    """Of the series, with what chance may do to it once in a million."""
    ratio = found / truth
    return ratio.mean(), Z * ratio.std() / np.sqrt(ratio.size)


@pytest.mark.parametrize("rho", [0.0, 0.5, 0.9])
def test_effective_sample_size_of_reversible_chains(rho):
    """ArviZ is within 3 % of the truth; ours is on the safe side of it, by at most 12 %."""
    draws = autoregression(rho, seed=1)
    exact = CHAINS * DRAWS * (1 - rho) / (1 + rho)
    ours, sure = mean_ratio(effective_sample_size(draws), exact)
    assert 0.88 - sure < ours < 1.02 + sure
    theirs, sure = mean_ratio(arviz(array_stats.ess, draws, method="mean"), exact)
    assert 0.97 - sure < theirs < 1.03 + sure


@pytest.mark.parametrize("rho", [0.0, 0.5, 0.9])
def test_standard_errors_of_reversible_chains(rho):
    draws = autoregression(rho, seed=2)
    exact = np.sqrt((1 + rho) / (1 - rho) / (CHAINS * DRAWS))
    ours, sure = mean_ratio(mcse(draws), exact)
    assert 0.99 - sure < ours < 1.07 + sure
    theirs = arviz(array_stats.mcse, draws, method="mean")
    assert_allclose(mcse(draws), theirs, rtol=0.3)
    assert abs(mean_ratio(mcse(draws), theirs)[0] - 1) < 0.08


def test_on_a_stale_chain_ours_is_right_and_arviz_errs_on_the_low_side():
    """SGLD with hλ = 0.2 and τ = 3, whose autocovariance oscillates."""
    exact = stale_sgld(1.0, 0.2, 3)
    shocks = np.random.Generator(np.random.Philox(3)).normal(size=(CHAINS, 3000, SERIES)) * np.sqrt(0.4)
    draws = signal.lfilter([1.0], [1.0, -1.0, 0, 0, 0.2], shocks, axis=1)[:, 1000:]
    ess = CHAINS * 2000 * exact.variance / exact.asymptotic_variance()
    ours, sure = mean_ratio(effective_sample_size(draws), ess)
    assert 0.85 - sure < ours < 1.02 + sure
    theirs, _ = mean_ratio(arviz(array_stats.ess, draws, method="mean"), ess)
    assert theirs < 0.8


@pytest.mark.parametrize("draws", [LEAST_DRAWS, 201, 500])
@pytest.mark.parametrize("chains", [2, 5])
def test_the_quick_rhat_is_arviz_split_rhat(chains, draws):
    values = np.random.Generator(np.random.Philox(4)).normal(size=(chains, draws, 7))
    values += np.linspace(0, 1, chains)[:, None, None]
    assert_allclose(split_rhat(values), arviz(array_stats.rhat, values, method="split"), rtol=1e-10)


def test_rhat_and_bulk_ess_are_those_of_arviz():
    values = autoregression(0.5, seed=5)[:, :300, :3]
    found = convergence(values)
    assert_allclose(found.rhat, arviz(array_stats.rhat, values, method="rank"))
    assert_allclose(found.ess, arviz(array_stats.ess, values, method="bulk"))


def test_chains_apart_are_seen_by_both():
    values = autoregression(0.5, seed=6)
    values[0] += 1.0
    assert split_rhat(values).min() > 1.05
    assert convergence(values[:, :, :3]).rhat.min() > 1.05


@pytest.mark.parametrize("function", [convergence, split_rhat])
@pytest.mark.parametrize("values", [np.ones(50), np.ones((2, 3)), np.ones((0, 50)), [[1.0, 2.0, np.nan, 4.0]]])
def test_malformed_values_are_refused(function, values):
    with pytest.raises(ArgumentError, match="values="):
        function(values)
