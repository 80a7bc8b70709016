"""The numbers that the demonstration compares itself with, and whether its default run comes near them."""

import numpy as np
import pytest
from scipy.optimize import minimize
from threadpoolctl import threadpool_limits

from stalegrad.analysis.diagnostics import convergence
from stalegrad.analysis.estimates import PredictiveAverage, accuracy, estimate, mean_log_likelihood
from stalegrad.experiments.demo import Settings, digits
from stalegrad.experiments.demo.predictions import FUNCTIONS, predict
from stalegrad.experiments.demo.task import REFERENCE
from stalegrad.runs.sample import sample

pytestmark = pytest.mark.long

DATA = digits()
X = np.c_[DATA.train, np.ones(len(DATA.train))].astype(float)
TEST = np.c_[DATA.test, np.ones(len(DATA.test))].astype(float)
Y = np.eye(10)[:, DATA.train_y]


def potential(theta):
    """U and ∇U on all data, written apart from the package."""
    logits = theta.reshape(10, 65) @ X.T  # a row a class: sums over classes are then sums of long rows
    logits -= logits.max(axis=0)
    weights = np.exp(logits)
    total = weights.sum(axis=0)
    value = theta @ theta / 2 - np.vdot(logits, Y) + np.log(total).sum()
    return value, theta + ((weights / total - Y) @ X).ravel()


def prediction(theta):
    logits = TEST @ theta.reshape(10, 65).T
    p = np.exp(logits - logits.max(axis=1, keepdims=True))
    return p / p.sum(axis=1, keepdims=True)


def hmc(draws, seed, burn_in=200):
    """Hamiltonian Monte Carlo with a Metropolis test, started at the origin."""
    rng = np.random.Generator(np.random.Philox(seed))
    theta = np.zeros(650)
    u, g = potential(theta)
    for index in range(burn_in + draws):
        q = rng.standard_normal(650)
        before, step, length = u + q @ q / 2, 0.13 * rng.uniform(0.8, 1.2), int(rng.integers(8, 18))
        new, new_g = theta, g
        q = q - step / 2 * g
        for leap in range(length):
            new = new + step * q
            new_u, new_g = potential(new)
            q = q - (step if leap < length - 1 else step / 2) * new_g
        if np.log(rng.uniform()) < before - new_u - q @ q / 2:
            theta, u, g = new, new_u, new_g
        if index >= burn_in:
            yield theta


@threadpool_limits.wrap(limits=1)
def test_the_mode():
    mode = minimize(potential, np.zeros(650), jac=True, method="L-BFGS-B", options={"maxiter": 1000}).x
    p = prediction(mode)
    assert round(accuracy(p, DATA.test_y), 3) == REFERENCE["mode"]["accuracy"]
    assert mean_log_likelihood(p, DATA.test_y) == pytest.approx(REFERENCE["mode"]["mean_log_likelihood"], abs=1e-4)


@threadpool_limits.wrap(limits=1)  # matrices this small gain nothing from threads, and lose much on a busy machine
def test_the_exact_posterior():
    average, values = PredictiveAverage(), []
    for theta in hmc(1500, seed=1):
        p = prediction(theta)
        average.add(p)
        entropy = -(p * np.log(p)).sum(axis=1).mean()
        values.append((mean_log_likelihood(p, DATA.test_y), entropy, np.square(theta).mean()))
    result = estimate(np.array(values)[None])
    expected = np.array([REFERENCE["test_functions"][name] for name in FUNCTIONS])
    assert np.all(np.abs(result.value - expected) < 5 * result.standard_error + 5e-5)
    scores = average.scores(DATA.test_y).as_dict()
    tolerance = {"accuracy": 0.0041, "mean_log_likelihood": 0.002, "brier_score": 0.001, "calibration_error": 0.006}
    for name, allowed in tolerance.items():
        assert scores[name] == pytest.approx(REFERENCE["averaged"][name], abs=allowed), name


def test_the_default_run_mixes_and_is_near_the_exact_posterior():
    settings = Settings()
    model = DATA.model(settings.batch_size)
    run = sample(
        model, settings.kernel, steps=settings.steps, servers=settings.servers, workers=settings.workers,
        burn_in=settings.burn_in, thin=settings.thin, engine="inline", progress=False,
    )  # fmt: skip
    p = predict(run, model, DATA)
    mixing = convergence(p.functions)
    assert np.all(mixing.rhat < 1.05)
    assert np.all(mixing.ess > 100)
    assert convergence(p.truth).rhat.max() < 1.05
    result = estimate(p.functions, step_sizes=run.step_sizes)
    expected = np.array([REFERENCE["test_functions"][name] for name in FUNCTIONS])
    posterior_sd = p.functions.std(axis=(0, 1))
    assert np.all(np.abs(result.value - expected) < 4 * result.standard_error + 0.1 * posterior_sd)
    averaged = mean_log_likelihood(p.average.probabilities, DATA.test_y)
    assert averaged == pytest.approx(REFERENCE["averaged"]["mean_log_likelihood"], abs=0.003)
