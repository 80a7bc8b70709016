"""The posterior from data in shards, in closed form: equal and unequal shards, workers of equal and unequal speed.

Data are sorted, so that shards are as different as can be. Given its trace, mean and variance of a chain on a Gaussian
follow linear recursions exactly. They are held against the posterior's, and the sampler against them.
"""

import numpy as np
import pytest
from scipy import stats

import stalegrad as sg
from stalegrad.engines.simulation import Exponential, LogNormal
from stalegrad.potentials import GaussianMean, Linear
from stalegrad.potentials.minibatches.shards import ShardedMinibatches
from stalegrad.protocol.architectures.shards import ShardWeights

pytestmark = pytest.mark.long

LIMIT = stats.norm.isf(1e-6 / 2)
N, J, WORKERS, REPEATS, STEPS, BURN_IN = 60, 4, 3, 100, 6000, 2000
DATA = np.sort(np.random.default_rng(2).normal(size=N))
CURVATURE = N + 1.0  # N/σ² + 1/ς²
MEAN, VARIANCE = DATA.sum() / CURVATURE, 1 / CURVATURE
H = 0.02 / CURVATURE
SPEEDS = {"equal": {}, "unequal": {0: 5.0}}
SIZES = {"equal": (20, 20, 20), "unequal": (6, 18, 36)}


def trace_of(speeds, law=LogNormal, steps=STEPS):
    compute = law(1.0, factors=SPEEDS[speeds])
    return sg.simulate(workers=WORKERS, steps=steps, compute=compute, seed=4)


def exact_moments(trace, sizes, weighed=True, h=H, burn_in=BURN_IN, owned=0.0):
    """Means (draw,) and variances (draw,) of θ_{l+1} = (1 − ha) θ_l − hβ((λ − a) θ_{l−τ} − N d̄_batch) + √(2h) z."""
    shards = [DATA[ShardedMinibatches(N, J, sizes=sizes).rows(w)] for w in range(WORKERS)]
    centres = [N * shard.mean() for shard in shards]
    noises = [N**2 * shard.var(ddof=1) / J * (1 - J / len(shard)) for shard in shards]
    (chain,) = trace.chains
    weights = ShardWeights(sizes).of(chain.worker, 0) if weighed else np.ones(len(chain))
    depth = int(chain.staleness.max()) + 1
    unit = np.eye(depth)
    mean, covariance = np.zeros(depth), np.zeros((depth, depth))  # of θ_l, θ_{l−1}, …
    means, variances = np.empty(len(chain)), np.empty(len(chain))
    for step, (worker, tau, beta) in enumerate(zip(chain.worker, chain.staleness, weights, strict=True)):
        row = (1 - h * owned) * unit[0] - h * beta * (CURVATURE - owned) * unit[tau]
        with_old = covariance @ row
        means[step] = row @ mean + h * beta * centres[worker]
        variances[step] = row @ with_old + 2 * h + (h * beta) ** 2 * noises[worker]
        mean[1:], mean[0] = mean[:-1].copy(), means[step]
        covariance[1:, 1:] = covariance[:-1, :-1].copy()
        covariance[0, 1:] = covariance[1:, 0] = with_old[:-1]
        covariance[0, 0] = variances[step]
    return means[burn_in:], variances[burn_in:]


@pytest.mark.parametrize("speeds", SPEEDS)
@pytest.mark.parametrize("sizes", SIZES)
class TestGaussianMean:
    def test_mean_and_variance(self, sizes, speeds):
        trace = trace_of(speeds)
        model, kernel = GaussianMean(DATA, batch_size=J, dtype=np.float64), sg.SGLD(step_size=H)
        run = sg.replay(trace, model, kernel, architecture=sg.Shards(SIZES[sizes]), repeats=REPEATS, burn_in=BURN_IN)
        draws = run.draws[:, 0, :, 0]
        means, variances = exact_moments(trace, SIZES[sizes])
        limit = stats.t(REPEATS - 1).isf(1e-6 / 2)
        for values, exact, unit in ((draws, means, VARIANCE**0.5), (np.square(draws - means), variances, VARIANCE)):
            averages = values.mean(axis=1)  # of independent repetitions
            error = averages.std(ddof=1) / np.sqrt(REPEATS)
            assert abs(averages.mean() - exact.mean()) < limit * error
            assert error < 0.05 * unit

    def test_it_is_the_posterior(self, sizes, speeds):
        """Up to what a finite step and minibatches of a few data do."""
        means, variances = exact_moments(trace_of(speeds), SIZES[sizes])
        assert abs(means.mean() - MEAN) < 0.15 * np.sqrt(VARIANCE)
        assert variances.mean() == pytest.approx(VARIANCE, rel=0.2)

    def test_without_weights_it_would_be_another_one(self, sizes, speeds):
        means, _ = exact_moments(trace_of(speeds), SIZES[sizes], weighed=False)
        off = abs(means.mean() - MEAN) / np.sqrt(VARIANCE)
        assert off < 0.1 if sizes == speeds == "equal" else off > 1


