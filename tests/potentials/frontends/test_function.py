"""Potentials from a user's function."""

import pickle

import numpy as np
import pytest

from stalegrad._internal.errors import ArgumentError, GradientError
from stalegrad.potentials import GaussianMean, from_gradient

DATA = np.random.default_rng(1).normal(size=(8, 2))


def gradient(theta, indices):
    return theta + len(DATA) / len(indices) * (theta - DATA[indices]).sum(axis=0)


def test_agrees_with_the_compiled_model():
    by_hand = from_gradient(gradient, 2, 8, batch_size=3, scheme="replacement", dtype=np.float64)
    built_in = GaussianMean(DATA, batch_size=3, scheme="replacement", dtype=np.float64)
    assert by_hand.minibatches == built_in.minibatches
    theta = np.array([[0.3, -0.2], [1.0, 2.0]])
    indices = by_hand.minibatches.draw_many(1, 0, [0], [0], repeats=2)[0]
    ours, theirs = np.empty((2, 2)), np.empty((2, 2))
    by_hand.gradients(theta, indices, ours)
    built_in.gradients(theta, indices, theirs)
    np.testing.assert_allclose(ours, theirs, rtol=1e-13)
    assert by_hand.gradient(theta[1], indices[1]).tobytes() == ours[1].tobytes()
    np.testing.assert_allclose(by_hand.full_gradient(theta[0]), built_in.full_gradient(theta[0]), rtol=1e-13)


@pytest.mark.parametrize("returned", [[1, 2], (1.5, 2.5), np.array([1, 2], np.int8), np.array([1.0, 2.0], np.float16)])
def test_any_real_numbers_are_taken(returned):
    result = from_gradient(lambda theta, indices: returned, 2, 5).gradient(np.zeros(2, np.float32), np.arange(2))
    assert result.dtype == np.float32
    np.testing.assert_array_equal(result, np.asarray(returned, np.float32))


def test_numbers_that_are_not_finite_pass():
    result = from_gradient(lambda theta, indices: np.full(2, np.nan), 2, 5).gradient(np.zeros(2), np.arange(2))
    assert np.isnan(result).all()


@pytest.mark.parametrize(("returned", "message"), [
    (np.zeros(3), r"returned shape \(3,\); wanted is an array of shape \(2,\) with real numbers"),
    (np.zeros((1, 2)), r"returned shape \(1, 2\); wanted is an array of shape \(2,\)"),
    (0.5, r"returned shape \(\); wanted"),
    (None, r"returned shape \(\); wanted"),
    (np.zeros(2, complex), r"returned ndarray of dtype complex128; wanted .* real numbers"),
    (["a", "b"], "returned list of dtype <U1; wanted"),
    (np.array([True, False]), "returned ndarray of dtype bool; wanted"),
    ([None, 1], "returned list of dtype object; wanted"),
])  # fmt: skip
def test_anything_else_is_refused(returned, message):
    model = from_gradient(lambda theta, indices: returned, 2, 5)
    with pytest.raises(GradientError, match=f"(?s){message}"):
        model.gradient(np.zeros(2, np.float32), np.arange(2))


def test_start():
    model = from_gradient(gradient, 2, 8, initial=[1, 2])
    start = model.initial()
    assert start.dtype == np.float32
    assert start.tolist() == [1, 2]
    start[:] = 0
    assert model.initial().tolist() == [1, 2]
    assert from_gradient(gradient, 2, 8).initial().tolist() == [0, 0]
    assert from_gradient(gradient, 2, 8).batch_size == 8


def test_survives_pickling():
    model = from_gradient(gradient, 2, 8, batch_size=3, initial=[1.0, 2.0])
    copy = pickle.loads(pickle.dumps(model))
    assert copy.minibatches == model.minibatches
    assert copy.initial().tolist() == [1, 2]


@pytest.mark.parametrize(("arguments", "options", "message"), [
    ((3, 2, 8), {}, "gradient=3: cannot be called. Give a function of"),
    ((gradient, 0, 8), {}, r"size=0: is out of range\. Give a whole number ≥ 1"),
    ((gradient, 2, 0), {}, "n_data=0: is out of range"),
    ((gradient, 2, 8.0), {}, r"n_data=8\.0: is not a whole number"),
    ((gradient, 2, 8, 9), {}, "batch_size=9: is more than the 8 data there are"),
    ((gradient, 2, 8), {"scheme": "x"}, "scheme='x': is not known"),
    ((gradient, 2, 8), {"dtype": int}, "dtype=.*is not a supported floating type"),
    ((gradient, 2, 8), {"initial": [1.0]}, r"initial=\[1\.0\]: has shape \(1,\)\. Give 2 numbers"),
    ((gradient, 2, 8), {"initial": [1.0, np.nan]}, "initial=.*holds 1 NaN or infinite value"),
])  # fmt: skip
def test_refusals(arguments, options, message):
    with pytest.raises(ArgumentError, match=f"(?s){message}"):
        from_gradient(*arguments, **options)
