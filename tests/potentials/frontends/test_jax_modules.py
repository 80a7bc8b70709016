"""Modules of Flax NNX and Equinox and plain pytrees at one level: what is sampled, priors by path, predictions."""

import pickle

import cloudpickle
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


# ------------------------------------------------------------------------------------------------- frozen bodies


def _model(kind="plain", sample="head.*", likelihood=log_likelihood, **options):
    return from_jax(1.0, likelihood, DATA, MODULES[kind](), sample=sample, predict=probabilities, **options)


@pytest.mark.parametrize("kind", MODULES)
def test_features_of_a_frozen_body_change_nothing(kind):
    model, known = _model(kind, batch_size=6), _model(kind, batch_size=6, cache=False)
    assert model.frozen == "computed once: features (4,) of each of 20 data, 0.0 MB"
    assert known.frozen == "computed for every gradient: cache=False"
    theta, indices = model.initial() + np.float32(0.1), model.minibatches.draw(0, 0, 0, 0)
    others = {"x": DATA["x"][:7], "y": DATA["y"][:7]}
    for ask in (
        lambda m: m.gradient(theta, indices), lambda m: m.full_gradient(theta), lambda m: m.log_likelihood(theta),
        lambda m: m.log_likelihood(theta, others), lambda m: m.predictive(DATA["x"][:7])(theta),
        lambda m: m.predictive(DATA["x"][:7])(np.stack([theta, theta + 1])),
    ):  # fmt: skip
        assert_allclose(ask(model), ask(known), rtol=2e-5, atol=1e-6)
    again = pickle.loads(cloudpickle.dumps(model))  # as workers get it
    assert again.gradient(theta, indices).tobytes() == model.gradient(theta, indices).tobytes()
    assert again.frozen == model.frozen
    assert_allclose(again.predictive(DATA["x"])(theta), known.predictive(DATA["x"])(theta), rtol=1e-5)


def test_the_body_is_not_computed_again_and_its_inputs_are_not_kept():
    model = _model()
    gradient = jax.make_jaxpr(model.traced.gradient)(model.initial(), np.arange(5), model.traced.data)
    assert "tanh" not in str(gradient)
    assert "tanh" in str(jax.make_jaxpr(_model(cache=False).traced.gradient)(
        model.initial(), np.arange(5), _model(cache=False).traced.data
    ))  # fmt: skip
    assert {leaf.shape for leaf in jax.tree.leaves(model.traced.data[0])} == {(20,), (20, 4)}  # classes, features


def test_connections_past_what_is_sampled_are_features_too():
    def likelihood(params, datum):
        hidden = jnp.tanh(params["hidden"]["weight"] @ datum["x"])
        said = params["head"]["weight"] @ hidden + params["head"]["bias"] + hidden.sum()
        return jax.nn.log_softmax(said * (1 + datum["x"][0] ** 2))[datum["y"]]

    model, known = (_model(likelihood=jax.jit(likelihood), cache=cache) for cache in (None, False))
    assert "features (4,), () of each" in model.frozen
    theta = model.initial() + np.float32(0.1)
    assert_allclose(model.full_gradient(theta), known.full_gradient(theta), rtol=2e-5, atol=1e-6)


def _printing(params, datum):
    jax.debug.print("{}", datum["y"])
    return log_likelihood(params, datum)


@pytest.mark.parametrize(("options", "reason"), [
    ({"sample": ["head.*", "hidden.*"], "kind": "equinox"}, "nothing is frozen"),
    ({"sample": "hidden.*"}, "what is frozen comes after what is sampled, or is not applied to the data"),
    ({"likelihood": _printing}, "log_likelihood prints or calls back"),
])  # fmt: skip
def test_features_are_kept_only_where_that_is_right(options, reason):
    assert _model(**options).frozen == f"computed for every gradient: {reason}"
    with pytest.raises(sg.ArgumentError, match=f"cache=True: cannot be done: {reason}. Sample what comes last alone"):
        _model(**options, cache=True)


def test_features_that_would_take_too_much_are_kept_if_asked_for(monkeypatch):
    monkeypatch.setattr("stalegrad.potentials.frontends.jax._MOST_FEATURES", 100)
    assert "features would take 0.0 GB; cache=True keeps them all the same" in _model().frozen
    assert _model(cache=True).frozen.startswith("computed once")