@pytest.mark.parametrize("share", [0.6, 1.0])
class TestOwned:
    """Shards of unequal size at workers of unequal speed, steps at which staleness shows, and a server that owns A."""

    def test_mean_and_variance(self, share):
        trace, sizes, h, owned = trace_of("unequal"), SIZES["unequal"], 5 * H, share * CURVATURE
        model, kernel = GaussianMean(DATA, batch_size=J, dtype=np.float64), sg.SGLD(step_size=h)
        shards = sg.Shards(sizes, linear=owned)
        run = sg.replay(trace, model, kernel, architecture=shards, repeats=REPEATS, burn_in=BURN_IN)
        draws = run.draws[:, 0, :, 0]
        means, variances = exact_moments(trace, sizes, h=h, owned=owned)
        limit = stats.t(REPEATS - 1).isf(1e-6 / 2)
        for values, exact in ((draws, means), (np.square(draws - means), variances)):
            averages = values.mean(axis=1)
            assert abs(averages.mean() - exact.mean()) < limit * averages.std(ddof=1) / np.sqrt(REPEATS)

    def test_less_of_the_error_is_left_than_without(self, share):
        trace, sizes, h = trace_of("unequal"), SIZES["unequal"], 5 * H
        plain, owning = (exact_moments(trace, sizes, h=h, owned=a)[1].mean() for a in (0.0, share * CURVATURE))
        assert owning < plain
        if share == 1.0:  # nothing of the law of θ is stale: a fresh worker whose minibatches have the same noise
            fresh = sg.Trace.constant_staleness(0, steps=STEPS)
            fresh.chains[0].worker[:] = trace.chains[0].worker
            assert owning == pytest.approx(exact_moments(fresh, sizes, h=h, owned=CURVATURE)[1].mean(), rel=1e-9)


def test_the_bias_falls_with_the_step_size():
    """A quarter of the step for equally long: workers of unequal speed with equal shards, the hardest of the cases."""
    trace = trace_of("unequal", steps=4 * STEPS)
    means, variances = exact_moments(trace, SIZES["equal"], h=H / 4, burn_in=4 * BURN_IN)
    assert abs(means.mean() - MEAN) < 0.04 * np.sqrt(VARIANCE)
    assert variances.mean() == pytest.approx(VARIANCE, rel=0.05)


@pytest.mark.parametrize("law", [Exponential, LogNormal])
def test_weights_tend_to_data_over_share(law):
    (chain,) = trace_of("unequal", law).chains
    sizes = SIZES["unequal"]
    late = slice(STEPS // 2, None)
    weights, workers = ShardWeights(sizes).of(chain.worker, 0)[late], chain.worker[late]
    for worker, size in enumerate(sizes):
        share = np.mean(workers == worker)
        assert weights[workers == worker].mean() == pytest.approx(size / N / share, rel=0.05)


def test_linear_regression():
    """Workers of unequal speed, unequal shards, several coordinates, and the engine that makes the trace itself."""
    generator = np.random.default_rng(8)
    X = generator.normal(size=(40, 2))
    y = np.sort(X @ [1.0, -1.0] + generator.normal(size=40))
    model = Linear(X, y, batch_size=8, dtype=np.float64)
    mean, covariance = model.posterior()
    h = 0.01 / np.linalg.eigvalsh(np.linalg.inv(covariance)).max()
    run = sg.sample(
        model, sg.SGLD(step_size=h), steps=30_000, burn_in=5000, workers=2, servers=4, architecture=sg.Shards([10, 30]),
        engine=sg.engines.Inline(compute=Exponential(1.0, factors=(3.0, 1.0))), progress=False,
    )  # fmt: skip
    averages = run.draws.mean(axis=1)
    deviation = np.sqrt(np.diag(covariance))
    for coordinate in range(2):
        estimate = run.estimate(lambda theta, c=coordinate: theta[c])
        allowed = LIMIT * estimate.standard_error + 0.1 * deviation[coordinate]
        assert abs(averages[:, coordinate].mean() - mean[coordinate]) < allowed
        assert estimate.standard_error < 0.1 * deviation[coordinate]
