"""What models predict, and how likely they find their data: one protocol for built-in models and those of libraries."""

import pickle

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest
import torch
from numpy.testing import assert_allclose
from numpyro.infer import Predictive

import stalegrad as sg
from stalegrad.potentials import GaussianMean, Linear, Softmax, from_gradient, from_jax, from_loader, from_numpyro
from stalegrad.potentials.coordinates import Coordinates
from stalegrad.potentials.wrappers.whitened import InCoordinates

_rng = np.random.default_rng(8)
X, CLASSES, NEW = _rng.normal(size=(30, 4)), _rng.integers(3, size=30), _rng.normal(size=(2300, 4))
Y = X @ np.arange(4.0) + _rng.normal(size=30)
THETA = _rng.normal(size=(3, 12)).astype(np.float32)  # three draws
SOFTMAX, LINEAR = Softmax(X, CLASSES), Linear(X, Y, noise_scale=0.5)


def softmax_in_jax(**options):
    return from_jax(
        lambda w: -0.5 * jnp.sum(w**2),
        lambda w, d: jax.nn.log_softmax(w @ d["x"])[d["y"]],
        {"x": X, "y": CLASSES},
        jnp.zeros((3, 4)),
        **options,
    )


def probabilities_in_jax(w, x):
    return jax.nn.softmax(w @ x)


def softmax_in_numpyro(x, y=None, subsample_size=None):
    w = numpyro.sample("w", dist.Normal().expand([3, 4]).to_event(2))
    with numpyro.plate("data", len(x), subsample_size=subsample_size) as i:
        logits = numpyro.deterministic("logits", x[i] @ w.T)  # of other data: not to be put in place of the new ones
        numpyro.sample("y", dist.Categorical(logits=logits), obs=None if y is None else y[i])


def linear_in_numpyro(x, y=None):
    w = numpyro.sample("w", dist.Normal().expand([4]).to_event(1))
    numpyro.sample("y", dist.Normal(x @ w, 0.5), obs=y)


def linear_in_torch(outputs, loss, y):
    return sg.potentials.from_torch(torch.nn.Linear(4, outputs, bias=False), loss, (X, y), noise_scale=0.5)


CLASSIFIERS = {
    "built-in": lambda: SOFTMAX,
    "torch": lambda: linear_in_torch(3, "categorical", CLASSES),
    "jax": lambda: softmax_in_jax(predict=probabilities_in_jax),
    "numpyro": lambda: from_numpyro(softmax_in_numpyro, X, CLASSES, subsample_size=10),
    "loaded": lambda: from_loader(Softmax, X, CLASSES),
    "wrapped": lambda: sg.potentials.svrg(SOFTMAX),
}
REGRESSIONS = {
    "built-in": lambda: LINEAR,
    "torch": lambda: linear_in_torch(1, "gaussian", Y),
    "numpyro": lambda: from_numpyro(linear_in_numpyro, X, Y),
}


@pytest.mark.parametrize("name", CLASSIFIERS)
def test_probabilities_of_classes(name):
    """Of rows that take several passes, of one draw and of many, and of the model's own data."""
    model = CLASSIFIERS[name]()
    predict = model.predictive(NEW)
    expected = np.stack([SOFTMAX.predict(theta, NEW) for theta in THETA])
    assert predict(THETA[0]).dtype == np.float64
    assert_allclose(predict(THETA[0]), expected[0], atol=3e-6)
    assert_allclose(predict(THETA), expected, atol=3e-6)
    assert_allclose(model.log_likelihood(THETA[1]), SOFTMAX.log_likelihood(THETA[1], X, CLASSES), atol=1e-5)


@pytest.mark.parametrize("name", REGRESSIONS)
def test_mean_and_variance_of_numbers(name):
    model, theta = REGRESSIONS[name](), THETA[:, :4]
    predict = model.predictive(NEW)
    mean, variance = predict(theta[0])
    assert_allclose(mean, NEW @ theta[0], rtol=1e-4, atol=1e-5)
    assert_allclose(np.broadcast_to(variance, mean.shape), 0.25, rtol=1e-6)
    mean, variance = predict(theta)
    assert_allclose(mean, theta @ NEW.T, rtol=1e-4, atol=1e-5)
    assert variance.shape == mean.shape
    density = -0.5 * ((Y - X @ theta[0]) / 0.5) ** 2 - np.log(0.5 * np.sqrt(2 * np.pi))
    assert_allclose(model.log_likelihood(theta[0]), density, rtol=1e-4)


@pytest.mark.parametrize("name", ["torch", "jax", "numpyro"])
def test_a_run_predicts_what_its_draws_do(name):
    model = CLASSIFIERS[name]()
    run = sg.sample(model, sg.SGLD(step_size=1e-3), steps=20, engine="inline", progress=False)
    average = run.predict(model.predictive(X))
    assert_allclose(average.probabilities, np.mean([SOFTMAX.predict(t, X) for t in run.draws[0]], axis=0), atol=1e-5)
    assert_allclose(run.predict(model.predictive(X), batch=7).probabilities, average.probabilities, atol=1e-6)


def test_coordinates_are_those_of_the_model_within():
    scale = np.linspace(0.5, 2.0, 12).astype(np.float32)
    model = InCoordinates(SOFTMAX, Coordinates(np.ones(12, np.float32), scale=scale))
    assert_allclose(model.predictive(X)(THETA[0]), SOFTMAX.predict(1 + scale * THETA[0], X), rtol=1e-5)
    assert_allclose(model.log_likelihood(THETA[0]), SOFTMAX.log_likelihood(1 + scale * THETA[0]), rtol=1e-5)


