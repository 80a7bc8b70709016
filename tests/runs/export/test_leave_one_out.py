"""Leave-one-out cross-validation by ArviZ from ``to_arviz(log_likelihood=…)``, against its closed form."""

from dataclasses import replace

import numpy as np
import pytest

import stalegrad as sg
from stalegrad.potentials import Linear, from_gradient

loo = pytest.importorskip("arviz_stats").loo

_rng = np.random.default_rng(5)
N, NOISE = 40, 0.5
X = _rng.normal(size=(N, 3))
Y = X @ [1.0, -1.0, 0.5] + NOISE * _rng.normal(size=N)
MODEL = Linear(X, Y, noise_scale=NOISE, prior_scale=2.0, dtype=np.float64)


@pytest.fixture(scope="module")
def run():
    """A run whose draws are replaced by exact ones of the posterior, so that what is tested is the export alone."""
    made = sg.sample(MODEL, sg.SGLD(step_size=1e-3), steps=1000, servers=4, engine="inline", progress=False)
    mean, covariance = MODEL.posterior()
    exact = np.random.default_rng(6).multivariate_normal(mean, covariance, size=(4, 1000))
    return replace(made, draws=exact)


def exact_leave_one_out():
    """log p(y_i | the others): normal, about the mean that the others give, with noise and what they leave open."""
    terms = []
    for i in range(N):
        others = np.arange(N) != i
        mean, covariance = Linear(X[others], Y[others], NOISE, 2.0, dtype=np.float64).posterior()
        variance = NOISE**2 + X[i] @ covariance @ X[i]
        terms.append(-0.5 * (Y[i] - X[i] @ mean) ** 2 / variance - 0.5 * np.log(2 * np.pi * variance))
    return np.array(terms)


def test_loo_is_that_of_the_closed_form(run):
    found = loo(run.to_arviz(log_likelihood=MODEL), pointwise=True)
    assert float(np.max(found.pareto_k)) < 0.7
    np.testing.assert_allclose(found.elpd_i, exact_leave_one_out(), atol=0.1)
    # With 4,000 draws the sum has a Monte Carlo standard deviation of 0.036. If every datum were predicted from all
    # data, itself among them, it would be 3.1 higher.
    assert found.elpd == pytest.approx(exact_leave_one_out().sum(), abs=0.2)


def test_the_group_holds_each_datum_of_each_draw(run):
    tree = run.to_arviz(log_likelihood=MODEL, thin=100)
    values = tree.log_likelihood["y"]
    assert values.shape == (4, 10, N)
    expected = [[MODEL.log_likelihood(theta) for theta in chain[99::100]] for chain in run.draws]
    np.testing.assert_array_equal(values, expected)
    function = run.to_arviz(log_likelihood=lambda theta: MODEL.log_likelihood(theta, X[:2], Y[:2]), thin=500)
    np.testing.assert_array_equal(function.log_likelihood["y"], values[:, 4::5, :2])
    assert "log_likelihood" not in run.to_arviz()


def test_what_is_no_likelihood_of_data_is_refused(run):
    silent = from_gradient(lambda theta, indices: theta, size=3, n_data=N, dtype=np.float64)
    with pytest.raises(
        sg.ArgumentError, match=r"potential=.*does not say how likely each of its data is\. Give a func"
    ):
        run.to_arviz(log_likelihood=silent)
    with pytest.raises(sg.ArgumentError, match=r"log_likelihood=.*gave shape \(\) for a draw\. Return log p"):
        run.to_arviz(log_likelihood=lambda theta: MODEL.log_likelihood(theta).sum())
    with pytest.raises(sg.ArgumentError, match=r"log_likelihood=3.*is a int\. Give the potential"):
        run.to_arviz(log_likelihood=3)
