"""The kernel Stein discrepancy: its formula, its law under the posterior, and what it detects."""

import numpy as np
import pytest
from scipy import signal, stats

import stalegrad as sg
from stalegrad._internal.errors import ArgumentError
from stalegrad.analysis.diagnostics import kernel_stein_discrepancy
from stalegrad.analysis.diagnostics.stein import stein_matrix

from .models import linear, sampled, sgld

FALSE_ALARM = 1e-6
SIZE = 3
STANDARD_NORMAL = sg.potentials.from_gradient(lambda theta, indices: theta, SIZE, n_data=1, dtype=np.float64)


def normal(seed, *shape):
    return np.random.Generator(np.random.Philox(seed)).standard_normal(shape)


def brute_force(points, score, lengths):
    """k_p(x, y) from its definition, with numerical derivatives of the kernel."""
    step = 1e-4
    basis = step * np.eye(points.shape[1])

    def kernel(x, y):
        return (1 + np.sum(((x - y) / lengths) ** 2)) ** -0.5

    def stein(x, y):
        along_x = np.array([kernel(x + e, y) - kernel(x - e, y) for e in basis]) / (2 * step)
        along_y = np.array([kernel(x, y + e) - kernel(x, y - e) for e in basis]) / (2 * step)
        trace = sum(
            l**2 * (kernel(x + e, y + e) - kernel(x + e, y - e) - kernel(x - e, y + e) + kernel(x - e, y - e))
            for l, e in zip(lengths, basis, strict=True)  # noqa: E741
        ) / (4 * step**2)
        return (
            (lengths * score(x)) @ (lengths * score(y)) * kernel(x, y)
            + (lengths**2 * score(x)) @ along_y
            + (lengths**2 * score(y)) @ along_x
            + trace
        )

    return np.array([[stein(x, y) for y in points] for x in points])


def test_the_matrix_is_that_of_the_definition():
    points, lengths = normal(1, 6, SIZE), np.array([0.5, 1.0, 2.0])
    scores = -points / np.array([1.0, 2.0, 3.0]) + 0.3
    found = stein_matrix(points, scores, lengths)
    expected = brute_force(points, lambda x: -x / np.array([1.0, 2.0, 3.0]) + 0.3, lengths)
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5)


def test_many_coordinates_go_block_by_block():
    points, scores = normal(2, 5, 5000), normal(3, 5, 5000)
    pairs = stein_matrix(points, scores, 40.0)
    x, y = points[1] / 40, points[4] / 40
    s, t = scores[1] * 40, scores[4] * 40
    r2 = np.sum((x - y) ** 2)
    expected = s @ t / (1 + r2) ** 0.5 + ((s - t) @ (x - y) + 5000) / (1 + r2) ** 1.5 - 3 * r2 / (1 + r2) ** 2.5
    assert pairs[1, 4] == pytest.approx(expected, rel=1e-9)


def test_the_weighted_statistic_by_hand():
    draws, h = normal(4, 2, 20, SIZE), np.linspace(1, 2, 40).reshape(2, 20)
    found = kernel_stein_discrepancy(draws, STANDARD_NORMAL, step_sizes=h, scale=1.5, bootstraps=10)
    rows, w = draws.reshape(-1, SIZE), h.ravel() / h.sum()
    matrix = stein_matrix(rows, -rows, 1.5)
    assert found.value**2 == pytest.approx(w @ matrix @ w)
    off = matrix - np.diag(np.diag(matrix))
    assert found.unbiased == pytest.approx(w @ off @ w / (1 - w @ w))
    assert found.draws == 40


@pytest.mark.parametrize("rho", [0.0, 0.9])
def test_p_values_of_exact_draws_are_uniform(rho):
    """Also for correlated draws, where signs that flip independently would give p-values near 0."""
    shocks = normal(5, 40, 200, SIZE) * np.sqrt(1 - rho**2)
    shocks[:, 0] /= np.sqrt(1 - rho**2)
    chains = signal.lfilter([1.0], [1.0, -rho], shocks, axis=1)
    found = [kernel_stein_discrepancy(chain, STANDARD_NORMAL, bootstraps=200) for chain in chains]
    p = np.array([result.p_value for result in found])
    assert stats.kstest(p, "uniform").pvalue > FALSE_ALARM
    assert 0.7 < np.median([result.value / result.typical for result in found]) < 1.4


@pytest.mark.parametrize("wrong", [lambda z: z + 0.3, lambda z: 1.4 * z, lambda z: 0.7 * z])
def test_draws_of_another_law_are_detected(wrong):
    draws = normal(6, 2, 250, SIZE)
    right, found = (kernel_stein_discrepancy(d, STANDARD_NORMAL) for d in (draws, wrong(draws)))
    assert right.p_value > 0.01
    assert found.p_value < 0.002
    assert found.value > 1.5 * right.value


def test_it_falls_with_the_number_of_draws_for_the_posterior_alone():
    few, many = (kernel_stein_discrepancy(normal(7, m, SIZE), STANDARD_NORMAL, bootstraps=1) for m in (50, 800))
    assert many.draws == 400, "every second of 800"
    options = {"bootstraps": 1, "most_draws": 800}
    assert kernel_stein_discrepancy(normal(7, 800, SIZE), STANDARD_NORMAL, **options).value < 0.5 * few.value
    assert kernel_stein_discrepancy(normal(7, 800, SIZE) + 0.5, STANDARD_NORMAL, **options).value > few.value


def test_it_sees_the_bias_of_a_run_that_rhat_does_not_see():
    """SGLD with hλ = 1.3 converges quickly, to the wrong law."""
    biased, fine = sampled(sgld(1.3), steps=4000), sampled(sgld(0.05), steps=12_000, thin=16)
    assert "R-hat" not in biased.diagnose().names
    assert biased.stein_discrepancy(linear()).p_value < 0.002
    assert fine.stein_discrepancy(linear()).p_value > 0.01


def test_the_temperature_of_a_run_is_taken_into_account():
    cold = sampled(sg.SGLD(step_size=0.1 / 40, temperature=0.25))
    assert cold.stein_discrepancy(linear()).p_value > 0.01
    assert cold.stein_discrepancy(linear(), temperature=1.0).p_value < 0.002


@pytest.mark.parametrize(
    ("options", "name"),
    [
        ({"draws": np.zeros((5, 2))}, "draws"),
        ({"draws": np.zeros((3, SIZE))}, "draws"),
        ({"draws": np.full((5, SIZE), np.nan)}, "draws"),
        ({"step_sizes": np.ones(3)}, "step_sizes"),
        ({"step_sizes": np.zeros(5)}, "step_sizes"),
        ({"scale": 0.0}, "scale"),
        ({"scale": [1.0, 2.0]}, "scale"),
        ({"temperature": 0}, "temperature"),
        ({"most_draws": 2}, "most_draws"),
        ({"bootstraps": 0}, "bootstraps"),
    ],
)
def test_malformed_arguments_are_named(options, name):
    options = {"draws": normal(8, 5, SIZE), **options}
    with pytest.raises(ArgumentError) as caught:
        kernel_stein_discrepancy(options.pop("draws"), STANDARD_NORMAL, **options)
    assert caught.value.name == name
