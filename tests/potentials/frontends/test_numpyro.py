"""Potentials from NumPyro models: gradients, names and refusals. Their posteriors are in the file beside this one."""

import pickle
import sys

import jax
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest
from numpyro.infer import init_to_value

import stalegrad as sg
from stalegrad._internal.errors import ArgumentError, MissingExtra
from stalegrad.potentials import Logistic, from_numpyro

jnp = jax.numpy

_rng = np.random.default_rng(8)
X, Y = _rng.normal(size=(20, 3)), _rng.integers(2, size=20)


def logistic(x, y, subsample_size=None):
    weights = numpyro.sample("weights", dist.Normal(0, 1).expand([x.shape[1]]).to_event(1))
    with numpyro.plate("data", len(x), subsample_size=subsample_size) as batch:
        numpyro.sample("y", dist.Bernoulli(logits=x[batch] @ weights), obs=y[batch])


def constrained(x, subsample_size=None):
    scale = numpyro.sample("scale", dist.LogNormal(0.5, 2.0))
    below = numpyro.sample("below", dist.Uniform(0.0, scale))
    share = numpyro.sample("share", dist.Dirichlet(jnp.ones(3)))
    numpyro.deterministic("share of below", share * below)
    numpyro.deterministic("mean of x", x.mean())
    with numpyro.plate("data", len(x), subsample_size=subsample_size):
        batch = numpyro.subsample(x, event_dim=0)
        numpyro.deterministic("inside", batch * scale)
        numpyro.sample("x", dist.Normal(below * share[0], scale), obs=batch)


@pytest.fixture
def double_precision():
    jax.config.update("jax_enable_x64", True)
    yield
    jax.config.update("jax_enable_x64", False)


@pytest.mark.parametrize("scheme", ["subset", "replacement", "reshuffle"])
def test_agrees_with_the_compiled_model(scheme):
    model = from_numpyro(logistic, X, Y, subsample_size=6, scheme=scheme)
    built_in = Logistic(X, Y, batch_size=6, scheme=scheme, dtype=np.float64)
    assert model.minibatches == built_in.minibatches
    assert (model.size, model.dtype, model.layout) == (3, np.float32, {"weights": (3,)})
    theta = np.array([1.0, -1.0, 2.0], np.float32)
    indices = model.minibatches.draw(3, 0, 0, 0)
    gradient = model.gradient(theta, indices)
    assert gradient.dtype == np.float32
    assert gradient.flags.writeable
    np.testing.assert_allclose(gradient, built_in.gradient(theta, indices), rtol=2e-5)
    np.testing.assert_allclose(model.full_gradient(theta), built_in.full_gradient(theta), rtol=2e-5)


def test_without_a_subsampled_plate_every_gradient_is_exact():
    built_in = Logistic(X, Y, dtype=np.float64)
    for size in (None, len(X)):
        model = from_numpyro(logistic, X, Y, subsample_size=size)
        assert (model.n_data, model.batch_size) == (1, 1)
        theta = np.array([1.0, -1.0, 2.0], np.float32)
        drawn = model.gradient(theta, model.minibatches.draw(0, 0, 0, 5))
        assert drawn.tobytes() == model.full_gradient(theta).tobytes()
        np.testing.assert_allclose(drawn, built_in.full_gradient(theta), rtol=2e-5)


def test_the_potential_is_that_of_the_unconstrained_parameters(double_precision):
    """Against the density written out: log-normal, uniform below it and Dirichlet, with their Jacobians."""
    x = X[:, 0]
    model = from_numpyro(constrained, x, subsample_size=4)
    assert (model.dtype, model.size) == (np.float64, 4)
    assert model.layout == {"below": (), "scale": (), "share": (2,)}

    def potential(theta, batch):
        b, s, stick = theta[0], theta[1], theta[2:]
        scale, part = jnp.exp(s), jax.nn.sigmoid(b)
        first = jax.nn.sigmoid(stick[0] - jnp.log(2.0))
        second = jax.nn.sigmoid(stick[1])
        prior = dist.Normal(0.5, 2.0).log_prob(s)  # the Jacobian of exp cancels the 1/scale of the density
        prior += jnp.log(part * (1 - part))  # that of 0…scale cancels its own 1/scale
        prior += jnp.log(2.0) + jnp.log(first * (1 - first)) + jnp.log(1 - first) + jnp.log(second * (1 - second))
        return -prior - len(x) / len(batch) * dist.Normal(scale * part * first, scale).log_prob(batch).sum()

    gradient = jax.jit(jax.grad(potential))
    theta, indices = np.array([0.3, -0.2, 0.5, -1.0]), np.array([3, 1, 7, 11])
    np.testing.assert_allclose(model.gradient(theta, indices), gradient(theta, x[indices]), rtol=1e-10)
    np.testing.assert_allclose(model.full_gradient(theta), gradient(theta, x), rtol=1e-10)


