"""Laws of compute times: the right law, the right straggler, and nothing but the address decides."""

import numpy as np
import pytest
from scipy import stats

from stalegrad.engines.simulation import Constant, Exponential, LogNormal, Network, simulate

FALSE_ALARM = 1e-6
MEAN, VARIATION = 2.5, 0.7
SIGMA = np.sqrt(np.log(1 + VARIATION**2))

LAWS = {
    "exponential": (Exponential(MEAN), stats.expon(scale=MEAN), MEAN),
    "lognormal": (
        LogNormal(MEAN, VARIATION),
        stats.lognorm(SIGMA, scale=MEAN * np.exp(-(SIGMA**2) / 2)),
        MEAN * VARIATION,
    ),
}


def draws(law, seed=1, chains=4, workers=25, counts=400):
    address = np.ndindex(chains, workers, counts)
    return np.array([law.seconds(seed, *place) for place in address]).reshape(chains, workers, counts)


@pytest.mark.parametrize("name", LAWS)
def test_mean_variance_and_distribution(name):
    law, exact, deviation = LAWS[name]
    seconds = draws(law).ravel()
    error = exact.std() / np.sqrt(seconds.size)
    mean_error = abs(seconds.mean() - MEAN) / error
    kurtosis = float(exact.stats(moments="k"))
    variance_error = abs(seconds.var() / deviation**2 - 1) / np.sqrt((kurtosis + 2) / seconds.size)
    limit = stats.norm.isf(FALSE_ALARM / 2)
    assert mean_error < limit
    assert variance_error < limit
    assert stats.kstest(seconds, exact.cdf).pvalue > FALSE_ALARM


@pytest.mark.parametrize("name", LAWS)
def test_every_part_of_the_address_counts(name):
    law = LAWS[name][0]
    everything = np.concatenate([draws(law, seed).ravel() for seed in (1, 2, 2**64 - 1)])
    assert len(np.unique(everything)) == everything.size
    np.testing.assert_array_equal(draws(law), draws(law))


@pytest.mark.parametrize("name", LAWS)
def test_neighbours_are_not_correlated(name):
    """Rank correlation with the neighbour along each axis: chains, workers, minibatches."""
    seconds = draws(LAWS[name][0])
    for axis in range(3):
        first, second = np.delete(seconds, -1, axis).ravel(), np.delete(seconds, 0, axis).ravel()
        assert stats.spearmanr(first, second).pvalue > FALSE_ALARM


def test_a_constant_is_constant_and_no_variation_is_one():
    assert Constant(0.3).seconds(1, 2, 3, 4) == 0.3
    assert LogNormal(0.3, 0.0).seconds(1, 2, 3, 4) == pytest.approx(0.3, rel=1e-15)


@pytest.mark.parametrize("factors", [{1: 5.0}, [1, 5.0, 1], (1, 5.0, 1), np.array([1, 5.0, 1])])
@pytest.mark.parametrize("law", [Constant, Exponential, LogNormal])
def test_factors_slow_just_their_worker(law, factors):
    plain, slowed = law(2.0), law(2.0, factors=factors)
    for worker, factor in enumerate([1, 5, 1]):
        for count in range(5):
            assert slowed.seconds(7, 0, worker, count) == factor * plain.seconds(7, 0, worker, count)


def test_float32_numbers_do_not_make_float32_times():
    third = np.float32(1 / 3)
    for law in (Constant(third), Exponential(third), LogNormal(third, third), Constant(1.0, factors=[third])):
        assert type(law.seconds(0, 0, 0, 0)) is float
    assert Constant(third).seconds(0, 0, 0, 0) == float(third)


def test_a_number_means_a_constant_and_a_latency():
    one = simulate(workers=2, steps=10, compute=0.5, network=0.25)
    other = simulate(workers=2, steps=10, compute=Constant(0.5), network=Network(latency=0.25))
    np.testing.assert_array_equal(one.chains[0].time, other.chains[0].time)


def test_a_message_occupies_the_link_for_its_size_over_the_bandwidth():
    assert Network(bandwidth=1e9, message_bytes=4e6).transfer == 4e-3
    assert Network(message_bytes=4e6).transfer == 0
    uneven = Network(bandwidth=1e9, message_bytes=2e6, gradient_bytes=1e6)
    assert (uneven.transfer, uneven.gradient_transfer, uneven.longer_transfer) == (2e-3, 1e-3, 2e-3)
