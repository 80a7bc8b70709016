"""What architectures sample, held against closed forms and exact recursions on Gaussian targets.

All false-alarm rates are 1e-6 a test. Coordinates of a Gaussian without data noise are independent runs.
"""

import numpy as np
import pytest
from scipy import stats

import stalegrad as sg
from stalegrad.analysis.estimates import consensus_draws
from stalegrad.engines.simulation import LogNormal
from stalegrad.kernels import Address
from stalegrad.kernels.noise import Stream, normals
from stalegrad.potentials import GaussianMean
from stalegrad.potentials.address import GradientAddress
from stalegrad.protocol.architectures.base import Place
from stalegrad.theory import stale_sgld

pytestmark = pytest.mark.long

FALSE_ALARM = 1e-6
RUNS = 600
CURVATURE = 2.0
MODEL = GaussianMean(np.zeros((1, RUNS)), noise_scale=1.0, prior_scale=1.0, dtype=np.float64)  # λ = 1 + 1


def assert_mean_square(draws, exact):
    """Squares (draw, run) of zero-mean draws have the exact variances (draw,), on average over the draws."""
    averages = np.square(draws).mean(axis=0)
    error = averages.std(ddof=1) / np.sqrt(averages.size)
    assert abs(averages.mean() - exact.mean()) < stats.t(averages.size - 1).isf(FALSE_ALARM / 2) * error
    assert error < 0.05 * exact.mean()


RHO = 3.0
ELASTIC = {
    "workers": sg.Elastic(rho=RHO, alpha=0.5),
    "centre": sg.Elastic(rho=RHO, draws="centre"),
    "divided, workers": sg.Elastic(rho=RHO, alpha=0.3, divide=True),
    "divided, centre": sg.Elastic(rho=RHO, divide=True, draws="centre"),
    "pushed": sg.Elastic(rho=RHO, n_push=4),
    "divided, pushed, centre": sg.Elastic(rho=RHO, divide=True, draws="centre", n_push=4),
}


class TestElastic:
    STEPS, BURN_IN, WORKERS, H = 6000, 1000, 3, 0.01

    def trace(self):
        """Workers of different speeds, which must not matter."""
        law = LogNormal(1.0, factors=(1.0, 1.5, 3.0))
        return sg.simulate(workers=self.WORKERS, steps=self.STEPS, compute=law, seed=1)

    def recursion(self, elastic, workers):
        """The variance of every draw: all x_w and c are linear in what they were, plus noise."""
        count, h, rho, n = self.WORKERS, self.H, elastic.rho, elastic.n_push
        share = CURVATURE / count if elastic.divide else CURVATURE
        covariance, left = np.zeros((count + 1, count + 1)), 1 - elastic.alpha
        variances = []
        for worker in workers:
            move, noise = np.eye(count + 1), np.zeros(count + 1)
            factor = (1 - h * share) ** n
            noise[worker] = 2 * h * sum((1 - h * share) ** (2 * k) for k in range(n))
            if n == 1:
                move[worker, worker], move[worker, -1] = factor - h * rho, h * rho
            else:
                keep = np.exp(-rho * n * h)
                move[worker, worker], move[worker, -1] = keep * factor, 1 - keep
                noise[worker] *= keep**2
            covariance = move @ covariance @ move.T + np.diag(noise)
            centre = np.eye(count + 1)
            centre[-1, :count], centre[-1, -1] = elastic.alpha / count, left
            covariance = centre @ covariance @ centre.T
            covariance[-1, -1] += (1 - left**2) / (count * rho)
            seen = -1 if elastic.draws == "centre" else worker
            variances.append(covariance[seen, seen])
        return np.array(variances)[self.BURN_IN :]

    @pytest.mark.parametrize("name", ELASTIC)
    def test_the_sampler_does_what_it_says(self, name):
        trace, elastic = self.trace(), ELASTIC[name]
        run = sg.replay(trace, MODEL, sg.SGLD(step_size=self.H), architecture=elastic, burn_in=self.BURN_IN)
        assert_mean_square(run.draws[0], self.recursion(elastic, trace.chains[0].worker))

    @pytest.mark.parametrize("name", ELASTIC)
    def test_and_that_is_the_marginal_in_the_docstring(self, name):
        elastic, w, lam, rho = ELASTIC[name], self.WORKERS, CURVATURE, RHO
        exact = {
            (False, "workers"): (lam + rho / w) / (lam + rho) / lam,
            (False, "centre"): (1 / lam + 1 / rho) / w,
            (True, "workers"): w * (lam + rho) / (lam * (lam + w * rho)),
            (True, "centre"): 1 / lam + 1 / (w * rho),
        }[elastic.divide, elastic.draws]
        got = self.recursion(elastic, self.trace().chains[0].worker).mean()
        assert got == pytest.approx(exact, rel=0.03 if elastic.n_push == 1 else 0.08)

    def test_momenta_have_their_law_too(self):
        kernel = sg.SGHMC(step_size=0.05, friction=2.0, integrator="splitting")
        run = sg.replay(self.trace(), MODEL, kernel, architecture=sg.Elastic(rho=RHO), burn_in=self.BURN_IN)
        w, lam, rho = self.WORKERS, CURVATURE, RHO
        assert np.square(run.draws).mean() == pytest.approx((lam + rho / w) / (lam + rho) / lam, rel=0.03)
        assert run.stats.kinetic_temperature.mean() == pytest.approx(1, rel=0.01)


