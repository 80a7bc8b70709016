"""What the model does to a sampler: largest and mean curvature, and the covariance of minibatch gradients."""

import numpy as np
import pytest

import stalegrad as sg
from stalegrad._internal.errors import ArgumentError
from stalegrad.analysis.diagnostics import gradient_noise, largest_curvature, mean_curvature, probe

from .models import CURVATURES, SIZE, STIFFEST, N, linear


def random(seed):
    return np.random.Generator(np.random.Philox(seed))


def logistic(rows, size, batch_size=None, dtype=np.float32, seed=1):
    x = random(seed).standard_normal((rows, size))
    y = random(seed + 1).random(rows) < 1 / (1 + np.exp(-x[:, 0]))
    return sg.potentials.Logistic(x, y, batch_size=batch_size, dtype=dtype), x


class Counting(sg.potentials.Potential):
    """Counts the data that gradients look at."""

    def __init__(self, model):
        super().__init__(model.size, model.minibatches, model.dtype)
        self.model, self.calls, self.data = model, 0, 0

    def gradient(self, theta, indices):
        self.calls += 1
        self.data += len(indices)
        return self.model.gradient(theta, indices)


class TestLargestCurvature:
    @pytest.mark.parametrize("dtype", [np.float32, np.float64])
    @pytest.mark.parametrize("scale", [1e-3, 1.0, 1e3])
    def test_of_a_gaussian_is_exact_wherever_it_is_measured(self, dtype, scale):
        found = largest_curvature(linear(dtype=dtype), scale * random(3).standard_normal((2, SIZE)))
        np.testing.assert_allclose(found.points, STIFFEST, rtol=1e-2 if dtype == np.float32 else 1e-6)
        assert found.data == N
        assert abs(found.direction[-1]) == pytest.approx(1, abs=1e-2)  # regressors are orthogonal, the last is largest

    @pytest.mark.parametrize("dtype", [np.float32, np.float64])
    def test_of_a_logistic_regression_in_fifty_dimensions(self, dtype):
        model, x = logistic(400, 50, dtype=dtype)
        theta = 0.1 * random(4).standard_normal(50)
        p = 1 / (1 + np.exp(-x @ theta))
        exact = np.linalg.eigvalsh(np.eye(50) + (x.T * (p * (1 - p))) @ x)[-1]
        assert largest_curvature(model, theta[None]).value == pytest.approx(exact, rel=0.01)

    def test_a_part_of_the_data_does_not_make_it_too_large(self):
        """Minibatches of 20 in 50 dimensions: their own largest curvature is several times that of all data."""
        model, x = logistic(2000, 50, batch_size=20)
        theta = np.zeros(50)
        exact = np.linalg.eigvalsh(np.eye(50) + x.T @ x / 4)[-1]
        overfitted = np.linalg.eigvalsh(np.eye(50) + 100 * x[:20].T @ x[:20] / 4)[-1]
        assert overfitted > 4 * exact
        found = [largest_curvature(model, theta[None], gradients=40, seed=seed) for seed in range(30)]
        values = np.array([curvature.value for curvature in found])
        assert found[0].data < 100
        error = values.std() / np.sqrt(len(values))
        assert 0.5 * exact < values.mean() < exact + 5 * error

    @pytest.mark.parametrize("gradients", [14, 24, 100, 1000])
    def test_the_budget_is_kept(self, gradients):
        model = Counting(logistic(1000, 30, batch_size=10)[0])
        largest_curvature(model, random(5).standard_normal((3, 30)), gradients=gradients)
        assert 10 <= model.calls <= gradients + 4  # the step of a difference may be corrected once a point
        assert model.data == 10 * model.calls, "a model compiled for one size of minibatch sees no other"

    def test_coordinates_may_be_scaled(self):
        stretched = np.array([3.0, 1.0, 2.0])
        bowl = sg.potentials.from_gradient(lambda t, _: t * np.array([1.0, 5.0, 3.0]), 3, n_data=1, dtype=np.float64)
        assert largest_curvature(bowl, np.ones((1, 3)), scale=stretched).value == pytest.approx(12)  # 2² · 3

    def test_where_it_curves_downwards_too(self):
        saddle = sg.potentials.from_gradient(lambda t, _: t * np.array([-9.0, 2.0]), 2, n_data=1, dtype=np.float64)
        assert largest_curvature(saddle, np.ones((1, 2))).value == pytest.approx(2)
        assert mean_curvature(saddle, np.ones((1, 2))) == pytest.approx(-3.5)

    def test_a_flat_potential_and_a_single_parameter(self):
        flat = sg.potentials.from_gradient(lambda t, _: 0 * t, 3, n_data=1)
        assert largest_curvature(flat, np.zeros((1, 3))).value == 0
        line = sg.potentials.GaussianMean(np.zeros(9), batch_size=3)
        assert largest_curvature(line, np.zeros((1, 1)), gradients=14).value == pytest.approx(10, rel=1e-3)

    @pytest.mark.parametrize("points", [np.ones((2, 5)), np.full((1, SIZE), np.nan)])
    def test_malformed_points(self, points):
        with pytest.raises(ArgumentError, match="points="):
            largest_curvature(linear(), points)