def test_draws_come_back_constrained_and_named():
    model = from_numpyro(constrained, X[:, 0], subsample_size=4)
    draws = np.random.default_rng(1).normal(size=(2, 5, 4))
    named = model.variables(draws)
    assert list(named) == ["scale", "below", "share", "share of below", "mean of x"]
    assert {name: value.shape for name, value in named.items()} == {
        "scale": (2, 5), "below": (2, 5), "share": (2, 5, 3), "share of below": (2, 5, 3), "mean of x": (2, 5),
    }  # fmt: skip
    np.testing.assert_allclose(named["scale"], np.exp(draws[..., 1]), rtol=1e-5)
    np.testing.assert_allclose(named["below"], named["scale"] / (1 + np.exp(-draws[..., 0])), rtol=1e-5)
    np.testing.assert_allclose(named["share"].sum(-1), 1, rtol=1e-5)
    np.testing.assert_allclose(named["share of below"], named["share"] * named["below"][..., None], rtol=1e-5)
    np.testing.assert_allclose(named["mean of x"], X[:, 0].mean(), rtol=1e-5)
    np.testing.assert_array_equal(model.variables(draws[1, 2])["share"], named["share"][1, 2])


def test_chains_start_at_the_origin_or_where_the_strategy_says():
    np.testing.assert_allclose(from_numpyro(constrained, X[:, 0]).initial(), 0, atol=1e-6)
    values = {"scale": 3.0, "below": 1.0, "share": np.array([0.2, 0.3, 0.5])}
    model = from_numpyro(constrained, X[:, 0], init_strategy=init_to_value(values=values))
    start = model.variables(model.initial())
    for name, value in values.items():
        np.testing.assert_allclose(start[name], value, rtol=1e-5)


def test_a_model_that_counts_its_groups_itself():
    """Data become constants of the program where the model needs their values, not just their shapes."""

    def grouped(group, y, subsample_size):
        level = numpyro.sample("level", dist.Normal(0, 1).expand([len(np.unique(group))]))
        with numpyro.plate("data", len(y), subsample_size=subsample_size) as batch:
            numpyro.sample("y", dist.Normal(level[group[batch]], 1.0), obs=y[batch])

    group = np.arange(20) % 4
    model = from_numpyro(grouped, group, X[:, 0], subsample_size=5)
    expected = [-X[group == g, 0].sum() for g in range(4)]
    np.testing.assert_allclose(model.full_gradient(np.zeros(4)), expected, rtol=1e-5)


def test_data_are_arguments_of_the_compiled_gradient_and_not_constants():
    model = from_numpyro(logistic, X, Y, subsample_size=6)
    program = jax.make_jaxpr(model._compiled)(model.initial(), np.arange(6), model._data)
    assert sorted(leaf.shape for leaf in jax.tree.leaves(model._data)) == [(20,), (20, 3)]
    assert all(np.size(constant) < 20 for constant in program.consts)


@pytest.mark.parametrize("engine", ["inline", "threads", pytest.param("processes", marks=pytest.mark.long)])
def test_runs_on_every_engine_and_replays(engine):
    seen = []

    def model(x, subsample_size):
        seen.append(1)
        mean = numpyro.sample("mean", dist.Normal(0, 1))
        with numpyro.plate("data", len(x), subsample_size=subsample_size) as batch:
            numpyro.sample("x", dist.Normal(mean, 1.0), obs=x[batch])

    potential = from_numpyro(model, X[:, 0], subsample_size=5)
    followed = len(seen)
    kernel = sg.SGHMC(step_size=0.02, friction=5.0, integrator="splitting")
    run = sg.sample(potential, kernel, steps=60, workers=2, seed=1, engine=engine, progress=False)
    assert len(seen) == followed, "NumPyro's stack is global: threads must find the gradient compiled"
    assert run.events == ()
    again = sg.replay(run.trace, potential, kernel)
    assert again.draws.tobytes() == run.draws.tobytes()
    assert potential.variables(run.draws)["mean"].shape == (1, 60)