def test_normal_data_have_a_likelihood_with_its_constants():
    model = GaussianMean(X, noise_scale=0.7, dtype=np.float64)
    density = -0.5 * ((X - 0.3) / 0.7) ** 2 - np.log(0.7 * np.sqrt(2 * np.pi))
    assert_allclose(model.log_likelihood(np.full(4, 0.3)), density.sum(1), rtol=1e-12)


# ------------------------------------------------------------------------------------------- what each library adds


def test_a_loss_of_ones_own_needs_to_be_told_what_outputs_mean():
    def loss(output, y):
        return torch.nn.functional.cross_entropy(output, y, reduction="none")

    model = linear_in_torch(3, loss, CLASSES)
    with pytest.raises(
        sg.ArgumentError, match=r"loss=.*does not say what the outputs mean\. Say it: predictive\(X, pre"
    ):
        model.predictive(X)(THETA[0])
    probabilities = model.predictive(X, predict=lambda output: torch.softmax(output, 1))(THETA[0])
    assert_allclose(probabilities, SOFTMAX.predict(THETA[0], X), atol=1e-6)
    mean, variance = model.predictive(X, predict=lambda output: (output[:, 0], output[:, 1] ** 2))(THETA[:2])
    assert mean.shape == variance.shape == (2, 30)


def test_jax_needs_a_function_that_predicts():
    model = softmax_in_jax()
    with pytest.raises(sg.ArgumentError, match=r"predict=None.*is missing.*Give predict=, here or to from_jax"):
        model.predictive(X)
    with pytest.raises(sg.ArgumentError, match="predict=3: cannot be called"):
        model.predictive(X, predict=3)
    with pytest.raises(sg.ArgumentError, match=r"theta=.*has shape \(5,\)\. Give 12 entries, or rows of so many"):
        model.predictive(X, probabilities_in_jax)(np.zeros(5))
    mean, variance = model.predictive(X, lambda w, x: (w[0] @ x, 0.5))(THETA[0])
    assert_allclose(mean, X @ THETA[0, :4], atol=1e-5)
    assert variance.tolist() == [0.5] * 30
    again = pickle.loads(pickle.dumps(_picklable()))
    assert_allclose(again.predictive(X)(THETA[0]), SOFTMAX.predict(THETA[0], X), atol=1e-6)
    assert_allclose(model.log_likelihood(THETA[0], {"x": X[:2], "y": CLASSES[:2]}), model.log_likelihood(THETA[0])[:2])


def _log_prior(w):
    return -0.5 * jnp.sum(w**2)


def _log_likelihood(w, d):
    return jax.nn.log_softmax(w @ d["x"])[d["y"]]


def _picklable():
    return from_jax(
        _log_prior, _log_likelihood, {"x": X, "y": CLASSES}, jnp.zeros((3, 4)), predict=probabilities_in_jax
    )


def test_numpyro_predicts_from_the_models_arguments_as_its_own_predictive_does():
    model = from_numpyro(linear_in_numpyro, X, Y)
    named = model.variables(THETA[:, None, :4])
    drawn = Predictive(linear_in_numpyro, named, batch_ndims=2)(jax.random.key(0), NEW)["y"]
    mean, variance = model.predictive(NEW)(THETA[:, :4])
    z = (drawn[:, 0] - mean) / np.sqrt(variance)
    assert abs(z.mean()) < 4.9 / np.sqrt(z.size)
    assert abs((z**2).mean() - 1) < 4.9 * np.sqrt(2 / z.size)
    with pytest.raises(
        sg.ArgumentError, match=r"observe the site 'y', which is to be predicted. Let the model take None"
    ):
        model.predictive(NEW, Y)(THETA[0, :4])


def two_sites(x, y=None, n=None):
    w = numpyro.sample("w", dist.Normal().expand([4]).to_event(1))
    with numpyro.plate("data", len(x)):
        numpyro.sample("y", dist.Normal(x @ w, 0.5), obs=y)
        numpyro.sample("n", dist.Poisson(jnp.exp(0.1 * x @ w)), obs=n)


def test_of_several_observed_sites_one_is_named():
    counts = np.arange(30) % 4
    model = from_numpyro(two_sites, X, Y, counts)
    with pytest.raises(sg.ArgumentError, match=r"site=None: is needed: 2 are observed. Name one of: y, n"):
        model.predictive(NEW)
    with pytest.raises(sg.ArgumentError, match=r"site='z': is not an observed site. Name one of: y, n"):
        model.log_likelihood(THETA[0, :4], site="z")
    rate = np.exp(0.1 * NEW @ THETA[0, :4])
    assert_allclose(model.predictive(NEW, site="n")(THETA[0, :4]), (rate, rate), rtol=1e-4)
    assert_allclose(model.log_likelihood(THETA[0, :4], site="y"), LINEAR.log_likelihood(THETA[0, :4], X, Y), rtol=1e-4)


def test_what_does_not_predict_says_so():
    model = from_gradient(lambda theta, indices: theta, size=2, n_data=1)
    with pytest.raises(sg.ArgumentError, match=r"potential=.*does not say what it predicts\. Give run\.predict a func"):
        model.predictive(X)
    with pytest.raises(sg.ArgumentError, match=r"y=None: is missing beside X\. Give both, or neither"):
        SOFTMAX.log_likelihood(THETA[0], X)