@pytest.mark.parametrize("n", [1, 4])
@pytest.mark.parametrize("workers", [1, 3])
def test_downpour_is_stale_sgld_of_longer_steps(workers, n):
    """Δ = (Aⁿ − 1) θ_fetched + noise with A = 1 − hλ: one step of length (1 − Aⁿ)/λ with a little less noise."""
    h, steps, burn_in = 0.02, 3000, 500
    a = 1 - h * CURVATURE
    longer, noise = (1 - a**n) / CURVATURE, 2 * h * (1 - a ** (2 * n)) / (1 - a**2)
    exact = stale_sgld(CURVATURE, longer, workers - 1).variance * noise / (2 * longer)
    run = sg.sample(
        MODEL, sg.SGLD(step_size=h), steps=steps, burn_in=burn_in, workers=workers, engine="inline", progress=False,
        architecture=sg.Downpour(n_push=n),
    )  # fmt: skip
    assert_mean_square(run.draws[0], np.full(1, exact))
    if workers == 1:
        assert exact == pytest.approx(stale_sgld(CURVATURE, h).variance)


def test_trajectories_with_fresh_momenta_sample_the_posterior():
    kernel = sg.SGHMC(step_size=0.1, friction=1.0, integrator="splitting")
    run = sg.sample(
        MODEL, kernel, steps=2000, burn_in=200, engine="inline", progress=False, architecture=sg.Downpour(n_push=8)
    )
    assert np.square(run.draws).mean() == pytest.approx(1 / CURVATURE, rel=0.02)


@pytest.mark.parametrize(
    "kernel",
    [
        sg.SGLD(step_size=0.02, temperature=0.5),
        sg.SGHMC(step_size=0.1, friction=2.0),
        sg.SGHMC(step_size=0.1, friction=2.0, integrator="splitting"),
        sg.SGNHT(step_size=0.1, noise=2.0),
        sg.SGNHT(step_size=0.1, noise=2.0, integrator="splitting", thermostats="each"),
    ],
    ids=lambda kernel: f"{type(kernel).__name__}",
)
def test_noise_of_the_workers_is_the_noise_of_the_chain(kernel):
    """The same chain as that of a server which draws these normals: one for each update, so the law is the same."""
    seed, steps = 2**63 + 5, 30
    run = sg.sample(
        MODEL, kernel, steps=steps, seed=seed, engine="inline", progress=False, architecture=sg.WorkerNoise()
    )
    state = kernel.start(np.zeros((1, RUNS)), Address(seed - 2**64, 0, 0))
    h, zeta = kernel.step_size, np.empty((1, RUNS))
    for count in range(steps):
        gradient = CURVATURE * kernel.point(state)
        state = kernel.step(state, gradient, normals(zeta, seed, Stream.UPDATE, 0, count), h)
        np.testing.assert_allclose(run.draws[0, count], state.position[0], rtol=1e-9, atol=1e-12)


N, J, SIZES, LENGTHS = 60, 4, (10, 20, 30), (6, 4, 2)
DATA = np.sort(np.random.default_rng(2).normal(size=N))  # shards are as different as can be


