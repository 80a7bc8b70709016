"""What the estimators predict, against the posterior computed otherwise."""

from functools import cache

import numpy as np
import pytest
from scipy import stats
from scipy.special import expit, softmax
from sklearn.datasets import make_classification

from stalegrad.analysis.estimates import mcse
from stalegrad.potentials import Logistic, Softmax, find_mode
from stalegrad.potentials.coordinates import Coordinates
from stalegrad.runs.warmup.curvature import bowl
from stalegrad.sklearn import StaleClassifier, StaleRegressor
from stalegrad.sklearn.estimators import most_probable_noise

pytestmark = pytest.mark.long

rng = np.random.default_rng(5)
MIXING = rng.normal(size=(4, 4)) + 2.0  # correlated features, of different scales and far from 0
X = rng.normal(size=(200, 4)) @ MIXING * [1.0, 10.0, 0.1, 1.0] + [0.0, 100.0, 0.0, -5.0]
Y = 20.0 + 3.0 * (X - X.mean(0)) / X.std(0) @ [1.0, 0.0, -1.0, 0.5] + rng.normal(size=200)
NOISE = 1.0


def linear_posterior():
    """Mean and covariance of (weights, intercept) of the features as given; the prior is on the standardised scale."""
    unit, m, s = Y.std(), X.mean(0), X.std(0)
    design = np.c_[(X - m) / s, np.ones(len(X))]
    precision = design.T @ design / (NOISE / unit) ** 2 + np.eye(5)
    mean = np.linalg.solve(precision, design.T @ (Y - Y.mean()) / unit / (NOISE / unit) ** 2)
    back = unit * np.block([[np.diag(1 / s), np.zeros((4, 1))], [-m / s, np.ones(1)]])
    return back @ mean + np.r_[np.zeros(4), Y.mean()], back @ np.linalg.inv(precision) @ back.T


@pytest.mark.parametrize("options", [
    {"steps": 30_000},
    {"steps": 200_000, "batch_size": 50, "workers": 3},
    {"steps": 100_000, "servers": 2, "batch_size": 100},
])  # fmt: skip
def test_the_regressor_samples_the_closed_form_posterior(options):
    """Standard errors are below 0.022 deviations, and below 1.3 % of the deviations themselves."""
    model = StaleRegressor(noise_scale=NOISE, random_state=1, **options).fit(X, Y)
    mean, covariance = linear_posterior()
    deviation = np.sqrt(np.diag(covariance))
    draws = np.c_[model.coef_draws_, model.intercept_draws_]
    assert np.all(np.abs(np.r_[model.coef_, model.intercept_] - mean) < 0.12 * deviation)
    np.testing.assert_allclose(draws.std(axis=0), deviation, rtol=0.1)
    new = X[:10] * 1.5
    expected = np.c_[new, np.ones(10)]
    predicted, spread = model.predict(new, return_std=True)
    np.testing.assert_allclose(model.predict(new), predicted)
    exact = np.sqrt(np.einsum("ij,jk,ik->i", expected, covariance, expected))
    assert np.all(np.abs(predicted - expected @ mean) < 0.12 * exact)
    np.testing.assert_allclose(spread, np.hypot(exact, NOISE), rtol=0.1)


def test_the_noise_is_the_most_probable_one():
    """Against the density of y written out, and against the noise that is there."""
    x, y = (X - X.mean(0)) / X.std(0), (Y - Y.mean()) / Y.std()
    found = most_probable_noise(x, y, prior_scale=0.7)
    design = np.c_[x, np.ones(len(x))]

    def evidence(sigma):
        return stats.multivariate_normal(cov=sigma**2 * np.eye(200) + 0.49 * design @ design.T).logpdf(y)

    assert evidence(found) > max(evidence(found * 1.03), evidence(found / 1.03))
    estimated = StaleRegressor(random_state=1).fit(X, Y).noise_scale_
    assert abs(estimated - NOISE) < 5 * NOISE / np.sqrt(2 * len(X))


def test_noise_that_is_not_there_is_not_estimated_as_nothing():
    model = StaleRegressor(random_state=0).fit(X, X @ np.ones(4))
    assert model.noise_scale_ == pytest.approx(1e-3 * (X @ np.ones(4)).std())
    assert model.score(X, X @ np.ones(4)) > 0.9999
    constant = StaleRegressor(random_state=0).fit(X, np.full(200, 7.0))
    np.testing.assert_allclose(constant.predict(X), 7.0, atol=0.01)


