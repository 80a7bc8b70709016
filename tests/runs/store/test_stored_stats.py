"""What is noted beside draws on disk is what is noted beside the same draws in memory."""

import numpy as np
import pytest

import stalegrad as sg
from stalegrad.testing import small_model

KERNELS = {"without momentum": sg.SGLD(step_size=0.002), "with momentum": sg.SGHMC(step_size=0.02, friction=5.0)}


@pytest.mark.parametrize("name", KERNELS)
def test_stats_on_disk_are_those_in_memory(tmp_path, name):
    """All of them, also the last; and who has no momentum has no kinetic temperature in either place."""
    settings = {"steps": 60, "thin": 3, "servers": 2, "engine": "inline", "progress": False}
    in_memory = sg.sample(small_model(), KERNELS[name], **settings).stats
    stored = sg.sample(small_model(), KERNELS[name], store=tmp_path / "x", **settings).stats
    assert in_memory.gradient_norm.shape == (2, 20)
    np.testing.assert_array_equal(stored.gradient_norm, in_memory.gradient_norm)
    np.testing.assert_array_equal(stored.kinetic_temperature, in_memory.kinetic_temperature)
    assert np.isnan(stored.kinetic_temperature).all() == (name == "without momentum")
