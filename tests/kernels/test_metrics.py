"""Metrics are asked for G, and what is no positive number is refused where it is."""

import numpy as np
import pytest

import stalegrad as sg
from stalegrad.kernels.metrics import Diagonal, ExpandedMean, inverse_at


@pytest.mark.parametrize(("value", "said"), [(np.nan, "nan"), (0.0, "0"), (-2.0, "-2")])
def test_a_metric_that_is_not_positive_at_one_coordinate_is_refused(value, said):
    """NaN is neither positive nor not."""
    metric = Diagonal(inverse=lambda theta: np.where(theta == 3.0, value, 1.0), divergence=lambda theta: 0.0)
    with pytest.raises(sg.ArgumentError, match=rf"gives {said} where θ is 3 \(coordinate 1\)"):
        inverse_at(metric, np.array([[2.0, 3.0, 4.0]]))


def test_a_positive_one_is_given_as_it_is():
    np.testing.assert_array_equal(inverse_at(ExpandedMean(), np.array([0.5, 2.0])), [0.5, 2.0])
