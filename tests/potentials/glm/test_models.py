"""The built-in models: gradients against finite differences and closed forms, minibatches without bias, equal bits."""

import itertools
import pickle
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import scipy.sparse
from numba import njit
from scipy.stats import norm

from stalegrad.potentials import GaussianMean, Linear, Logistic, Softmax
from stalegrad.potentials.glm.design_matrix import DesignMatrix, accumulate

FALSE_ALARM = 1e-6
N, D, K = 12, 5, 3
_rng = np.random.default_rng(11)
X = _rng.normal(size=(N, D)) * (_rng.random((N, D)) < 0.5)  # one row happens to be long, one short
ONE_HOT = np.eye(D)[_rng.integers(D, size=N)]
SIGNS = _rng.choice([-1, 1], N)
CLASSES = np.arange(N) % K
RESPONSES = _rng.normal(size=N)
CSR = scipy.sparse.csr_array(X)

MODELS = {
    "gaussian": lambda **options: GaussianMean(X, noise_scale=0.7, prior_scale=1.3, prior_mean=0.4, **options),
    "linear": lambda **options: Linear(X, RESPONSES, 0.7, 1.3, intercept=True, **options),
    "linear sparse": lambda **options: Linear(CSR, RESPONSES, 0.7, 1.3, intercept=True, **options),
    "logistic": lambda **options: Logistic(X, SIGNS, 1.3, intercept=True, **options),
    "logistic sparse": lambda **options: Logistic(CSR, SIGNS, 1.3, intercept=True, **options),
    "logistic ones": lambda **options: Logistic(scipy.sparse.csr_array(ONE_HOT), SIGNS, 1.3, **options),
    "softmax": lambda **options: Softmax(X, CLASSES, prior_scale=1.3, intercept=True, **options),
    "softmax sparse": lambda **options: Softmax(CSR, CLASSES, prior_scale=1.3, **options),
}
EVERY_MODEL = pytest.mark.parametrize("name", MODELS)


def _model(name, **options):
    return MODELS[name](**{"dtype": np.float64} | options)


def _somewhere(model, *shape, seed=5):
    return np.random.default_rng(seed).normal(size=(*shape, model.size)).astype(model.dtype)


@EVERY_MODEL
def test_gradient_agrees_with_finite_differences_of_the_potential(name):
    model = _model(name)
    theta, step = _somewhere(model), 1e-5
    steps = step * np.eye(model.size)
    slopes = [(model.potential(theta + s) - model.potential(theta - s)) / (2 * step) for s in steps]
    np.testing.assert_allclose(model.full_gradient(theta), slopes, rtol=1e-7, atol=1e-7)


