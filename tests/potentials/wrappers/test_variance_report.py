"""The standard errors of measured variances are what the variances scatter by."""

import numpy as np

from stalegrad.potentials.wrappers.variance import measure_variance
from stalegrad.testing import small_logistic


def test_standard_errors_are_the_scatter_over_seeds():
    """Of forty seeds: their deviation is within half and twice what each says of itself; seeds are fixed.

    The deviation of forty normal numbers is outside of that less than once in a million times.
    """
    model = small_logistic()
    theta = np.zeros((2, model.size), model.dtype)

    def half_as_large(k, indices):
        return model.gradient(theta[k], indices) / 2

    reports = [measure_variance(model, theta, half_as_large, 1.0, batches=16, seed=seed) for seed in range(40)]
    for value, error in (("plain", "plain_error"), ("reduced", "reduced_error")):
        scatter = np.std([getattr(report, value) for report in reports], ddof=1)
        said = np.mean([getattr(report, error) for report in reports])
        assert 0.5 * said < scatter < 2 * said
    assert reports[0].factor == 4.0
