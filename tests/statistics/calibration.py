"""Simulation-based calibration: over many data sets, the ranks of the true parameters among draws are uniform.

For every data set: θ* from the prior, data given θ*, M draws of the sampler given the data. For any function f(θ, data)
the rank of f(θ*) among the f of the draws is uniform on 0, …, M, if the draws are independent and have the posterior as
their law. The functions here are each coordinate of θ, and the potential U(θ), whose rank is the one to notice a
posterior that is too wide or too narrow.

*Draws are independent.* Each is the end of a chain of its own, one of M repetitions of a trace. Chains start at the
posterior mean, so that only their spread has to grow, to its full size within 4/r updates of relative step r.

*The test is exact.* A uniform number added to the rank, u = (rank + w)/(M + 1), makes u uniform on (0, 1); the test is
Kolmogorov and Smirnov's, with the exact law of its statistic D.

*The sampler's own error is allowed for, and small.* Let the law of the draws be off the posterior by a total variation
b. P(u ≤ t | θ*) is a monotone function of the draws' distribution function at f(θ*), so the distribution of u is off by
b at most, for all f. Hence D − b is the statistic whose p-value counts. b is computed: it is √(KL/2) at most, by
Pinsker, and the Kullback-Leibler divergence follows from the exact variance of the chain at its end.

References:
    S. Talts, M. Betancourt, D. Simpson, A. Vehtari, A. Gelman (2018). Validating Bayesian inference algorithms with
        simulation-based calibration. arXiv:1804.06788.
    M. Modrák et al. (2023). Simulation-based calibration checking for Bayesian computation: the choice of test
        quantities shapes sensitivity. Bayesian Analysis.
"""

import numpy as np
from scipy import stats

from stalegrad.protocol.chain import Chain
from stalegrad.protocol.executor import execute
from stalegrad.protocol.trace import Trace

from .cases import Case
from .conjugate import NormalMean
from .exact_law import law_after


def uniform_ranks(
    case: Case, trace: Trace, model: NormalMean, believed: NormalMean, *, data_sets: int, draws: int, seed: int
) -> np.ndarray:
    """u of each coordinate and of the potential, (data set, n + 1).

    Args:
        case: the sampler.
        trace: which it executes for every draw.
        model: from which parameters and data come.
        believed: from which the sampler's potential comes; the same, unless the sampler is to be wrong.
        data_sets: how many.
        draws: M, for each of them.
        seed: of everything.
    """
    rng = np.random.Generator(np.random.Philox(key=seed))
    ranks = np.empty((data_sets, model.coordinates + 1))
    for number in range(data_sets):
        truth = model.parameters(rng)
        potential = believed.potential(model.data(truth, rng))
        start = np.repeat(potential.posterior()[0][np.newaxis], draws, axis=0)
        chain = Chain(case.kernel, start, seed, number)
        case.prepare(chain.state, rng)
        execute(trace.chains[0], potential, chain, lambda *_: None)
        energies = np.array([potential.potential(theta) for theta in (truth, *chain.position)])
        ranks[number, :-1] = (chain.position < truth).sum(axis=0)
        ranks[number, -1] = (energies[1:] < energies[0]).sum()
    return (ranks + rng.random(ranks.shape)) / (draws + 1)


def distance_from_posterior(case: Case, trace: Trace, model: NormalMean) -> float:
    """b, the total variation between the law of a draw and the posterior, at most; on average over data sets.

    The variance of a coordinate at the end is linear in that of the gradient, v, which is s² times a constant with
    s²(N − 1)/σ² ~ χ²_{N−1} from data set to data set. Coordinates are independent, so their divergences add up. A
    normal law whose variance is off by a relative e has KL ≤ (−e − log(1 − e))/2, the value for one that is too narrow.
    The law of a draw is taken as normal: minibatches add less than a percent of its variance, over hundreds of updates.
    """
    staleness = trace.chains[0].staleness.tolist()

    def variance(v: float) -> float:
        return float(law_after(lambda tau: case.recursion(tau, v, 1.0), staleness).covariance[0, 0])

    without, slope = variance(0.0), variance(1.0) - variance(0.0)
    degrees = model.n_data - 1
    quantiles = stats.chi2.ppf((np.arange(1000) + 0.5) / 1000, degrees) / degrees
    v = model.gradient_variance(model.noise_scale**2 * quantiles)
    error = np.abs((without + slope * v) * model.curvature - 1) + case.beyond(max(staleness))
    divergence = float(np.mean(-error - np.log1p(-error)) / 2) * model.coordinates
    return float(np.sqrt(divergence / 2))  # of the mean: the mean of a root is no larger


def p_values(ranks: np.ndarray, allowance: float = 0.0) -> np.ndarray:
    """Of Kolmogorov and Smirnov's test for every column, when its distribution may be off by ``allowance``."""
    statistics = [stats.kstest(column, "uniform").statistic for column in ranks.T]
    return stats.kstwo.sf(np.maximum(np.array(statistics) - allowance, 0), len(ranks))
