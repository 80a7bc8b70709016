"""The exact oracle, against chains run update by update, against SciPy, and against known closed forms."""

from collections import deque

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy import linalg, stats

from stalegrad._internal.errors import ArgumentError, StalegradError
from stalegrad.kernels import UBU, Address
from stalegrad.theory import UnstableRecursion, stale_baoab, stale_sghmc, stale_sgld, stale_ubu

FALSE_ALARM = 1e-6
SETTING = {"temperature": 1.3, "gradient_variance": 2.0, "mean": 0.7}
CHAINS = [
    ("sgld", {"curvature": 1.5, "step_size": 0.2, "staleness": 0}),
    ("sgld", {"curvature": 1.5, "step_size": 0.2, "staleness": 1}),
    ("sgld", {"curvature": 1.5, "step_size": 0.1, "staleness": 4}),
    ("euler", {"curvature": 1.5, "step_size": 0.3, "friction": 1.2, "staleness": 0}),
    ("euler", {"curvature": 1.5, "step_size": 0.15, "friction": 2.0, "staleness": 3}),
    ("splitting", {"curvature": 1.5, "step_size": 0.3, "friction": 1.2, "staleness": 0}),
    ("splitting", {"curvature": 1.5, "step_size": 0.15, "friction": 2.0, "staleness": 1}),
    ("splitting", {"curvature": 1.5, "step_size": 0.15, "friction": 2.0, "staleness": 3}),
]
each_chain = pytest.mark.parametrize(("sampler", "options"), CHAINS, ids=[f"{s}-{o['staleness']}" for s, o in CHAINS])


def oracle(sampler, options):
    if sampler == "sgld":
        return stale_sgld(**options, **SETTING)
    return stale_sghmc(**options, integrator=sampler, **SETTING)


def simulate(sampler, options, repetitions, steps, theta, q, seed):
    """θ_0 … θ_L of many chains, by the updates as the specification prints them. No matrix in sight."""
    rng = np.random.Generator(np.random.Philox(seed))
    h, lam, friction = options["step_size"], options["curvature"], options.get("friction", 1.0)
    temperature, mu = SETTING["temperature"], SETTING["mean"]
    wanted_at = deque(maxlen=options["staleness"] + 1)
    path = [theta]
    for _ in range(steps):
        point = theta + h / 2 * q if sampler == "splitting" else theta
        wanted_at.append(point)
        gradient = lam * (wanted_at[0] - mu) + rng.normal(0, SETTING["gradient_variance"] ** 0.5, repetitions)
        zeta = rng.normal(size=repetitions)
        if sampler == "sgld":
            theta = theta - h * gradient + np.sqrt(2 * h * temperature) * zeta
        elif sampler == "euler":
            q = (1 - friction * h) * q - h * gradient + np.sqrt(2 * friction * h * temperature) * zeta
            theta = theta + h * q
        else:
            q = np.exp(-friction * h / 2) * q - h * gradient + np.sqrt(2 * friction * h * temperature) * zeta
            q = np.exp(-friction * h / 2) * q
            theta = point + h / 2 * q
        path.append(theta)
    return np.array(path)


def assert_mean_and_variance(sample, mean, variance, tests):
    """Each column of ``sample`` (repetition, …) has this mean and variance, within its standard errors."""
    z = stats.norm.isf(FALSE_ALARM / (2 * tests))
    count = len(sample)
    deviation = sample - mean
    second, fourth = (deviation**2).mean(0), (deviation**4).mean(0)
    assert np.all(np.abs(deviation.mean(0)) <= z * np.sqrt(variance / count))
    assert np.all(np.abs(second - variance) <= z * np.sqrt((fourth - second**2) / count))


@each_chain
def test_simulated_chains_agree(sampler, options):
    repetitions, steps, seed = 40_000, 50, 20160 + options["staleness"]
    rng = np.random.Generator(np.random.Philox(seed + 1))
    theta, q = rng.normal(2.0, 0.5, repetitions), rng.normal(-1.0, 0.8, repetitions)
    path = simulate(sampler, options, repetitions, steps, theta, q, seed)
    recursion = oracle(sampler, options)
    start = recursion.start(2.0, -1.0, position_variance=0.25, momentum_variance=0.64)

    at = [1, 2, 5, 10, 20, 50]
    trajectory = recursion.trajectory(start, steps)
    tests = 2 * 4 * len(at)
    assert_mean_and_variance(path[at].T, trajectory.mean[at], trajectory.variance[at], tests)

    index = np.array(at) - 1
    for linear, quadratic in [(1.0, 0.0), (0.0, 1.0), (0.5, -0.3)]:
        phi = linear * path[1:] + quadratic * path[1:] ** 2
        averages = np.cumsum(phi, axis=0) / np.arange(1, steps + 1)[:, None]
        run = recursion.finite_run(start, steps, linear=linear, quadratic=quadratic)
        assert_mean_and_variance(averages[index].T, run.expectation[index], run.variance[index], tests)
        truth = linear * 0.7 + quadratic * (0.7**2 + 1.3 / 1.5)
        assert_allclose(run.bias, run.expectation - truth, atol=1e-12)
        assert_allclose(run.mse, run.bias**2 + run.variance)


