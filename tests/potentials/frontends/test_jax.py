"""Potentials from JAX models."""

import pickle
import sys

import jax
import numpy as np
import pytest

from stalegrad._internal.errors import ArgumentError, MissingExtra
from stalegrad.potentials import Logistic, from_jax

jnp = jax.numpy

_rng = np.random.default_rng(8)
X, Y = _rng.normal(size=(20, 3)), _rng.integers(2, size=20)
DATA = {"x": X, "label": Y}
PARAMS = {"weights": jnp.array([0.1, -0.2, 0.3]), "more": [jnp.array(0.4)]}


def log_prior(params):
    return sum(-0.5 * jnp.sum(leaf**2) for leaf in jax.tree.leaves(params))


def log_likelihood(params, datum):
    margin = datum["x"] @ params["weights"] + params["more"][0]
    return -jnp.logaddexp(0.0, jnp.where(datum["label"] == 1, -margin, margin))


def _model(**options):
    return from_jax(log_prior, log_likelihood, DATA, PARAMS, **options)


@pytest.fixture
def double_precision():
    jax.config.update("jax_enable_x64", True)
    yield
    jax.config.update("jax_enable_x64", False)


def _flat(gradient):
    """From the built-in model's order, weights then intercept, to that of the pytree, by key: more, weights."""
    return np.r_[gradient[-1:], gradient[:-1]]


def test_agrees_with_the_compiled_model():
    model = _model(batch_size=6, scheme="reshuffle")
    built_in = Logistic(X, Y, batch_size=6, scheme="reshuffle", intercept=True, dtype=np.float64)
    assert model.minibatches == built_in.minibatches
    assert (model.size, model.dtype) == (4, np.float32)
    theta = np.array([0.5, 1.0, -1.0, 2.0], np.float32)
    indices = model.minibatches.draw(3, 0, 0, 0)
    expected = _flat(built_in.gradient(np.r_[theta[1:], theta[:1]], indices))
    gradient = model.gradient(theta, indices)
    assert gradient.dtype == np.float32
    assert gradient.flags.writeable
    np.testing.assert_allclose(gradient, expected, rtol=2e-5)
    np.testing.assert_allclose(
        model.full_gradient(theta), _flat(built_in.full_gradient(np.r_[theta[1:], theta[:1]])), rtol=2e-5
    )


def test_double_precision(double_precision):
    params = jax.tree.map(lambda leaf: np.asarray(leaf, np.float64), PARAMS)
    model = from_jax(log_prior, log_likelihood, DATA, params)
    assert model.dtype == np.float64
    built_in = Logistic(X, Y, intercept=True, dtype=np.float64)
    theta = np.array([0.5, 1.0, -1.0, 2.0])
    np.testing.assert_allclose(
        model.full_gradient(theta), _flat(built_in.full_gradient(np.r_[theta[1:], theta[:1]])), rtol=1e-12
    )
    assert from_jax(log_prior, log_likelihood, DATA, params, dtype=np.float32).full_gradient(theta).dtype == np.float32


def test_rows_of_gradients_have_the_bits_of_single_gradients():
    model = _model(batch_size=5)
    theta = np.random.default_rng(2).normal(size=(4, 4)).astype(np.float32)
    indices = model.minibatches.draw_many(1, 0, [0], [0], repeats=4)[0]
    out = np.empty_like(theta)
    model.gradients(theta, indices, out)
    assert out.tobytes() == np.stack([model.gradient(t, i) for t, i in zip(theta, indices, strict=True)]).tobytes()


def test_start_and_unravel():
    model = _model()
    np.testing.assert_allclose(model.initial(), [0.4, 0.1, -0.2, 0.3])
    params = model.unravel(model.initial())
    assert jax.tree.structure(params) == jax.tree.structure(PARAMS)
    for one, other in zip(jax.tree.leaves(params), jax.tree.leaves(PARAMS), strict=True):
        assert one.dtype == other.dtype
        np.testing.assert_array_equal(one, other)
    model.initial()[:] = 0
    assert model.initial().any()


def test_leaves_keep_their_types_and_shapes():
    seen = []

    def flat_prior(params):
        seen.extend((leaf.shape, leaf.dtype.name) for leaf in params)
        return 0.0

    params = (jnp.zeros((2, 3)), jnp.ones((), jnp.bfloat16), jnp.zeros((0,)))
    model = from_jax(flat_prior, lambda p, d: d * p[0].sum() * p[1], np.arange(4.0), params)
    assert set(seen) == {((2, 3), "float32"), ((), "bfloat16"), ((0,), "float32")}
    assert model.full_gradient(model.initial()).tolist() == [-6.0] * 6 + [0.0]


def test_python_numbers_are_leaves_too():
    model = from_jax(lambda p: -0.5 * p**2, lambda p, d: -0.5 * (d - p) ** 2, np.array([1.0, 2.0]), 0.5)
    assert model.n_data == 2
    assert model.initial().tolist() == [0.5]
    assert model.full_gradient(model.initial()).tolist() == [-1.5]


