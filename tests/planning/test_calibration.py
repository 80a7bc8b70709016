"""Calibrations of small jobs: that everything is measured, not how long it takes."""

import numpy as np
import pytest

from stalegrad._internal.errors import ArgumentError
from stalegrad.engines import available_cores
from stalegrad.planning import calibrate, forecast

from .made_up import job

pytestmark = pytest.mark.long


@pytest.mark.parametrize("engine", ["threads", "processes"])
def test_everything_is_measured(engine):
    described = job(engine=engine, servers=2, max_staleness=5)
    potential = described.potential()
    told = []
    calibration, run, kernels, *_ = calibrate(described, potential, seconds=0.1, report=told.append)
    assert list(calibration.gradients) == [5, 10, 20, 40]
    assert all(seconds > 0 for seconds in calibration.gradients.values())
    assert calibration.update > 0
    assert calibration.cores == available_cores()
    assert [trip.workers for trip in calibration.round_trips][:2] == [1, 2]
    for trip in calibration.round_trips:
        assert min(trip.gradient, trip.served, trip.updates_per_second) > 0
        assert trip.gradient + trip.served <= trip.workers / trip.updates_per_second * (1 + 1e-9)
    assert calibration.alone.mean_staleness == 0
    assert run.draws.shape[0] == len(kernels) == 2
    assert not calibration.diverged
    assert any("2 workers" in what for what in told)


def test_minibatches_are_never_larger_than_the_data():
    described = job(model=job().model.__class__("stalegrad.datasets.models:gaussian", {"n_data": 12, "batch_size": 10}))
    calibration, *_ = calibrate(described, described.potential(), seconds=0.05)
    assert list(calibration.gradients) == [5, 10, 12]


def test_a_job_that_diverges_is_measured_and_told_which_step_to_take():
    made = forecast(job(step_size=1e3), seconds=0.1, max_workers=4)
    assert made.calibration.diverged
    assert "diverged" in made.advice.warnings[0]
    assert np.isclose(made.step_sizes.curvature, 101, rtol=0.02)  # N/σ² + 1/ς² of the Gaussian
    assert 0 < made.advice.step_size_factor * 1e3 < 2 / 101


def test_virtual_time_is_nothing_to_measure():
    described = job(engine="inline")
    with pytest.raises(ArgumentError, match="--engine threads"):
        calibrate(described, described.potential())


def test_a_curvature_that_would_take_too_long_is_left_out():
    made = forecast(job(), seconds=1e-6, max_workers=2)
    assert made.step_sizes is None
    assert "give --seconds" in made.unchecked
    assert all(row.error is None for row in made.rows)