@each_chain
def test_simulated_chains_have_the_stationary_autocovariance(sampler, options):
    """Run far beyond the transient, and compare the products θ_l θ_{l+k} over chains."""
    repetitions, burn, lags, seed = 20_000, 150, 12, 77
    path = simulate(sampler, options, repetitions, burn + lags, np.full(repetitions, 0.7), np.zeros(repetitions), seed)
    tail = path[burn:] - 0.7
    recursion = oracle(sampler, options)
    assert recursion.spectral_radius**burn < 1e-5
    products = tail * tail[0]
    z = stats.norm.isf(FALSE_ALARM / (2 * (lags + 1)))
    error = products.std(1, ddof=1) / np.sqrt(repetitions)
    assert np.all(np.abs(products.mean(1) - recursion.autocovariance(lags)) <= z * error)


@each_chain
def test_covariance_solves_the_lyapunov_equation(sampler, options):
    recursion = oracle(sampler, options)
    noise = recursion.noise @ recursion.noise.T
    expected = linalg.solve_discrete_lyapunov(recursion.transition, noise)
    assert_allclose(recursion.covariance(), expected, rtol=1e-9, atol=1e-12)
    assert_allclose(recursion.variance, expected[0, 0], rtol=1e-9)


@pytest.mark.parametrize("fraction", [0.5, 0.9, 0.999])
def test_covariance_close_to_the_limit_of_stability(fraction):
    limit = 2 * np.sin(np.pi / 82)
    recursion = stale_sgld(1.0, fraction * limit, 20)
    expected = linalg.solve_discrete_lyapunov(recursion.transition, recursion.noise @ recursion.noise.T)
    assert_allclose(recursion.covariance(), expected, rtol=1e-7, atol=1e-9)


def test_variance_in_closed_form():
    c, h = 0.3, 0.2
    shock = 2 * h * 1.3 + h**2 * 2.0
    fresh = stale_sgld(c / h, h, temperature=1.3, gradient_variance=2.0)
    assert_allclose(fresh.variance, shock / (1 - (1 - c) ** 2))
    stale = stale_sgld(c / h, h, 1, temperature=1.3, gradient_variance=2.0)  # an AR(2)
    assert_allclose(stale.variance, shock * (1 + c) / ((1 - c) * ((1 + c) ** 2 - 1)))


@each_chain
def test_asymptotic_variance_is_the_sum_of_the_autocovariances(sampler, options):
    recursion = oracle(sampler, options)
    gamma = recursion.autocovariance(600)
    mean = SETTING["mean"]
    total, squares = 2 * gamma.sum() - gamma[0], 2 * (gamma**2).sum() - gamma[0] ** 2
    assert_allclose(recursion.asymptotic_variance(), total, rtol=1e-9)
    assert_allclose(
        recursion.asymptotic_variance(linear=0.5, quadratic=2.0), (0.5 + 4 * mean) ** 2 * total + 8 * squares, rtol=1e-9
    )


@pytest.mark.parametrize("staleness", [0, 1, 5, 12])
def test_asymptotic_variance_of_the_mean_does_not_depend_on_staleness(staleness):
    h, lam, v, b = 0.05, 2.0, 3.0, 4.0
    sgld = stale_sgld(lam, h, staleness, gradient_variance=v)
    assert_allclose(sgld.asymptotic_variance(), 2 / (h * lam**2) + v / lam**2)
    for integrator in ("euler", "splitting"):
        sghmc = stale_sghmc(lam, h, b, staleness, integrator=integrator, gradient_variance=v)
        assert_allclose(sghmc.asymptotic_variance(), 2 * b / (h * lam**2) + v / lam**2)