@pytest.mark.parametrize("engine", ["threads", pytest.param("processes", marks=pytest.mark.long)])
def test_a_run_of_a_head_replays(engine):
    model = _model("equinox", batch_size=5)
    run = sg.sample(
        model,
        sg.SGHMC(step_size=0.01, friction=5.0),
        steps=40,
        workers=2,
        engine=engine,
        warmup=None,
        progress=False,
    )
    assert sg.replay(run.trace, model).draws.tobytes() == run.draws.tobytes()


# --------------------------------------------------------------------------------------------------- predictions


@pytest.mark.parametrize("kind", MODULES)
def test_predictions_are_averaged_while_sampling(kind):
    model = _model(kind, batch_size=5)
    options = {"steps": 30, "thin": 5, "engine": "inline", "warmup": None, "progress": False}
    averages = {"test": (model.predictive(DATA["x"]), DATA["y"])}
    run = sg.sample(model, sg.SGLD(step_size=1e-2), keep="none", averages=averages, **options)
    kept = sg.sample(model, sg.SGLD(step_size=1e-2), **options)
    expected = kept.predict(model.predictive(DATA["x"]))
    assert_allclose(run.averages["test"].probabilities, expected.probabilities, rtol=1e-6)
    assert run.averages["test"].scores(DATA["y"]).nll == pytest.approx(expected.scores(DATA["y"]).nll)


@pytest.mark.parametrize(("options", "network"), [
    ({"kind": "equinox", "sample": None}, True),
    ({"kind": "nnx", "sample": None}, True),
    ({"sample": ["hidden.*", "head.*"]}, True),
    ({}, False),  # a softmax regression on features: its weights can be judged themselves
    ({"network": True}, True),
    ({"kind": "equinox", "sample": None, "network": False}, False),
    ({"kind": "equinox", "sample": None, "inputs": lambda datum: datum["x"] + 1}, True),
])  # fmt: skip
def test_networks_are_judged_by_what_they_predict(options, network):
    model = _model(**options)
    assert model.is_network is network
    if not network:
        assert model.predictions(5) is None
        return
    theta, rows = model.initial(), DATA["x"][[0, 4, 9, 14, 19]] + (1 if "inputs" in options else 0)
    for each in (model, pickle.loads(cloudpickle.dumps(model))):
        assert_allclose(each.predictions(5)(theta), model.predictive(rows)(theta), rtol=1e-6)


def test_a_network_in_jax_is_diagnosed_by_its_predictions():
    model = _model("equinox", None)
    run = sg.sample(model, sg.SGLD(step_size=1e-3), steps=60, engine="inline", warmup=None, progress=False)
    assert "prediction" in str(run.diagnose(model))
    assert run.trace.record.model.is_network


def test_means_are_what_is_judged_of_pairs():
    model = from_jax(
        1.0, lambda p, d: -0.5 * (d[1] - p["b"] @ (p["w"] @ d[0])) ** 2, (DATA["x"], DATA["x"][:, 0]),
        {"w": _weights(0, (3, 2)), "b": _weights(1, (3,))}, predict=lambda p, x: (p["b"] @ (p["w"] @ x), 1.0),
    )  # fmt: skip
    assert model.is_network
    assert model.predictions(32)(model.initial()).shape == (20,)


@pytest.mark.parametrize(("options", "message"), [
    ({"network": True, "predict": None}, "network=True: is judged by what it predicts, and predict is missing"),
    ({"network": True, "data": list(DATA.values()) * 2}, "inputs is missing. Give predict=, and inputs= unless"),
    ({"inputs": "x"}, "inputs='x': cannot be called. Give a function from one datum to its x"),
])  # fmt: skip
def test_refusals_of_networks(options, message):
    likelihood = (lambda p, d: logits(p, d[0])[0]) if "data" in options else log_likelihood
    arguments = {"predict": probabilities, "data": DATA, "sample": "h*"} | options
    data = arguments.pop("data")
    with pytest.raises(sg.ArgumentError, match=message):
        from_jax(1.0, likelihood, data, plain(), **arguments)