def test_survives_pickling():
    model = _model(batch_size=6, scheme="replacement")
    copy = pickle.loads(pickle.dumps(model))
    assert copy.minibatches == model.minibatches
    theta, indices = model.initial(), model.minibatches.draw(1, 0, 0, 0)
    assert copy.gradient(theta, indices).tobytes() == model.gradient(theta, indices).tobytes()


@pytest.mark.parametrize(("changes", "message"), [
    ({"data": {"x": X, "label": Y[:5]}}, r"data=.*different lengths \(data\['label'\]: 5, data\['x'\]: 20\)\. Give"),
    ({"data": {"x": X, "label": 1.0}}, r"data\['label'\]=1\.0: has no axis of data\. Give arrays whose first axis"),
    ({"data": {}}, "data={}: holds no arrays. Give a pytree with at least one array"),
    ({"data": {"x": X[:0], "label": Y[:0]}}, "data=.*holds no data. Give at least one datum"),
    ({"params": {}}, "params={}: holds no parameters. Give a pytree with at least one number"),
    ({"params": {"weights": jnp.zeros(0)}}, "params=.*holds no parameters"),
    ({"params": {"weights": jnp.zeros(3), "more": [1]}}, r"params\['more'\]\[0\]=1: is of type int32\. Give floating"),
    ({"params": {"weights": [np.nan] * 3, "more": [1.0]}}, r"params\['weights'\]\[0\]=.*holds 1 NaN"),
    ({"log_prior": lambda p: p["weights"]}, r"log_prior=.*returns .*\(shape=\(3,\).*not a scalar\. .*the sum over its"),
    ({"log_prior": "normal"}, "prior='normal'.*Give a scale > 0, sg.priors.Normal"),
    ({"log_likelihood": lambda p, d: d["x"]}, r"log_likelihood=.*shape=\(3,\).*not a scalar\. .*called with one datum"),
    ({"log_likelihood": lambda p, d: d["label"]}, "log_likelihood=.*int32.*not a scalar. Return one real number"),
    ({"log_likelihood": lambda p, d: (0.0, 1.0)}, "log_likelihood=.*not a scalar"),
    ({"batch_size": 21}, "batch_size=21: is more than the 20 data there are"),
    ({"scheme": "x"}, "scheme='x': is not known"),
    ({"dtype": np.float64}, r"dtype=.*double precision, which JAX has switched off\. Call jax\.config\.update"),
    ({"dtype": np.int32}, "dtype=.*is not a supported floating type"),
])  # fmt: skip
def test_refusals(changes, message):
    arguments = {"log_prior": log_prior, "log_likelihood": log_likelihood, "data": DATA, "params": PARAMS} | changes
    with pytest.raises(ArgumentError, match=f"(?s){message}"):
        from_jax(**arguments)


@pytest.mark.parametrize(("theta", "indices", "message"), [
    (np.zeros(3), np.array([0]), r"theta=.*has shape \(3,\)\. Give a vector of 4 entries"),
    (np.zeros(4), np.array([20]), r"indices=.*outside the data\. Give a vector of indices from 0 to 19"),
    (np.zeros(4), np.array([-1]), "indices=.*outside the data"),
    (np.zeros(4), np.array([], int), "indices=.*is empty or reaches outside"),
])  # fmt: skip
def test_gradient_refuses(theta, indices, message):
    with pytest.raises(ArgumentError, match=f"(?s){message}"):
        _model().gradient(theta, indices)


def test_unravel_refuses_other_sizes():
    with pytest.raises(ArgumentError, match=r"theta=.*has shape \(3,\)\. Give a vector of 4 entries"):
        _model().unravel(np.zeros(3))


def test_without_jax_the_extra_is_named(monkeypatch):
    monkeypatch.delitem(sys.modules, "stalegrad.potentials.frontends.jax", raising=False)
    monkeypatch.setitem(sys.modules, "jax", None)
    with pytest.raises(MissingExtra, match=r"from_jax needs an optional dependency: pip install 'stalegrad\[jax\]'"):
        _model()


def test_layout_names_the_leaves():
    params = {"a": {"w": jnp.zeros((2, 3))}, "b": [jnp.zeros(2)]}
    model = from_jax(
        lambda p: -0.5 * jnp.sum(p["a"]["w"] ** 2) - jnp.sum(p["b"][0] ** 2),
        lambda p, d: -0.5 * (d - p["a"]["w"].sum()) ** 2,
        jnp.arange(3.0),
        params,
    )
    assert model.layout == {"a.w": (2, 3), "b.0": (2,)}
    draws = np.arange(16.0).reshape(2, 8)
    named = model.variables(draws)
    np.testing.assert_array_equal(named["a.w"], draws[:, :6].reshape(2, 2, 3))
    np.testing.assert_array_equal(named["b.0"], draws[:, 6:])
    np.testing.assert_array_equal(named["a.w"][1], model.unravel(draws[1])["a"]["w"])


def test_one_theta_has_names_too():
    named = _model().variables(np.array([4.0, 1.0, 2.0, 3.0]))
    assert {name: value.tolist() for name, value in named.items()} == {"more.0": 4.0, "weights": [1.0, 2.0, 3.0]}