@pytest.mark.parametrize(("linear", "quadratic"), [(1.0, 0.0), (0.0, 1.0)])
def test_long_runs_reach_the_asymptotic_variance(linear, quadratic):
    recursion = stale_sgld(1.0, 0.3, 2, mean=0.4)
    phi = {"linear": linear, "quadratic": quadratic}
    run = recursion.finite_run(recursion.stationary(), 4000, **phi)
    assert_allclose(4000 * run.variance[-1], recursion.asymptotic_variance(**phi), rtol=5e-3)
    assert_allclose(run.bias, quadratic * (recursion.variance - 1.0), atol=1e-9)


def test_finite_run_equals_the_double_sum_over_the_joint_covariance():
    recursion = stale_sghmc(2.0, 0.2, 1.0, 2, mean=-0.3)
    start, steps, (linear, quadratic) = recursion.start(1.0, 0.5, position_variance=0.2), 30, (0.7, 1.1)
    laws = [recursion.after(start, step) for step in range(1, steps + 1)]
    joint = np.empty((steps, steps))
    for j in range(steps):
        for k in range(j, steps):
            power = np.linalg.matrix_power(recursion.transition, k - j)
            joint[j, k] = joint[k, j] = (power @ laws[j].covariance)[0, 0]
    slope = linear + 2 * quadratic * (np.array([law.mean[0] for law in laws]) - 0.3)
    covariance = np.outer(slope, slope) * joint + 2 * quadratic**2 * joint**2
    expected = [covariance[:k, :k].sum() / k**2 for k in range(1, steps + 1)]
    run = recursion.finite_run(start, steps, linear=linear, quadratic=quadratic)
    assert_allclose(run.variance, expected, rtol=1e-10)


def test_stationary_law_is_stationary():
    recursion = stale_sghmc(2.0, 0.2, 1.0, 2, integrator="splitting")
    later = recursion.after(recursion.stationary(), 7)
    assert_allclose(later.covariance, recursion.covariance(), rtol=1e-10, atol=1e-13)
    assert_allclose(later.mean, 0)
    assert_allclose(recursion.after(recursion.start(5.0), 900).covariance, recursion.covariance(), rtol=1e-6, atol=1e-9)


def observed_order(make):
    """p in error ∝ h^p, from two step sizes."""
    errors = [abs(make(h) - 1.0) for h in (0.02, 0.01)]
    return np.log2(errors[0] / errors[1])


def test_orders_of_the_bias():
    def variance(h, **options):
        return stale_sghmc(1.0, h, 1.5, integrator="splitting", **options).variance

    assert observed_order(lambda h: stale_sgld(1.0, h).variance) == pytest.approx(1, abs=0.05)
    assert observed_order(variance) == pytest.approx(2, abs=0.05)
    assert observed_order(lambda h: variance(h, staleness=2)) == pytest.approx(1, abs=0.1)
    assert observed_order(lambda h: variance(h, gradient_variance=1.0)) == pytest.approx(1, abs=0.05)
    # On a Gaussian with fresh gradients Euler's first-order error is in the momentum, not in θ.
    assert observed_order(lambda h: stale_sghmc(1.0, h, 1.5).covariance()[1, 1]) == pytest.approx(1, abs=0.05)
    assert observed_order(lambda h: stale_sghmc(1.0, h, 1.5).variance) == pytest.approx(2, abs=0.05)


def test_bias_of_stale_sgld_is_linear_in_staleness_for_small_steps():
    h = 1e-4
    for staleness in (0, 1, 5):
        assert stale_sgld(1.0, h, staleness).variance == pytest.approx(1 + h * (staleness + 0.5), abs=1e-6)


def test_an_unstable_chain_says_so_and_by_how_much():
    recursion = stale_sgld(1.0, 1.1, 1)
    assert not recursion.stable
    for ask in (recursion.covariance, lambda: recursion.variance, recursion.asymptotic_variance, recursion.stationary):
        with pytest.raises(UnstableRecursion, match=rf"{recursion.spectral_radius:.6g}.*smaller step_size") as caught:
            ask()
        assert isinstance(caught.value, StalegradError)
        assert "step_size=1.1" in str(caught.value)
    growing = recursion.trajectory(recursion.start(1.0), 200).variance  # exact while it lasts
    assert growing[200] > growing[100] > growing[10]
    for phi in ({}, {"linear": 0.0, "quadratic": 1.0}):
        with pytest.raises(UnstableRecursion, match="overflowed"):
            recursion.finite_run(recursion.start(1.0), 20_000, **phi)