class TestVisitingShards:
    VISITING = sg.VisitingShards(SIZES, lengths=LENGTHS)

    def test_a_round_is_a_permutation_and_all_are_equally_likely(self):
        rounds = [tuple(self.VISITING.shard(1, s, k) for s in range(3)) for k in range(600)]
        assert all(sorted(places) == [0, 1, 2] for places in rounds)
        orders, counts = np.unique(rounds, axis=0, return_counts=True)
        assert len(orders) == 6
        assert stats.chisquare(counts).pvalue > FALSE_ALARM

    def test_the_estimate_is_unbiased(self):
        """The mean over all steps and all minibatches of one datum is ∇U, to the last digits."""
        model, theta = GaussianMean(DATA, batch_size=1, dtype=np.float64), np.array([0.7])
        bounds = np.cumsum((0, *SIZES))
        weights, total = self.VISITING.weights(N), sum(LENGTHS)
        estimate = sum(
            LENGTHS[v] / total * weights[v]
            * np.mean([model.gradient(theta, np.array([i])) for i in range(bounds[v], bounds[v + 1])], axis=0)
            for v in range(3)
        )  # fmt: skip
        np.testing.assert_allclose(estimate, model.full_gradient(theta), rtol=1e-12)
        work = self.VISITING.work(GaussianMean(DATA, batch_size=1, dtype=np.float64), [sg.SGLD(step_size=1e-3)], 1)
        out = np.empty((1, 1))
        for trajectory in range(20):  # a gradient is that of its shard, with its weight
            shard = self.VISITING.shard(5, 0, trajectory)
            work.local_gradient(theta[None], GradientAddress(5, 0, 0, 7 * trajectory), trajectory, out)
            own = DATA[bounds[shard] : bounds[shard + 1]]
            possible = weights[shard] * (theta[0] + N * (theta[0] - own))
            assert np.abs(out - possible).min() < 1e-9

    def moments(self, h, seed, steps, weighed=True):
        """Mean and variance after each trajectory of θ ← θ − hβ(λθ − N d̄_batch) + √(2h) ζ on the shards visited."""
        shards = np.split(DATA, np.cumsum(SIZES)[:-1])
        weights = self.VISITING.weights(N) if weighed else np.ones(3)
        mean, variance, moments = 0.0, 0.0, []
        for trajectory in range(steps):
            v = self.VISITING.shard(seed, 0, trajectory)
            shard, beta = shards[v], weights[v]
            noise = N**2 * shard.var(ddof=1) / J * (1 - J / len(shard))
            for _ in range(LENGTHS[v]):
                mean -= h * beta * ((N + 1) * mean - N * shard.mean())
                variance = (1 - h * beta * (N + 1)) ** 2 * variance + 2 * h + (h * beta) ** 2 * noise
            moments.append((mean, variance))
        return np.array(moments).T

    def test_the_sampler_does_what_it_says(self):
        h, steps, burn_in, repeats = 0.01 / (N + 1), 2500, 500, 100
        model = GaussianMean(DATA, batch_size=J, dtype=np.float64)
        run = sg.sample(
            model, sg.SGLD(step_size=h), steps=steps, burn_in=burn_in, repeats=repeats, seed=3, progress=False,
            architecture=self.VISITING,
        )  # fmt: skip
        draws = run.draws[:, 0, :, 0]
        means, variances = self.moments(h, 3, steps)[:, burn_in:]
        for values, exact, unit in (
            (draws, means, (N + 1) ** -0.5),
            (np.square(draws - means), variances, 1 / (N + 1)),
        ):
            averages = values.mean(axis=1)
            error = averages.std(ddof=1) / np.sqrt(repeats)
            assert abs(averages.mean() - exact.mean()) < stats.t(repeats - 1).isf(FALSE_ALARM / 2) * error
            assert error < 0.1 * unit

    def test_and_that_tends_to_the_posterior(self):
        mean, deviation = DATA.sum() / (N + 1), (N + 1) ** -0.5
        off = [abs(self.moments(h / (N + 1), 3, 20_000)[0, 2000:].mean() - mean) / deviation for h in (0.02, 0.004)]
        assert off[0] < 0.15
        assert off[1] < 0.1
        unweighed = self.moments(0.004 / (N + 1), 3, 20_000, weighed=False)[0, 2000:].mean()
        assert abs(unweighed - mean) / deviation > 1


