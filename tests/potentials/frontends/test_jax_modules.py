"""Modules of Flax NNX and Equinox and plain pytrees at one level: what is sampled, priors by path, predictions."""

import pickle

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from numpy.testing import assert_allclose

import stalegrad as sg
from stalegrad.potentials import from_jax
from stalegrad.potentials.priors import Centred, FlatPrior, Laplace, Normal, SharedScale, StudentT

eqx = pytest.importorskip("equinox")  # both belong to the examples, which ask for a newer JAX than we do
nnx = pytest.importorskip("flax.nnx")

_rng = np.random.default_rng(8)
DATA = {"x": _rng.normal(size=(20, 2)).astype(np.float32), "y": _rng.integers(3, size=20)}


class Network(nnx.Module):
    def __init__(self):
        rngs = nnx.Rngs(0)
        self.hidden, self.head = nnx.Linear(2, 4, rngs=rngs), nnx.Linear(4, 3, rngs=rngs)

    def __call__(self, x):
        return self.head(jnp.tanh(self.hidden(x)))


class Module(eqx.Module):
    hidden: eqx.nn.Linear
    head: eqx.nn.Linear
    activation: object = jnp.tanh

    def __call__(self, x):
        return self.head(self.activation(self.hidden(x)))


def equinox_module():
    return Module(eqx.nn.Linear(2, 4, key=jax.random.key(0)), eqx.nn.Linear(4, 3, key=jax.random.key(1)))


def plain():
    return {
        "hidden": {"weight": _weights(0, (4, 2)), "bias": jnp.zeros(4)},
        "head": {"weight": _weights(1, (3, 4)), "bias": jnp.zeros(3)},
        "steps": jnp.arange(3),  # no parameter: to be left out by name
    }


def _weights(seed, shape):
    return jax.random.normal(jax.random.key(seed), shape)


def logits(params, x):
    if not isinstance(params, dict):
        return params(x)
    hidden = jnp.tanh(params["hidden"]["weight"] @ x + params["hidden"]["bias"])
    return params["head"]["weight"] @ hidden + params["head"]["bias"]


def log_likelihood(params, datum):
    return jax.nn.log_softmax(logits(params, datum["x"]))[datum["y"]]


def probabilities(params, x):
    return jax.nn.softmax(logits(params, x))


MODULES = {"nnx": Network, "equinox": equinox_module, "plain": plain}


@pytest.mark.parametrize("kind", MODULES)
def test_a_part_of_a_module_is_sampled_by_path(kind):
    params = MODULES[kind]()
    model = from_jax({"*bias*": 2.0, "*": 1.0}, log_likelihood, DATA, params, sample="head.*", predict=probabilities)
    assert len(model.layout) == 2
    assert all(name.startswith("head.") for name in model.layout)
    assert model.size == 15
    theta = model.initial() + np.float32(0.1)
    whole = model.unravel(theta)
    assert_allclose(
        model.predictive(DATA["x"])(theta), jax.vmap(lambda x: probabilities(whole, x))(DATA["x"]), atol=1e-6
    )
    log_p = np.log(model.predictive(DATA["x"])(theta)[np.arange(20), DATA["y"]])
    assert_allclose(model.log_likelihood(theta), log_p, atol=1e-5)
    gradient, h = model.full_gradient(theta), 1e-2
    directions = np.random.default_rng(0).normal(size=(3, 15)).astype(np.float32)

    def potential(point):
        return -model.log_likelihood(point).sum() - model.prior.log_density(point)

    slopes = [(potential(theta + h * d) - potential(theta - h * d)) / (2 * h) for d in directions]
    assert_allclose(directions @ gradient, slopes, rtol=2e-3, atol=2e-3)


def test_a_module_goes_in_whole_with_its_functions():
    model = from_jax(1.0, log_likelihood, DATA, equinox_module(), predict=probabilities)
    assert list(model.layout) == ["hidden.weight", "hidden.bias", "head.weight", "head.bias"]
    assert isinstance(model.unravel(model.initial()), Module)
    run = sg.sample(model, sg.SGLD(step_size=1e-3), steps=10, workers=2, engine="inline", progress=False)
    assert run.predict(model.predictive(DATA["x"])).probabilities.shape == (20, 3)


def test_survives_pickling_with_what_is_frozen():
    model = from_jax(Centred(0.5), log_likelihood, DATA, plain(), sample=["head.*"], batch_size=5)
    again = pickle.loads(pickle.dumps(model))
    theta, indices = model.initial() + 1, np.arange(5)
    assert again.gradient(theta, indices).tobytes() == model.gradient(theta, indices).tobytes()
    assert not model.prior.gradient(model.initial()).any()


@pytest.mark.parametrize(
    "prior", [Normal(0.7), Laplace(0.7), StudentT(3.0, 0.7), SharedScale(3.0, 0.7), Centred(Laplace(0.7), at=0.3)]
)
def test_priors_are_those_of_the_compiled_pass(prior):
    params = {"b": jnp.zeros(3), "w": jnp.zeros((2, 2))}
    model = from_jax({"b": 1.0, "w": prior}, lambda p, d: 0.0 * p["b"][0], jnp.zeros(2), params)
    theta = np.random.default_rng(1).normal(size=7).astype(np.float32)
    expected = FlatPrior({"b": 1.0, "w": prior}, model.layout, np.float32).gradient(theta)
    assert_allclose(model.full_gradient(theta), expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(("options", "message"), [
    ({"sample": "conv.*"}, r"sample='conv\.\*': has 'conv\.\*', which fits no parameter\. Give names.*head\.bias"),
    ({}, r"params\['steps'\]=.*is of type int32\. Give floating-point parameters, or name those to sample: sample="),
    ({"sample": "steps"}, r"params\['steps'\]=.*is of type int32"),
    ({"sample": "head.*", "log_prior": {"hidden*": 1.0}}, "prior=.*says nothing about the parameter 'head.bias'"),
])  # fmt: skip
def test_refusals(options, message):
    prior = options.pop("log_prior", 1.0)
    with pytest.raises(sg.ArgumentError, match=message):
        from_jax(prior, log_likelihood, DATA, plain(), **options)
