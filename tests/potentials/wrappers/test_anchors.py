"""What SVRG keeps from one answer to the next is its own, whatever becomes of the arrays that it was given."""

import numpy as np

from stalegrad.potentials.address import GradientAddress
from stalegrad.potentials.wrappers import svrg
from stalegrad.testing import small_logistic


def test_an_anchor_outlives_the_arrays_that_it_came_in():
    """Workers have one array for all points and one for all answers."""
    model = small_logistic()
    points = np.random.default_rng(0).standard_normal((5, 1, model.size)).astype(model.dtype)
    apart, reused = svrg(model, refresh=5), svrg(model, refresh=5)
    point, answer = np.empty_like(points[0]), np.empty_like(points[0])
    for count in range(5):
        expected = np.empty_like(answer)
        apart.answer(points[count].copy(), GradientAddress(1, 0, 0, count), expected)
        point[...] = points[count]
        reused.answer(point, GradientAddress(1, 0, 0, count), answer)
        np.testing.assert_array_equal(answer, expected)
