"""References that are not of the model itself but of a law that NUTS can sample: that it is the same law."""

import numpy as np
import pytest

pytestmark = pytest.mark.long


@pytest.fixture
def catalogue(benchmark_module):
    return benchmark_module("classics.catalogue")


@pytest.fixture
def double_precision():
    import jax

    jax.config.update("jax_enable_x64", True)
    yield
    jax.config.update("jax_enable_x64", False)


def energy(model, data, sites):
    """−log p of the sites on their own scale, up to nothing: no Jacobian of a transformation is in it."""
    from numpyro.infer.util import log_density

    return -float(log_density(model, (), data, sites)[0])


@pytest.mark.usefixtures("double_precision")
def test_horseshoe_without_coefficients_is_its_marginal_law(catalogue, benchmark_module):
    """p(λ, τ, σ, z | y) = p(λ, τ, σ | y) N(z; P⁻¹b, P⁻¹): the logarithms differ by one constant everywhere."""
    horseshoe, classic = benchmark_module("classics.models.horseshoe"), catalogue.make("horseshoe")
    x, y = classic.data["x"], classic.data["y"]
    rng, differences = np.random.default_rng(0), []
    for _ in range(5):
        scales = {"tau": np.exp(rng.normal(-2, 1)), "local": np.exp(rng.normal(size=15)), "sigma": rng.uniform(0.5, 2)}
        z = rng.normal(size=15)
        s = scales["local"] * scales["tau"]
        precision = np.eye(15) + (x * s).T @ (x * s) / scales["sigma"] ** 2
        off = z - np.linalg.solve(precision, (x * s).T @ y / scales["sigma"] ** 2)
        conditional = off @ precision @ off / 2 - np.linalg.slogdet(precision)[1] / 2
        full = energy(classic.model, classic.data, {**scales, "z": z})
        differences.append(full - energy(horseshoe.without_coefficients, classic.data, scales) - conditional)
    assert np.ptp(differences) < 1e-8


@pytest.mark.usefixtures("double_precision")
def test_coefficients_of_the_horseshoe_have_their_conditional_law(catalogue):
    """20,000 draws of z at one λ, τ and σ: in whitened coordinates, means and variances are those of N(0, 1) within
    6 standard errors, which one of 30 exceeds by chance with a probability below 1e-6."""
    classic = catalogue.make("horseshoe")
    x, y, count = classic.data["x"], classic.data["y"], 20_000
    tau, local, sigma = 0.1, np.linspace(0.2, 10, 15), 1.1
    draws = {"tau": np.full(count, tau), "local": np.tile(local, (count, 1)), "sigma": np.full(count, sigma)}
    scaled = x * local * tau
    precision = np.eye(15) + scaled.T @ scaled / sigma**2
    mean = np.linalg.solve(precision, scaled.T @ y / sigma**2)
    white = (np.asarray(classic.to_sites(draws)["z"]) - mean) @ np.linalg.cholesky(precision)
    assert np.abs(white.mean(axis=0)).max() < 6 / np.sqrt(count)
    assert np.abs(white.var(axis=0) - 1).max() < 6 * np.sqrt(2 / count)


def test_coordinates_of_the_softmax_regression_are_one_to_one(catalogue, benchmark_module):
    """The common shift of all classes has the prior's scale, and every other coordinate moves no sum over them."""
    softmax, classic = benchmark_module("classics.models.softmax"), catalogue.make("softmax")
    z = np.zeros((785, 10), np.float32)
    z[3, 0] = 1.0
    weights = np.asarray(classic.whiten({"weights": z})["weights"])
    np.testing.assert_allclose(weights[3], softmax.PRIOR / np.sqrt(10), rtol=1e-5)
    assert not np.delete(weights, 3, axis=0).any()
    z = np.random.default_rng(0).normal(size=(785, 10)).astype(np.float32)
    z[:, 0] = 0.0
    weights = np.asarray(classic.whiten({"weights": z})["weights"])
    np.testing.assert_allclose(weights.sum(axis=1), 0.0, atol=1e-5)
    assert np.linalg.matrix_rank(weights) == 9


def test_a_softmax_regression_is_judged_by_logits_sums_and_weights(catalogue, benchmark_module):
    softmax, classic = benchmark_module("classics.models.softmax"), catalogue.make("softmax")
    potential = classic.potential()
    draws = np.random.default_rng(0).normal(size=(1, 2, potential.size)).astype(np.float32)
    judged = classic.judged(potential, draws)["predictions"]
    assert judged.shape == (1, 2, 10 * softmax.UNSEEN + softmax.PROJECTIONS + softmax.SINGLE)
    assert np.isin(judged[..., -softmax.SINGLE :], draws).all(), "the last are weights as they are"
    np.testing.assert_allclose(classic.judged(potential, 2 * draws)["predictions"], 2 * judged, rtol=1e-4, atol=1e-4)