@EVERY_MODEL
@pytest.mark.parametrize("batch_size", [1, 2])
def test_mean_over_all_minibatches_is_the_full_gradient(name, batch_size):
    model = _model(name, batch_size=batch_size)
    theta = _somewhere(model)
    batches = itertools.combinations(range(N), batch_size)
    mean = np.mean([model.gradient(theta, np.array(batch)) for batch in batches], axis=0)
    np.testing.assert_allclose(mean, model.full_gradient(theta), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("scheme", ["subset", "replacement", "reshuffle"])
def test_mean_over_drawn_minibatches_is_the_full_gradient(scheme):
    model = _model("logistic", batch_size=5, scheme=scheme)
    count = 4000  # of epochs' first minibatches, which are independent
    drawn = model.minibatches.draw_many(6, 0, np.zeros(count, np.int64), 2 * np.arange(count), 1)[:, 0]
    theta, out = np.repeat(_somewhere(model, 1), count, axis=0), np.empty((count, model.size))
    model.gradients(theta, drawn, out)
    z = (out.mean(axis=0) - model.full_gradient(theta[0])) / (out.std(axis=0) / np.sqrt(count))
    assert np.abs(z).max() < norm.isf(FALSE_ALARM / (2 * model.size))
    assert out.std(axis=0).min() > 0.01


@pytest.mark.parametrize(("name", "dtype"), [
    *((name, np.float64) for name in MODELS), ("logistic ones", np.float32), ("softmax", np.float32),
])  # fmt: skip
def test_rows_of_gradients_have_the_bits_of_single_gradients(name, dtype):
    model = _model(name, batch_size=7, dtype=dtype)
    theta, out = _somewhere(model, 9), np.empty((9, model.size), dtype)
    indices = model.minibatches.draw_many(1, 0, [3], [4], repeats=9)[0]
    model.gradients(theta, indices, out)
    single = np.stack([model.gradient(t, i) for t, i in zip(theta, indices, strict=True)])
    assert single.dtype == dtype
    assert out.tobytes() == single.tobytes()
    many, one = np.empty_like(out), np.empty_like(out)
    model.gradients(theta, indices, many)
    for row in range(9):
        model.gradients(theta[row : row + 1], indices[row : row + 1], one[row : row + 1])
    assert many.tobytes() == one.tobytes() == out.tobytes()


@pytest.mark.parametrize("name", ["linear", "logistic", "softmax"])
@pytest.mark.parametrize("form", ["csr_array", "csc_matrix", "coo_array"])
def test_dense_and_sparse_regressors_agree(name, form):
    model = {"linear": Linear, "logistic": Logistic, "softmax": Softmax}[name]
    y = CLASSES if name == "softmax" else SIGNS
    for regressors in (X, ONE_HOT)[: 2 if name == "logistic" else 1]:
        dense = model(regressors, y, intercept=True, dtype=np.float64)
        sparse = model(getattr(scipy.sparse, form)(regressors), y, intercept=True, dtype=np.float64)
        theta, batch = _somewhere(dense), np.array([3, 0, 11, 3])
        np.testing.assert_allclose(sparse.gradient(theta, batch), dense.gradient(theta, batch), rtol=1e-13, atol=1e-13)
        assert sparse.potential(theta) == pytest.approx(dense.potential(theta), rel=1e-13)


@pytest.mark.parametrize("name", ["logistic ones", "softmax"])
def test_single_precision_agrees_with_double(name):
    single, double = _model(name, dtype=np.float32), _model(name)
    theta = _somewhere(single)
    np.testing.assert_allclose(single.full_gradient(theta), double.full_gradient(theta), rtol=1e-5, atol=1e-5)


def test_an_intercept_is_a_column_of_ones():
    appended = np.column_stack([X, np.ones(N)])
    for model, y in ((Linear, RESPONSES), (Logistic, SIGNS), (Softmax, CLASSES)):
        implied, explicit = model(X, y, intercept=True, dtype=np.float64), model(appended, y, dtype=np.float64)
        theta = _somewhere(implied)
        np.testing.assert_allclose(implied.full_gradient(theta), explicit.full_gradient(theta), rtol=1e-12)
        assert implied.potential(theta) == pytest.approx(explicit.potential(theta), rel=1e-13)


def test_linear_posterior_in_closed_form():
    dense, sparse = _model("linear"), _model("linear sparse")
    mean, covariance = dense.posterior()
    appended = np.column_stack([X, np.ones(N)])
    precision = appended.T @ appended / 0.7**2 + np.eye(D + 1) / 1.3**2
    np.testing.assert_allclose(covariance @ precision, np.eye(D + 1), atol=1e-12)
    np.testing.assert_allclose(precision @ mean, appended.T @ RESPONSES / 0.7**2, rtol=1e-12)
    np.testing.assert_allclose(dense.full_gradient(mean), 0, atol=1e-12)
    for one, other in zip(dense.posterior(), sparse.posterior(), strict=True):
        assert one.dtype == np.float64
        np.testing.assert_allclose(one, other, rtol=1e-12)


def test_gaussian_posterior_in_closed_form():
    mean, variance = GaussianMean([1.0, 2.0, 6.0], noise_scale=2, prior_scale=0.5, prior_mean=1.0).posterior()
    assert variance == pytest.approx(1 / (4 + 3 / 4))
    assert mean == pytest.approx((4 * 1.0 + 9 / 4) / (4 + 3 / 4))
    model = GaussianMean(X, prior_mean=np.arange(D), dtype=np.float64)
    np.testing.assert_allclose(model.full_gradient(model.posterior()[0]), 0, atol=1e-12)


@pytest.mark.parametrize("labels", [SIGNS, (SIGNS + 1) / 2, SIGNS > 0, ((SIGNS + 1) // 2).tolist()])
def test_logistic_labels_may_be_written_in_several_ways(labels):
    theta = np.linspace(-1, 1, D)
    expected = Logistic(X, SIGNS, dtype=np.float64).full_gradient(theta)
    np.testing.assert_array_equal(Logistic(X, labels, dtype=np.float64).full_gradient(theta), expected)


def test_two_classes_of_softmax_are_logistic_in_their_difference():
    softmax, logistic = Softmax(X, SIGNS > 0, dtype=np.float64), Logistic(X, SIGNS, dtype=np.float64)
    theta = _somewhere(softmax)
    difference = theta[D:] - theta[:D]
    np.testing.assert_allclose(softmax.predict(theta, X)[:, 1], logistic.predict(difference, X), rtol=1e-12)
    likelihood = softmax.log_likelihood(theta, X, SIGNS > 0)
    np.testing.assert_allclose(likelihood, logistic.log_likelihood(difference, X, SIGNS), rtol=1e-12)


def test_predictions_are_probabilities_and_give_the_likelihood():
    softmax = _model("softmax")
    theta = _somewhere(softmax)
    probabilities = softmax.predict(theta, CSR)
    np.testing.assert_allclose(probabilities.sum(axis=1), 1, rtol=1e-14)
    likelihood = softmax.log_likelihood(theta, X, CLASSES)
    np.testing.assert_allclose(likelihood, np.log(probabilities[np.arange(N), CLASSES]), rtol=1e-12)
    prior = float(theta @ theta) / (2 * 1.3**2)
    assert softmax.potential(theta) == pytest.approx(prior - likelihood.sum(), rel=1e-13)


@pytest.mark.parametrize("data", [X, CSR], ids=["dense", "sparse"])
def test_predictive_functions_give_what_predict_gives(data):
    softmax, logistic, linear = (_model(name) for name in ("softmax", "logistic", "linear"))
    theta = _somewhere(softmax)
    np.testing.assert_array_equal(softmax.predictive(data)(theta), softmax.predict(theta, data))
    theta = _somewhere(logistic)
    both = logistic.predictive(data)(theta)
    np.testing.assert_array_equal(both[:, 1], logistic.predict(theta, data))
    np.testing.assert_allclose(both.sum(axis=1), 1, rtol=1e-14)
    mean, variance = linear.predictive(data)(theta)
    np.testing.assert_allclose(mean, X @ theta[:-1] + theta[-1], rtol=1e-12)
    np.testing.assert_array_equal(mean, linear.predict(theta, data))
    assert variance == 0.7**2


@pytest.mark.parametrize("name", ["logistic ones", "softmax"])
@pytest.mark.parametrize("sign", [-1, 1])
def test_far_away_nothing_overflows(name, sign):
    model = _model(name, dtype=np.float32)
    theta = np.linspace(1, 2, model.size, dtype=np.float32) * np.float32(sign * 1e30)
    with np.errstate(all="raise", under="ignore"):
        assert np.isfinite(model.full_gradient(theta)).all()
        far = theta * np.float32(1e-20)  # the squares of 1e30 itself are beyond float32, not beyond float64
        assert np.isfinite(model.potential(far))
        assert np.isfinite(model.predict(far, ONE_HOT)).all()
    certain = Logistic(scipy.sparse.eye_array(1), [1], prior_scale=1e6, dtype=np.float32)
    assert certain.full_gradient(np.array([-1e4])) == pytest.approx(-1 - 1e-8)
    assert certain.full_gradient(np.array([1e4])) == pytest.approx(1e-8)


@EVERY_MODEL
def test_a_theta_that_is_not_a_number_is_not_hidden(name):
    model = _model(name)
    theta = _somewhere(model)
    theta[1] = np.nan
    assert np.isnan(model.full_gradient(theta)[1])


@EVERY_MODEL
def test_models_survive_pickling(name):
    model = _model(name, batch_size=3, scheme="reshuffle")
    copy = pickle.loads(pickle.dumps(model))
    theta, batch = _somewhere(model), model.minibatches.draw(1, 0, 0, 0)
    assert copy.minibatches == model.minibatches
    assert copy.gradient(theta, batch).tobytes() == model.gradient(theta, batch).tobytes()


def test_threads_share_a_model():
    model = _model("logistic", batch_size=4)
    theta = _somewhere(model, 200)
    indices = model.minibatches.draw_many(1, 0, np.zeros(200, np.int64), np.arange(200), 1)[:, 0]

    def one(row):
        return model.gradient(theta[row], indices[row])

    with ThreadPoolExecutor(4) as pool:
        threaded = list(pool.map(one, range(200)))
    assert np.stack(threaded).tobytes() == np.stack([one(row) for row in range(200)]).tobytes()


@EVERY_MODEL
def test_what_a_model_says_of_itself(name):
    model = _model(name, batch_size=3)
    assert (model.n_data, model.batch_size, model.dtype) == (N, 3, np.float64)
    start = model.initial()
    assert start.shape == (model.size,)
    assert not start.any()
    start += 1
    assert not model.initial().any()


def test_regressors_are_not_copied_when_they_fit():
    regressors = np.ascontiguousarray(X, np.float32)
    assert np.shares_memory(Logistic(regressors, SIGNS, intercept=True)._design.matrix[0], regressors)


ONES = {  # rows of ones: how many in each, and in how many columns
    "equally many": (np.full(40, 5), 12),
    "nearly equally many": (np.repeat([5, 4], [36, 4]), 12),
    "one": (np.ones(40, int), 7),
    "as many as bytes have names for": (np.full(40, 33), 255),
    "too many columns": (np.full(40, 5), 256),
    "very unequal": (np.repeat([1, 9], 20), 12),
}


@pytest.mark.parametrize("kind", list(ONES))
@pytest.mark.parametrize("intercept", [False, True])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_rows_of_ones_have_the_bits_of_any_sparse_matrix(kind, intercept, dtype):
    lengths, width = ONES[kind]
    rng = np.random.default_rng(5)
    rows = [np.sort(rng.choice(width, length, replace=False)) for length in lengths]
    starts = np.concatenate(([0], np.cumsum(lengths)))
    ones = scipy.sparse.csr_array((np.ones(starts[-1]), np.concatenate(rows), starts), shape=(40, width))
    # One more row, which no minibatch has, makes it a matrix of any numbers.
    more = scipy.sparse.vstack([ones, scipy.sparse.csr_array(np.full((1, width), 2.0))])
    theta, weights = rng.normal(size=width + intercept).astype(dtype), rng.normal(size=23).astype(dtype)
    batch = rng.choice(40, 23)
    special, any_numbers = (DesignMatrix(x, np.dtype(dtype), intercept=intercept) for x in (ones, more))
    assert len(special.matrix) == (3 if kind in ("too many columns", "very unequal") else 2)
    assert len(any_numbers.matrix) == 3
    assert special.times(theta).tobytes() == any_numbers.times(theta)[:40].tobytes()
    start = rng.normal(size=theta.size).astype(dtype)
    sums = [_accumulated(design, weights, batch, start.copy()).tobytes() for design in (special, any_numbers)]
    assert sums[0] == sums[1] != start.tobytes()
    assert np.allclose(special.gram(np.ones(40))[0][:width, :width], (ones.T @ ones).toarray())


@njit
def _accumulate(matrix, n_columns, weights, batch, out):
    accumulate(matrix, n_columns, weights, batch, out)


def _accumulated(design, weights, batch, out):
    _accumulate(design.matrix, design.n_columns, weights, batch, out)
    return out
