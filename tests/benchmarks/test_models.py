"""Comparisons are worth nothing unless all candidates have the same posterior."""

import numpy as np
import pytest

import stalegrad as sg

pytestmark = pytest.mark.long


@pytest.fixture
def data(benchmark_module):
    return benchmark_module("a9a_like").synthetic(400)


@pytest.fixture
def problem(benchmark_module, data):
    posterior = benchmark_module("posterior")
    test = benchmark_module("a9a_like").synthetic(100, rows_seed=1)
    parts = [posterior._dataset_part(part) for part in (data, test)]
    dataset = sg.datasets.Dataset("a9a", *parts[0], *parts[1], classes=("0", "1"), page="")
    return posterior.Problem("synthetic", dataset, 50)


def by_hand_and_automatic(model, position):
    import jax

    def log_posterior(position):
        return model.log_prior(position) + jax.vmap(model.log_likelihood, (None, 0))(position, model.rows).sum()

    return np.asarray(model.gradient(position, model.rows)), np.asarray(jax.grad(log_posterior)(position))


def test_logistic_regression_in_jax_is_ours(benchmark_module, data):
    model = benchmark_module("jax_models").logistic(data.dense, data.y)
    ours = sg.potentials.Logistic(data.csr(), data.y, batch_size=50)
    theta = np.random.default_rng(0).normal(0, 0.3, ours.size).astype(np.float32)
    for gradient in by_hand_and_automatic(model, theta):
        np.testing.assert_allclose(-gradient, ours.full_gradient(theta), rtol=1e-4, atol=1e-3)


def test_softmax_regression_in_jax_is_ours(benchmark_module):
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(200, 6)).astype(np.float32), rng.integers(3, size=200)
    model = benchmark_module("jax_models").softmax(X, y, 3)
    ours = sg.potentials.Softmax(X, y, n_classes=3)
    theta = rng.normal(size=(3, 6)).astype(np.float32)
    for gradient in by_hand_and_automatic(model, theta):
        np.testing.assert_allclose(-gradient.ravel(), ours.full_gradient(theta.ravel()), rtol=1e-4, atol=1e-3)


def test_whitened_rows_are_our_whitened_potential(benchmark_module, problem):
    ours, rows = problem.posterior.potential, problem.rows
    z = np.random.default_rng(0).normal(size=(2, ours.size)).astype(np.float32)
    wanted = np.stack([ours.full_gradient(each) for each in z])
    value, gradient = rows.potential(z)
    np.testing.assert_allclose(gradient, wanted, rtol=1e-3, atol=1e-3)
    potentials = [ours.potential.potential(theta) for theta in ours.original(z)]
    np.testing.assert_allclose(value[1] - value[0], potentials[1] - potentials[0], rtol=1e-4)
    for gradient in by_hand_and_automatic(benchmark_module("jax_models").whitened(rows), z[0]):
        np.testing.assert_allclose(-gradient, wanted[0], rtol=1e-3, atol=1e-3)


def test_exact_draws_of_a_gaussian_have_its_variance(benchmark_module):
    """N(0, I), in which chains start, and must stay.

    The last draws of all chains are independent: with 4,000 of them the variance has a standard error of 0.022 and is
    off by 0.11 with probability 6e-7. Without acceptance it would be 1.23.
    """
    posterior, d = benchmark_module("posterior"), 20
    nothing, eye = np.zeros((1, d), np.float32), np.eye(d, dtype=np.float32)
    rows = posterior.WhitenedRows(nothing, np.zeros(1, np.float32), np.zeros(1, np.float32), nothing[0], eye)
    draws = posterior.exact(rows, chains=200, draws=50, seed=3)
    assert abs(np.square(draws[:, -1]).mean() - 1) < 0.11
    assert (np.diff(draws, axis=1) != 0).any(-1).mean() > 0.5, "most proposals are accepted"


def test_weights_of_networks_come_back_as_they_were(benchmark_module):
    peers = benchmark_module("network_peers")
    import torch

    for name in ("lenet", "cifar10_quick"):
        module = getattr(sg.networks, name)(0)
        for parameter in module.parameters():
            parameter.data.normal_(0, 0.1, generator=torch.Generator().manual_seed(1))
        side, channels = (28, 1) if name == "lenet" else (32, 3)
        x = torch.rand(2, channels, side, side, generator=torch.Generator().manual_seed(0))
        peers.check_same_network(name, module, x, peers.jax_parameters(module), x.permute(0, 2, 3, 1).numpy())
