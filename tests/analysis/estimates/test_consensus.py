"""Draws of subset posteriors, weighed by their precision, against the sums written out."""

import numpy as np
import pytest

from stalegrad.analysis.estimates import consensus_draws

RANDOM = np.random.Generator(np.random.Philox(3))
SCALES = np.array([[1.0, 3.0], [2.0, 0.5], [0.3, 1.0]])
DRAWS = RANDOM.standard_normal((3, 40, 2)) * SCALES[:, None] + RANDOM.standard_normal((3, 1, 2))
DRAWS[1, :, 1] += DRAWS[1, :, 0]  # correlated


@pytest.mark.parametrize("weights", ["full", "diagonal"])
def test_every_chain_counts_by_its_precision(weights):
    precisions = [np.linalg.inv(np.cov(chain.T)) for chain in DRAWS]
    if weights == "diagonal":
        precisions = [np.diag(1 / chain.var(axis=0, ddof=1)) for chain in DRAWS]
    for draw, found in enumerate(consensus_draws(DRAWS, weights=weights)):
        weighed = sum(precision @ chain[draw] for precision, chain in zip(precisions, DRAWS, strict=True))
        np.testing.assert_allclose(found, np.linalg.solve(sum(precisions), weighed), rtol=1e-10)