def test_figure_1_diverges_unscaled_and_its_end_points_agree_when_scaled():
    """N = 1000, J = 10, φ = θ², start at 0 and posterior mean near 1: facts that the specification states."""
    n, batch, ends = 1000, 10, []
    for tau in (1, 2, 5, 10, 15, 20):
        steps = 500 * tau
        h = tau ** (-2 / 3) * steps ** (-1 / 3) / 30
        assert not stale_sgld(n + 1.0, h, tau).stable
        chain = stale_sgld(n + 1.0, h / n, tau, gradient_variance=n**2 / batch, mean=1.0)
        ends.append(chain.finite_run(chain.start(0.0), steps, linear=0.0, quadratic=1.0).mse[-1])
    assert max(ends) / min(ends) < 1.15


@pytest.mark.parametrize(
    ("call", "name"),
    [
        (lambda: stale_sgld(0.0, 0.1), "curvature"),
        (lambda: stale_sgld(1.0, -0.1), "step_size"),
        (lambda: stale_sgld(1.0, 0.1, 1.0), "staleness"),
        (lambda: stale_sgld(1.0, 0.1, temperature=-1), "temperature"),
        (lambda: stale_sgld(1.0, 0.1, gradient_variance=np.nan), "gradient_variance"),
        (lambda: stale_sgld(1.0, 0.1, mean="zero"), "mean"),
        (lambda: stale_sghmc(1.0, 0.1, 0.0), "friction"),
        (lambda: stale_sghmc(1.0, 0.1, 1.0, integrator="leapfrog"), "integrator"),
        (lambda: stale_sgld(1.0, 0.1).autocovariance(-1), "lags"),
        (lambda: stale_sgld(1.0, 0.1).start(np.inf), "position"),
        (lambda: stale_sgld(1.0, 0.1).start(0.0, position_variance=-1.0), "position_variance"),
        (lambda: stale_sgld(1.0, 0.1, 2).finite_run(stale_sgld(1.0, 0.1).start(0.0), 5), "start"),
        (lambda: stale_sgld(1.0, 0.1).finite_run(stale_sgld(1.0, 0.1).start(0.0), 0), "steps"),
        (lambda: stale_sgld(1.0, 0.1).asymptotic_variance(quadratic=np.nan), "quadratic"),
    ],
)
def test_malformed_arguments_are_named(call, name):
    with pytest.raises(ArgumentError) as caught:
        call()
    assert caught.value.name == name


@pytest.mark.parametrize("friction", [0.3, 5.0])
@pytest.mark.parametrize("step_size", [0.1, 1.0])
def test_baoab_is_exact_on_a_gaussian(friction, step_size):
    """Leimkuhler and Matthews 2013: the variance of θ is right at every stable step, and that of q before its kick."""
    covariance = stale_baoab(2.0, step_size, friction, temperature=1.3).covariance()
    assert_allclose(covariance, [[0.65, step_size * 0.65], [step_size * 0.65, 1.3]], rtol=1e-9)


def test_baoab_starts_with_half_a_kick():
    """The mean after one step from (θ, q) = (2, −1), written out."""
    h, friction, lam = 0.3, 1.2, 1.5
    recursion = stale_baoab(lam, h, friction, 2, mean=0.7)
    q = -1.0 - h / 2 * lam * 1.3
    theta = 2.0 + h / 2 * q + h / 2 * np.exp(-friction * h) * q
    assert_allclose(recursion.after(recursion.start(2.0, -1.0), 1).mean[0], theta - 0.7)


def test_ubu_is_of_second_order_and_has_the_limit_of_a_gradient_that_never_comes():
    errors = [stale_ubu(1.0, h, 2.0).variance - 1 for h in (0.05, 0.1)]
    assert_allclose(np.log2(errors[1] / errors[0]), 2, atol=0.01)
    assert_allclose(stale_ubu(1e-9, 0.5, 2.0, temperature=1.3).covariance()[2, 2], 1.3, rtol=1e-6)


def test_the_noise_of_ubu_is_that_of_its_formula():
    """Each of the four normals of an update alone, from rest and without a force."""
    kernel, size = UBU(step_size=0.3, friction=1.5, temperature=2.0), 1
    rest = type(kernel.start(np.zeros((1, size)), Address(0, 0, 0)))(*np.zeros((3, 1, size)))
    moved = [kernel.step(rest, np.zeros((1, size)), np.eye(4)[k].reshape(4, 1, 1), 0.3) for k in range(4)]
    columns = np.array([[state.position[0, 0], state.point[0, 0], state.momentum[0, 0]] for state in moved]).T
    noise = stale_ubu(5.0, 0.3, 1.5, temperature=2.0).noise
    np.testing.assert_allclose(noise @ noise.T, columns @ columns.T, rtol=1e-12)
