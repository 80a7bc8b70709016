"""The estimators as users meet them: engines, kernels, pipelines, sparse data, refusals."""

import dataclasses
import sys

import numpy as np
import pytest
from scipy import sparse
from sklearn.base import clone
from sklearn.datasets import load_iris
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import PolynomialFeatures

import stalegrad as sg
from stalegrad.sklearn import StaleClassifier, StaleRegressor, estimators

pytestmark = pytest.mark.long

X, Y = load_iris(return_X_y=True)


def test_works_in_pipelines_and_searches():
    model = make_pipeline(PolynomialFeatures(2, include_bias=False), StaleClassifier(steps=1000, random_state=0))
    assert cross_val_score(model, X, Y, cv=3).mean() > 0.93
    search = GridSearchCV(StaleClassifier(steps=600, random_state=0), {"prior_scale": [0.01, 1.0]}, cv=3).fit(X, Y)
    assert search.best_params_ == {"prior_scale": 1.0}


def test_the_same_random_state_gives_the_same_bits():
    one, other = (StaleClassifier(steps=600, random_state=3).fit(X, Y).coef_draws_ for _ in range(2))
    assert one.tobytes() == other.tobytes()
    another = StaleClassifier(steps=600, random_state=4).fit(X, Y).coef_draws_
    assert np.mean(another == one) < 0.01


@pytest.mark.parametrize("engine", ["threads", "processes"])
def test_runs_on_parallel_engines(engine):
    options = {"steps": 900, "burn_in": 500, "batch_size": 50}
    model = StaleClassifier(workers=2, servers=2, engine=engine, random_state=0, **options).fit(X, Y)
    assert model.run_.draws.shape == (2, 40, 15)
    assert model.coef_draws_.shape == (80, 3, 4)
    assert model.score(X, Y) > 0.93
    assert {chain.worker.max() for chain in model.run_.trace.chains} == {1}
    assert model.__sklearn_tags__().non_deterministic
    assert not StaleClassifier().__sklearn_tags__().non_deterministic


def test_a_kernel_of_ones_own_runs_in_the_coordinates_of_the_features():
    kernel = sg.SGLD(step_size=1e-3)
    model = StaleClassifier(kernel=kernel, steps=600, standardise=False, random_state=0).fit(X, Y)
    assert model.run_.warmup is None
    assert model.run_.step_sizes[0, 0] == kernel.step_size
    np.testing.assert_array_equal(model.coef_draws_, model.run_.draws[0].reshape(-1, 3, 5)[..., :-1])
    np.testing.assert_array_equal(model.intercept_draws_, model.run_.draws[0].reshape(-1, 3, 5)[..., -1])
    assert clone(model).kernel == kernel


def test_draws_count_by_their_step_sizes():
    kernel = sg.SGLD(step_size=sg.schedules.Polynomial(1e-2, 10.0, 0.9))
    model = StaleRegressor(kernel=kernel, steps=600, burn_in=10, random_state=0).fit(X, Y)
    steps = model.run_.step_sizes[0]
    assert steps[0] > 2 * steps[-1]
    np.testing.assert_allclose(model.draw_weights_, steps / steps.sum())
    np.testing.assert_allclose(model.coef_, np.average(model.coef_draws_, axis=0, weights=steps))


@pytest.mark.parametrize("estimator", [StaleClassifier, StaleRegressor])
def test_sparse_features_give_what_dense_ones_do(estimator):
    options = {"steps": 600, "standardise": False, "random_state": 0}
    dense = estimator(**options).fit(X, Y)
    thin = estimator(**options).fit(sparse.csr_array(X), Y)
    np.testing.assert_allclose(thin.coef_, dense.coef_, rtol=1e-4)
    np.testing.assert_allclose(thin.predict(sparse.csr_array(X)), dense.predict(X), rtol=1e-3)
    scaled = estimator(steps=600, random_state=0).fit(sparse.csr_array(X), Y)
    assert scaled.score(sparse.csr_array(X), Y) > 0.9


def test_an_interrupted_fit_is_no_fit(monkeypatch):
    def interrupted(*args, **options):
        return dataclasses.replace(sg.sample(*args, **options), interrupted=True)

    monkeypatch.setattr(estimators, "sample", interrupted)
    with pytest.raises(KeyboardInterrupt):
        StaleClassifier(steps=600).fit(X, Y)


@pytest.mark.parametrize(("model", "message"), [
    (StaleClassifier(prior_scale=0.0), "prior_scale=0.0: is out of range"),
    (StaleClassifier(workers=0), "workers=0: is out of range"),
    (StaleClassifier(batch_size=151), "batch_size=151: is more than the 150 data there are"),
    (StaleClassifier(steps=100, burn_in=500), "burn_in=500"),
    (StaleClassifier(engine="x"), "engine='x': is not known"),
    (StaleClassifier(kernel=1.0), "kernel=1.0: is neither a kernel nor"),
    (StaleRegressor(noise_scale=-1.0), "noise_scale=-1.0: is out of range"),
    (StaleRegressor(prior_scale="x"), "prior_scale='x': is a str"),
])  # fmt: skip
def test_refusals(model, message):
    with pytest.raises(sg.ArgumentError, match=message):
        model.fit(X, Y)


def test_one_class_is_refused():
    with pytest.raises(sg.ArgumentError, match=r"y=.*holds one class only"):
        StaleClassifier().fit(X, np.zeros(150))


def test_without_scikit_learn_the_extra_is_named(monkeypatch):
    for name in [name for name in sys.modules if name.startswith("stalegrad.sklearn")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "sklearn.base", None)
    with pytest.raises(sg.MissingExtra, match=r"stalegrad.sklearn needs .*: pip install 'stalegrad\[sklearn\]'"):
        import stalegrad.sklearn  # noqa: F401