class TestConsensus:
    def test_gradients_are_those_of_subset_posteriors(self):
        """Σ over the shard's data of (N_s/N) g̃ / N_s: the shard's likelihood, and the prior to the power N_s/N."""
        model, theta = GaussianMean(DATA, batch_size=1, prior_scale=0.5, dtype=np.float64), np.array([[0.7]])
        work = sg.Consensus(SIZES).work(model, [sg.SGLD(step_size=1e-3)] * 3, 1)
        bounds, total, out = np.cumsum((0, *SIZES)), 0.0, np.empty((1, 1))
        for s, size in enumerate(SIZES):
            own = DATA[bounds[s] : bounds[s + 1]]
            seen = set()
            for count in range(40):
                work.answer(theta, GradientAddress(1, s, 0, count), out)
                possible = size / N * (theta[0] / 0.25 + N * (theta[0] - own))
                assert np.abs(out - possible).min() < 1e-9
                seen.add(int(np.abs(out - possible).argmin()))
            assert len(seen) > 5
            total += np.mean(size / N * (theta[0] / 0.25 + N * (theta[0] - own)))
        assert total == pytest.approx(model.full_gradient(theta[0])[0])

    @pytest.mark.parametrize("weights", ["full", "diagonal"])
    def test_it_is_exact_for_normal_subset_posteriors(self, weights):
        rng, count = np.random.default_rng(3), 20_000
        tilt = 0.6 if weights == "full" else 0.0
        covariances = [np.array([[1.0, tilt], [tilt, 2.0]]), np.array([[0.5, -tilt / 2], [-tilt / 2, 1.0]])]
        centres = [np.array([1.0, 0.0]), np.array([-1.0, 2.0])]
        draws = np.stack([rng.multivariate_normal(c, v, count) for c, v in zip(centres, covariances, strict=True)])
        precisions = [np.linalg.inv(v) for v in covariances]
        covariance = np.linalg.inv(sum(precisions))
        mean = covariance @ sum(p @ c for p, c in zip(precisions, centres, strict=True))
        combined = consensus_draws(draws, weights=weights)
        limit = stats.norm.isf(FALSE_ALARM / 10)
        # Weights that are estimated from D draws add an error of the order of their own, 1/√D of the distance.
        allowed = limit * np.sqrt(np.diag(covariance) / count) + limit * 3 / np.sqrt(count)
        assert (np.abs(combined.mean(axis=0) - mean) < allowed).all()
        assert np.abs(np.cov(combined.T) - covariance).max() < limit * 2 / np.sqrt(count)

    def test_a_run(self):
        """Shards that are alike, so that the error of the weights hardly matters."""
        model = GaussianMean(np.random.default_rng(1).permutation(DATA), batch_size=J, dtype=np.float64)
        run = sg.sample(
            model, sg.SGLD(step_size=0.05 / N), steps=30_000, burn_in=2000, thin=20, servers=3, engine="inline",
            progress=False, architecture=sg.Consensus(SIZES), seed=2,
        )  # fmt: skip
        combined = run.consensus()[:, 0]
        assert abs(combined.mean() - DATA.sum() / (N + 1)) < 0.25 * (N + 1) ** -0.5
        assert combined.var() == pytest.approx(1 / (N + 1), rel=0.25)

    def test_its_failure_on_skewed_posteriors(self):
        """The rate of an exponential law, of which each of 8 shards has 2 events: Gamma posteriors, skewed.

        The product of Gamma(a_s, b_s) densities is Gamma(Σ(a_s − 1) + 1, Σb_s). Consensus draws centre elsewhere, and
        more of them do not help.
        """
        rng, shards, shape, rate, count = np.random.default_rng(4), 8, 3.0, 2.0, 200_000
        draws = rng.gamma(shape, 1 / rate, (shards, count, 1))
        posterior = stats.gamma(shards * (shape - 1) + 1, scale=1 / (shards * rate))
        combined = consensus_draws(draws)[:, 0]
        error = combined.std() / np.sqrt(count)
        assert combined.mean() - posterior.mean() > 100 * error
        assert combined.mean() - posterior.mean() > posterior.std()
        assert stats.skew(combined) < 0.9 * posterior.stats("s")

    def test_what_cannot_be_combined(self):
        with pytest.raises(sg.ArgumentError, match="no two chains"):
            consensus_draws(np.zeros((1, 10, 2)))
        with pytest.raises(sg.ArgumentError, match="Give more draws"):
            consensus_draws(np.zeros((2, 10, 20)))


def test_places_are_what_chains_take():
    """Place is unpacked into Chain: its fields are in that order."""
    chain = sg.Downpour().chain(sg.SGLD(step_size=0.1), Place(np.zeros((2, 3)), 5, 1, 7), 4)
    assert (chain.seed, chain.chain, chain.first_repeat, chain.position.shape) == (5, 1, 7, (2, 3))