def test_mean_curvature():
    exact = CURVATURES.mean()
    points = random(6).standard_normal((2, SIZE))
    values = [mean_curvature(linear(50), points, gradients=40, seed=seed) for seed in range(20)]
    assert abs(np.mean(values) - exact) < 5 * np.std(values) / np.sqrt(20)
    assert np.std(values) < 0.15 * exact


class TestGradientNoise:
    J = 10

    def noise(self, data, points=200, seed=0):
        model = sg.potentials.GaussianMean(data, batch_size=self.J, dtype=np.float64)
        draws = random(7).standard_normal((2, 300, data.shape[1]))
        return gradient_noise(probe(model, draws, points, seed))

    def covariance(self, data):
        """Of (N/J) Σ over a subset drawn without replacement."""
        rows = len(data)
        return np.atleast_2d(rows**2 / self.J * (1 - self.J / rows) * np.cov(data.T))

    def test_mean_and_diagonal(self):
        data = random(8).standard_normal((100, 4)) * [1.0, 2.0, 3.0, 4.0]
        found, exact = self.noise(data), self.covariance(data)
        np.testing.assert_allclose(found.variances, np.diag(exact), rtol=0.5)
        assert found.mean == pytest.approx(np.trace(exact) / 4, rel=0.25)

    def test_a_dominant_direction_is_found(self):
        axis = np.ones(40) / np.sqrt(40)
        data = random(9).standard_normal((100, 40)) + 5 * random(10).standard_normal((100, 1)) * axis
        found, exact = self.noise(data, points=40), self.covariance(data)
        assert abs(found.direction @ axis) > 0.9
        assert found.largest == pytest.approx(np.linalg.eigvalsh(exact)[-1], rel=0.6)
        assert found.along(axis) == pytest.approx(axis @ exact @ axis, rel=0.6)

    def test_without_one_it_is_not_fitted_to_the_sample(self):
        """20 probes in 300 dimensions, whose own covariance has an eigenvalue many times too large."""
        data = random(11).standard_normal((1000, 300))
        found = self.noise(data, points=20)
        own = np.linalg.eigvalsh(found.differences @ found.differences.T / len(found.differences))[-1]
        exact = np.linalg.eigvalsh(self.covariance(data))[-1]
        assert own > 5 * exact
        assert found.largest < 1.5 * exact

    def test_all_data_make_no_noise(self):
        model = sg.potentials.GaussianMean(random(12).standard_normal((20, 3)))
        found = gradient_noise(probe(model, random(13).standard_normal((1, 50, 3)), 8))
        assert found.mean == found.largest == 0

    def test_reshuffled_minibatches_are_taken_from_different_epochs(self):
        data = random(14).standard_normal((20, 3))
        model = sg.potentials.GaussianMean(data, batch_size=10, scheme="reshuffle", dtype=np.float64)
        found = gradient_noise(probe(model, np.zeros((1, 400, 3)), 300))
        exact = np.trace(20**2 / 10 * 0.5 * np.cov(data.T)) / 3
        assert found.mean == pytest.approx(exact, rel=0.25)  # of one epoch, it would be twice as much

    def test_probes_are_spread_over_chains_and_time_and_fit_in_memory(self):
        model = Counting(linear(20))
        draws = random(15).standard_normal((5, 1000, SIZE)) + np.arange(5)[:, None, None]
        found = probe(model, draws, 20)
        assert found.chains.tolist() == [0, 1, 2, 3, 4]
        assert found.deviations.shape == (5, 4, SIZE)
        assert model.calls == 40
        assert abs(found.deviations.mean()) < 1  # from the mean of its own chain
        assert len(probe(model, draws, 4).chains) == 2