@cache
def few_data(classes):
    return make_classification(
        40, 2, n_informative=2, n_redundant=0, n_classes=classes, n_clusters_per_class=1, flip_y=0.1, random_state=2
    )


@cache
def exact_probabilities(classes, draws=100_000):
    """The posterior predictive by importance sampling, from a normal around the mode, wider than the posterior."""
    x, labels = few_data(classes)
    scaled = (x - x.mean(0)) / x.std(0)
    model = Softmax(scaled, labels, intercept=True, dtype=np.float64)
    if classes == 2:
        model = Logistic(scaled, labels, intercept=True, dtype=np.float64)
    centre = find_mode(model, progress=False)
    seen = bowl(model, Coordinates(centre, scale=np.full(model.size, 0.01)))
    covariance = 1.5e-4 * (seen.vectors / seen.values) @ seen.vectors.T
    proposal = stats.multivariate_normal(centre, covariance)
    theta = proposal.rvs(draws, random_state=3)
    design = np.c_[scaled, np.ones(len(scaled))]
    scores = np.einsum("lkc,ic->lik", theta.reshape(draws, -1, design.shape[1]), design)
    probabilities = softmax(scores, axis=2) if classes > 2 else expit(scores * [-1, 1])
    log_weight = np.log(probabilities[:, np.arange(len(labels)), labels]).sum(1) - (theta**2).sum(1) / 2
    log_weight -= proposal.logpdf(theta)
    weight = softmax(log_weight)
    assert 1 / np.sum(weight**2) > 5_000, "too few effective draws to be a reference"
    return np.tensordot(weight, probabilities, axes=1)


@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.parametrize("options", [{"steps": 20_000}, {"steps": 60_000, "batch_size": 20, "workers": 2}])
def test_probabilities_are_averages_over_the_posterior(classes, options):
    """Standard errors are below 0.005, that of the reference included."""
    x, labels = few_data(classes)
    names = np.array(["low", "middle", "top"])
    model = StaleClassifier(random_state=4, **options).fit(x, names[labels])
    assert model.classes_.tolist() == names[:classes].tolist()
    probabilities = model.predict_proba(x)
    np.testing.assert_allclose(probabilities, exact_probabilities(classes), atol=0.025)
    np.testing.assert_allclose(probabilities.sum(1), 1)
    assert model.predict(x).tolist() == names[probabilities.argmax(1)].tolist()
    scores = x @ model.coef_.T + model.intercept_
    at_mean = softmax(scores, axis=1) if classes > 2 else expit(scores * [-1, 1])
    assert probabilities.max(1).mean() < at_mean.max(1).mean() - 0.01, (
        "an average is less certain than one set of weights"
    )


@pytest.mark.parametrize(("prior_scale", "random_state"), [(10.0, 0), (30.0, 0), (30.0, 1)])
def test_classes_that_can_be_told_apart_under_a_vague_prior(prior_scale, random_state):
    """A posterior that is flat at its mode and steep elsewhere, against sums over a grid.

    Curvatures differ 1,600-fold between its places. Where a step is too long for its walls, chains are thrown out and
    means are off by up to half a standard deviation. Here a tenth is allowed beyond 4.9 standard errors, which normal
    errors exceed once in a million, and 10 % of the standard deviation.
    """
    noise = np.random.default_rng(0).normal(scale=0.25, size=20)
    x, labels = np.repeat([-1.0, 1.0], 10) + noise, np.repeat([0, 1], 10)
    slope, intercept = np.meshgrid(*2 * [prior_scale * np.linspace(-5, 5, 1001)], indexing="ij")
    log_density = -(slope**2 + intercept**2) / (2 * prior_scale**2)
    for z, sign in zip((x - x.mean()) / x.std(), 2 * labels - 1, strict=True):
        log_density -= np.logaddexp(0, -sign * (slope * z + intercept))
    density = softmax(log_density)
    mean = np.sum(density * slope)
    deviation = np.sqrt(np.sum(density * (slope - mean) ** 2))
    model = StaleClassifier(prior_scale=prior_scale, steps=150_000, random_state=random_state).fit(x[:, None], labels)
    draws = (model.coef_draws_[:, 0, 0] * x.std() - mean) / deviation
    error, spread_error = float(mcse(draws)), float(mcse(draws**2))
    assert error < 0.05
    assert abs(draws.mean()) < 0.1 + 4.9 * error
    assert abs(np.mean(draws**2) - 1) < 0.2 + 4.9 * spread_error
    assert [concern for concern in model.run_.warmup.concerns if "funnel" in concern] == [], "a step suits all places"