def test_survives_pickling():
    model = from_numpyro(logistic, X, Y, subsample_size=6, scheme="replacement")
    copy = pickle.loads(pickle.dumps(model))
    assert copy.minibatches == model.minibatches
    theta, indices = model.initial(), model.minibatches.draw(1, 0, 0, 0)
    assert copy.gradient(theta, indices).tobytes() == model.gradient(theta, indices).tobytes()


def test_a_neural_network_with_priors_in_place_of_its_parameters():
    linen = pytest.importorskip("flax.linen")
    from numpyro.contrib.module import random_flax_module

    def network(x, y, subsample_size):
        net = random_flax_module("net", linen.Dense(1), prior=dist.Normal(0, 1), input_shape=(3,))
        with numpyro.plate("data", len(x), subsample_size=subsample_size) as batch:
            numpyro.sample("y", dist.Normal(net(x[batch])[:, 0], 1.0), obs=y[batch])

    model = from_numpyro(network, X, X[:, 0], subsample_size=5)
    assert model.layout == {"net/bias": (1,), "net/kernel": (3, 1)}
    np.testing.assert_allclose(model.full_gradient(np.zeros(4)), -np.r_[1, 1, 1, 1] * np.r_[
        X[:, 0].sum(), X.T @ X[:, 0]
    ], rtol=1e-5)  # fmt: skip


def _two_plates(x):
    mean = numpyro.sample("mean", dist.Normal(0, 1))
    for name in ("first", "second"):
        with numpyro.plate(name, len(x), subsample_size=4) as batch:
            numpyro.sample(f"{name} x", dist.Normal(mean, 1), obs=x[batch])


def _local(x):
    with numpyro.plate("data", len(x), subsample_size=4) as batch:
        mean = numpyro.sample("mean", dist.Normal(0, 1))
        numpyro.sample("x", dist.Normal(mean, 1), obs=x[batch])


def _discrete(x):
    kind = numpyro.sample("kind", dist.Bernoulli(0.5))
    numpyro.sample("x", dist.Normal(kind, 1), obs=x)


def _point(x):
    numpyro.sample("x", dist.Normal(numpyro.sample("mean", dist.Delta(1.0)), 1), obs=x)


def _infinite(x):
    mean = numpyro.sample("mean", dist.Normal(0, 1))
    numpyro.factor("far", jnp.sqrt(mean))


@pytest.mark.parametrize(("model", "message"), [
    (_two_plates, "model=.*has 2 subsampled plates: 'first', 'second'. Subsample one plate"),
    (_local, "model='mean': is a latent site inside the subsampled plate 'data': .*Integrate it out, or give"),
    (_discrete, "model='kind': is a discrete latent site. Sum it out"),
    (_point, "model='mean': is a point mass. Use numpyro.deterministic"),
    (_infinite, "init_strategy=None: starts where the gradient is not finite. Give another, such as"),
    (lambda x: numpyro.sample("x", dist.Normal(0, 1), obs=x), "has nothing to sample. Give a model with latent sites"),
    (3, "model=3: cannot be called. Give a function"),
])  # fmt: skip
def test_refusals(model, message):
    with pytest.raises(ArgumentError, match=f"(?s){message}"):
        from_numpyro(model, X[:, 0])


@pytest.mark.parametrize(("options", "message"), [
    ({"scheme": "x"}, "scheme='x': is not known"),
    ({"dtype": np.float64}, r"dtype=.*double precision, which JAX has switched off\. Call jax\.config\.update"),
])  # fmt: skip
def test_refused_options(options, message):
    with pytest.raises(ArgumentError, match=message):
        from_numpyro(logistic, X, Y, subsample_size=6, **options)


def test_local_latent_sites_are_fine_on_all_data():
    def model(x):
        with numpyro.plate("data", len(x)):
            mean = numpyro.sample("mean", dist.Normal(0, 1))
            numpyro.sample("x", dist.Normal(mean, 1), obs=x)

    potential = from_numpyro(model, X[:, 0])
    np.testing.assert_allclose(potential.full_gradient(np.zeros(20)), -X[:, 0], rtol=1e-5)
    assert potential.variables(np.zeros((3, 20)))["mean"].shape == (3, 20)


def test_without_numpyro_the_extra_is_named(monkeypatch):
    monkeypatch.delitem(sys.modules, "stalegrad.potentials.frontends.numpyro", raising=False)
    monkeypatch.setitem(sys.modules, "numpyro", None)
    with pytest.raises(
        MissingExtra, match=r"from_numpyro needs an optional dependency: pip install 'stalegrad\[numpyro"
    ):
        from_numpyro(logistic, X, Y)
