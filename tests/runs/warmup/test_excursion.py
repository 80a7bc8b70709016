"""Chains that are pushed as far as a run will go must come back, and a step from which they do not is shortened."""

import numpy as np
import pytest

import stalegrad as sg
from stalegrad.potentials.coordinates import Coordinates
from stalegrad.potentials.wrappers.whitened import InCoordinates
from stalegrad.protocol.architectures import StaleGradients
from stalegrad.runs.warmup.excursion import come_back
from stalegrad.runs.warmup.trial import stood

from .given import Given

DRAWS = np.random.default_rng(0).normal(size=(4, 50, 2))
TURNING = StaleGradients(linear=1.0, look_ahead="auto", course="turning")


def gap(theta):
    """The logarithm of a gamma variable of shape 6, of about unit scale: a wall to the right, a slope to the left."""
    return np.sqrt(6) * (np.exp(np.minimum(theta / np.sqrt(6), 80)) - 1)


def backs(slope, step, workers, kernel=None, steps=20_000):
    target = InCoordinates(Given(slope, 2), Coordinates(np.zeros(2), scale=np.ones(2)))
    kernel = kernel or sg.Harmonic(step_size=step, friction=0.5)
    return come_back(
        kernel, target, DRAWS, TURNING, workers=workers, staleness=workers - 1, steps=steps, seed=0, far=16.0
    )  # fmt: skip


@pytest.mark.parametrize("workers", [1, 8])
def test_on_a_normal_posterior_they_come_back(workers):
    back, gradients = backs(lambda theta: theta, 0.42, workers)
    assert back
    assert gradients == 64 * 48, "64 chains for the time 20"


def test_late_gradients_of_a_skewed_posterior_send_them_away_unless_the_step_is_short():
    assert backs(gap, 0.42, 1)[0]
    assert not backs(gap, 0.42, 8)[0]
    assert backs(gap, 0.1, 8)[0]


def test_the_step_of_a_trial_is_one_from_which_they_come_back():
    target = InCoordinates(Given(gap, 2), Coordinates(np.zeros(2), scale=np.ones(2)))
    kernel = sg.Harmonic(step_size=0.42, friction=0.5)
    trial = stood(kernel, target, DRAWS, TURNING, workers=8, staleness=7, steps=20_000, bias=0.05, seed=0)
    assert trial.stood
    assert trial.kernel.step_size < 0.42
    assert backs(gap, trial.kernel.step_size, 8)[0]


def test_a_sampler_without_a_momentum_is_not_pushed():
    assert backs(gap, 0, 8, sg.SGLD(step_size=0.1)) == (True, 0)


def test_the_least_normal_parameters_are_pushed_where_there_are_too_many():
    """One chain to either side, five standard deviations: of the second parameter, which has no force beyond 4.2, if
    it is the one whose draws are skewed."""
    draws = np.random.default_rng(1).normal(size=(4, 50, 2))
    draws[..., 1] = np.exp(draws[..., 1])

    def cliff(theta):
        return np.where(np.abs(theta) > [1e9, 4.2], np.nan, theta)

    target = InCoordinates(Given(cliff, 2), Coordinates(np.zeros(2), scale=np.ones(2)))
    kernel = sg.Harmonic(step_size=0.1, friction=0.1)
    arguments = {"workers": 1, "staleness": 0, "seed": 0, "far": 1000.0}
    assert not come_back(kernel, target, draws, TURNING, steps=800, **arguments)[0]
    assert come_back(kernel, target, draws[..., ::-1], TURNING, steps=800, **arguments)[0]


def test_where_no_step_brings_them_back_it_stays_and_that_is_said():
    """The force ends at 5.2, where 20,000 updates of trial chains get with a probability of 1e-3."""

    def cliff(theta):
        return np.where(np.abs(theta) > 5.2, np.nan, theta)

    target = InCoordinates(Given(cliff, 2), Coordinates(np.zeros(2), scale=np.ones(2)))
    kernel = sg.Harmonic(step_size=0.3, friction=0.2)
    trial = stood(kernel, target, DRAWS, TURNING, workers=1, staleness=0, steps=20_000, bias=0.05, seed=0)
    assert not trial.stood
    assert trial.problem == "do not come back from where a run will take them, at any step down to 0.063"
    assert trial.kernel.step_size == 0.3
