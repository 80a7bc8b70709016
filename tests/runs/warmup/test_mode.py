"""The mode search: off saddles, from far away, and where gradients overflow."""

import warnings

import numpy as np
import pytest

from stalegrad.runs.warmup.descent import downhill
from stalegrad.runs.warmup.mode import dense_mode

from .given import Given, two_wells


def log_scale(theta):
    """y = log σ of ten residuals of scale 1, and a mean: gradients of the order e^{2|y|} far to the left."""
    mu, y = theta
    return np.array([10 * mu * np.exp(-2 * y), 10 - 10 * (1 + mu**2) * np.exp(-2 * y)])


def test_a_saddle_is_left():
    found = dense_mode(Given(two_wells, 2), np.zeros(2))
    assert found.found
    assert np.abs(found.coordinates.centre) == pytest.approx([1.0, 0.0], abs=0.01)


@pytest.mark.parametrize("start", [(0.0, -30.0), (500.0, -40.0), (-3.0, 60.0), (1e3, 1.0)])
def test_a_scale_whose_logarithm_starts_tens_of_deviations_away_comes_back_without_a_warning(start):
    model = Given(log_scale, 2)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = dense_mode(model, np.array(start))
    assert found.found
    assert found.coordinates.centre == pytest.approx([0.0, 0.0], abs=0.05)


def test_where_no_gradient_is_finite_the_search_begins_nearer_to_the_models_own_start():
    model = Given(lambda theta: np.where(np.abs(theta) > 50, np.nan, theta - 1.0), 3)
    assert downhill(model, np.full(3, 1e6)) == pytest.approx(np.ones(3), abs=0.1)
    assert dense_mode(model, np.full(3, 1e6)).found
