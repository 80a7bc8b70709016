"""Every malformed argument of the built-in models is refused by name, with what was given and what to do."""

import types

import numpy as np
import pytest
import scipy.sparse

from stalegrad._internal.errors import ArgumentError
from stalegrad.potentials import GaussianMean, Linear, Logistic, Softmax

X = np.arange(12.0).reshape(6, 2)
Y = np.array([0, 1, 0, 1, 1, 0])
HOLED = np.where(X == 3, np.nan, X)
REGRESSIONS = pytest.mark.parametrize("model", [Linear, Logistic, Softmax])


def _csr(**changes):
    """A hand-made compressed sparse row matrix, to break."""
    parts = {"shape": (2, 3), "indptr": [0, 1, 2], "indices": [0, 2], "data": [1.0, 2.0]} | changes
    fake = types.SimpleNamespace(**parts)
    fake.tocsr = lambda: fake
    return fake


@REGRESSIONS
@pytest.mark.parametrize(("arguments", "options", "message"), [
    ((X[0], Y), {}, r"X=.*has shape \(2,\), that is 1 dimensions\. Give an array of 2 dimensions"),
    ((X[:0], Y[:0]), {}, r"X=.*has shape \(0, 2\), which is empty\. Give at least one row and one column"),
    ((X[:, :0], Y), {}, r"X=.*has shape \(6, 0\), which is empty"),
    ((HOLED, Y), {}, r"X=.*holds 1 NaN or infinite value\. Clean the data"),
    ((scipy.sparse.csr_array(HOLED), Y), {}, r"X\.data=.*holds 1 NaN or infinite value"),
    ((X.astype(complex), Y), {}, "X=.*is not a numeric array"),
    (([["a"]], Y), {}, r"X=\[\['a'\]\]: is not a numeric array"),
    ((scipy.sparse.csr_array((0, 3)), Y[:0]), {}, r"X=.*has shape \(0, 3\), which is empty"),
    ((_csr(shape=(2,)), Y[:2]), {}, r"X=.*has shape \(2,\)\. Give an array of 2 dimensions"),
    ((_csr(indptr=[0, 2]), Y[:2]), {}, "X=.*has row pointers that do not fit its entries. Rebuild the sparse matrix"),
    ((_csr(indptr=[0, 2, 1]), Y[:2]), {}, "X=.*row pointers"),
    ((_csr(indptr=[0, 1, 3]), Y[:2]), {}, "X=.*row pointers"),
    ((_csr(indices=[0, 3]), Y[:2]), {}, "X=.*has column indices outside 0…2. Rebuild the sparse matrix"),
    ((_csr(indices=[-1, 0]), Y[:2]), {}, "X=.*column indices"),
    ((X, Y[:5]), {}, r"y=.*has 5 entries, but X has 6 rows\. Give one entry for each row of X"),
    ((X, Y[:, None]), {}, r"y=.*has shape \(6, 1\), that is 2 dimensions\. Give an array of 1 dimension"),
    ((X, np.where(Y, np.inf, 0)), {}, r"y=.*holds 3 NaN or infinite values"),
    ((X, list("abcdef")), {}, r"y=\['a', .*is not a numeric array"),
    ((X, Y), {"prior_scale": 0}, r"prior_scale=0: is out of range\. Give a finite number > 0"),
    ((X, Y), {"prior_scale": -1.0}, r"prior_scale=-1\.0: is out of range"),
    ((X, Y), {"prior_scale": np.nan}, "prior_scale=nan: is out of range"),
    ((X, Y), {"prior_scale": "1"}, "prior_scale='1': is a str, not a number"),
    ((X, Y), {"batch_size": 7}, r"batch_size=7: is more than the 6 data there are\. Give a whole number from 1 to 6"),
    ((X, Y), {"batch_size": 0}, "batch_size=0: is out of range"),
    ((X, Y), {"batch_size": 2.5}, r"batch_size=2\.5: is not a whole number"),
    ((X, Y), {"scheme": "epochs"}, "scheme='epochs': is not known. Give one of: 'subset', 'replacement', 'reshuffle'"),
    ((X, Y), {"dtype": np.float16}, "dtype=.*is not a supported floating type. Give np.float32 or np.float64"),
    ((X, Y), {"dtype": "int32"}, "dtype='int32': is not a supported floating type"),
])  # fmt: skip
def test_regressions_refuse(model, arguments, options, message):
    with pytest.raises(ArgumentError, match=f"(?s){message}"):
        model(*arguments, **options)


