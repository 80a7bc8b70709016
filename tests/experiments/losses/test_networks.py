"""The networks of the figures."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

import stalegrad as sg
from stalegrad.datasets import Dataset
from stalegrad.experiments.losses import tasks

pytestmark = pytest.mark.long


def test_networks_start_from_weights_of_their_own(monkeypatch):
    rng = np.random.Generator(np.random.Philox(key=2))
    X, y = rng.integers(256, size=(64, 28, 28), dtype=np.uint8), rng.integers(10, size=64)
    model = tasks.NetworkModel(
        sg.networks.lenet, Dataset("few", X, y, X, y, ("",) * 10, ""), 8, sg.networks.lenet_pixels
    )
    assert not np.array_equal(model.start(0), model.start(1))
    assert_allclose(model.start(0), model.potential.initial())
    assert_allclose(model.log_likelihoods(model.start(1)[None])[0], model.log_likelihood(model.start(1)), rtol=1e-5)
    assert_allclose(
        model.log_likelihood(model.start(1)), np.log(model.predict(model.start(1))[np.arange(64), y]), rtol=1e-5
    )