@pytest.mark.parametrize(("make", "message"), [
    (lambda: Linear(X, Y, noise_scale=0), r"noise_scale=0: is out of range\. Give a finite number > 0"),
    (lambda: Logistic(X, Y + 1), r"y=.*\(found 1, 2\)\. Give labels in \{0, 1\} or \{-1, 1\}"),
    (lambda: Logistic(X, Y * 0.5), r"y=.*holds labels other than two \(found 0, 0\.5\)"),
    (lambda: Logistic(X, [-1, 0, 1, 1, 1, 1]), r"y=.*\(found -1, 0, 1\)"),
    (lambda: Softmax(X, Y - 1), r"y=.*holds values that are not classes\. Give whole numbers 0, 1, … for the classes"),
    (lambda: Softmax(X, Y * 0.5), "y=.*holds values that are not classes"),
    (lambda: Softmax(X, Y * 3, n_classes=3), r"y=.*holds class 3, but there are 3 classes\. Give whole .* from 0 to 2"),
    (lambda: Softmax(X, Y, n_classes=1), r"n_classes=1: is out of range\. Give a whole number ≥ 2"),
    (lambda: Softmax(X, 0 * Y), r"n_classes \(from y\)=1: is out of range"),
    (lambda: GaussianMean([]), r"data=\[\]: has shape \(0,\)\. Give an array \(N,\) or \(N, n\), not empty"),
    (lambda: GaussianMean(3.0), r"data=3\.0: has shape \(\)"),
    (lambda: GaussianMean(np.zeros((2, 2, 2))), r"data=.*has shape \(2, 2, 2\)"),
    (lambda: GaussianMean([1.0, np.nan]), r"data=.*holds 1 NaN or infinite value\."),
    (lambda: GaussianMean(["a"]), "data=.*is not a numeric array"),
    (lambda: GaussianMean([1.0], noise_scale=-2), "noise_scale=-2: is out of range"),
    (lambda: GaussianMean([1.0], prior_scale=0), "prior_scale=0: is out of range"),
    (lambda: GaussianMean([1.0], prior_mean=[1.0, 2.0]), r"prior_mean=.*has shape \(2,\)\. Give one number or 1"),
    (lambda: GaussianMean([1.0], prior_mean=np.inf), "prior_mean=inf: holds 1 NaN or infinite value"),
    (lambda: GaussianMean([1.0], batch_size=2), "batch_size=2: is more than the 1 data there are"),
    (lambda: GaussianMean([1.0], scheme="x"), "scheme='x': is not known"),
    (lambda: GaussianMean([1.0], dtype=int), "dtype=.*is not a supported floating type"),
])  # fmt: skip
def test_models_refuse(make, message):
    with pytest.raises(ArgumentError, match=f"(?s){message}"):
        make()


@pytest.fixture(scope="module")
def model():
    return Logistic(X, Y, batch_size=2, dtype=np.float64)


@pytest.mark.parametrize(("theta", "indices", "message"), [
    (np.zeros(3), np.array([0]), r"theta=.*has shape \(3,\)\. Give a vector of 2 entries"),
    (np.zeros((1, 2)), np.array([0]), r"theta=.*has shape \(1, 2\)\. Give a vector of 2 entries"),
    (np.zeros(2), np.array([0, 6]), r"indices=.*reaches outside the data\. Give indices from 0 to 5"),
    (np.zeros(2), np.array([-1]), "indices=.*reaches outside the data"),
    (np.zeros(2), np.array([0.0]), r"indices=.*has shape \(1,\) and type float64\. Give a vector of whole numbers"),
    (np.zeros(2), np.array([[0]]), r"indices=.*has shape \(1, 1\) and type int64"),
    (np.zeros(2), np.array([], int), "indices=.*Give a non-empty row of indices for each row of theta"),
])  # fmt: skip
def test_gradient_refuses(model, theta, indices, message):
    with pytest.raises(ArgumentError, match=f"(?s){message}"):
        model.gradient(theta, indices)


@pytest.mark.parametrize(("shapes", "message"), [
    (((2, 3), (2, 1), (2, 3)), r"theta=.*has shape \(2, 3\), but the model has 2 parameters\. Give 2 entries"),
    (((2, 2), (2, 1), (1, 2)), r"out=.*has shape \(1, 2\), but theta has shape \(2, 2\)"),
    (((2, 2), (1, 1), (2, 2)), r"indices=.*has shape \(1, 1\), but theta has shape \(2, 2\)"),
    (((2, 2), (2, 0), (2, 2)), r"indices=.*has shape \(2, 0\)"),
])  # fmt: skip
def test_gradients_refuse(model, shapes, message):
    theta, indices, out = np.zeros(shapes[0]), np.zeros(shapes[1], np.int64), np.zeros(shapes[2])
    with pytest.raises(ArgumentError, match=f"(?s){message}"):
        model.gradients(theta, indices, out)


@pytest.mark.parametrize("call", [
    lambda model: model.predict(np.zeros(2), X[:, :1]),
    lambda model: model.log_likelihood(np.zeros(2), X[:, :1], Y),
    lambda model: model.predictive(X[:, :1]),
    lambda model: Softmax(X, Y).predictive(X[:, :1]),
    lambda model: Linear(X, Y).predictive(X[:, :1]),
])  # fmt: skip
def test_predictions_refuse_other_columns(model, call):
    with pytest.raises(
        ArgumentError, match=r"(?s)X=.*has 1 columns, but the model was made with 2\. Give the same columns"
    ):
        call(model)


def test_predictions_and_potentials_refuse_other_sizes(model):
    for call in (model.potential, lambda theta: model.predict(theta, X), lambda t: model.log_likelihood(t, X, Y)):
        with pytest.raises(ArgumentError, match=r"theta=.*has shape \(3,\)\. Give a vector of 2 entries"):
            call(np.zeros(3))
    with pytest.raises(ArgumentError, match=r"y=.*has 6 entries, but X has 2 rows"):
        model.log_likelihood(np.zeros(2), X[:2], Y)
    softmax = Softmax(X, Y)
    with pytest.raises(ArgumentError, match=r"y=.*holds class 2, but there are 2 classes"):
        softmax.log_likelihood(np.zeros(4), X, 2 * Y)
