"""Steps that chains do not stand are shortened, and other modes are found."""

import numpy as np
import pytest

import stalegrad as sg
from stalegrad.potentials.coordinates import Coordinates
from stalegrad.potentials.wrappers.whitened import InCoordinates
from stalegrad.protocol.architectures import StaleGradients
from stalegrad.runs.warmup.modes import other_mode
from stalegrad.runs.warmup.trial import stood

from .given import Given, two_wells

DRAWS = np.random.default_rng(0).normal(size=(4, 50, 2))
TURNING = StaleGradients(linear=1.0, look_ahead="auto", course="turning")


def coordinates(centre, scale):
    return Coordinates(np.asarray(centre, np.float64), scale=np.asarray(scale, np.float64))


def tried(slope, step, workers):
    target = InCoordinates(Given(slope, 2), coordinates([0.0, 0.0], [1.0, 1.0]))
    kernel = sg.Harmonic(step_size=step, friction=0.7)
    return stood(
        kernel, target, DRAWS, TURNING, workers=workers, staleness=workers - 1, steps=1600, bias=0.05, seed=0
    ).kernel.step_size  # fmt: skip


@pytest.mark.parametrize("workers", [1, 4])
def test_on_a_normal_posterior_a_step_stands(workers):
    assert tried(lambda theta: theta, 0.5, workers) == 0.5


def test_a_step_that_a_steep_wall_does_not_forgive_is_shortened():
    def wall(theta):
        return theta + np.where(theta > 1, 200 * (theta - 1), 0.0)

    assert tried(wall, 0.5, 1) < 0.25
    assert tried(wall, 0.5, 4) < tried(wall, 0.5, 1)


def walls(theta):
    """A flat place between two walls."""
    return 0.4 * theta + 10 * (np.maximum(theta - 1.5, 0) - np.maximum(-theta - 1.5, 0))


def test_a_step_that_heats_chains_is_shortened_though_they_stay():
    """With 1.4 · 0.5 momenta are two to four times too hot, and no chain gets beyond 6, where 12 is outside."""
    assert tried(walls, 0.5, 1) < 0.45
    assert tried(walls, 0.3, 1) == 0.3


@pytest.mark.parametrize(
    ("kernel", "known"),
    [(sg.Harmonic(step_size=0.2, friction=0.7), True), (sg.SGLD(step_size=0.05), False),
     (sg.SGNHT(step_size=0.05, noise=1.0), False)],
)  # fmt: skip
def test_only_a_free_momentum_tells_how_hot_chains_are(kernel, known):
    target = InCoordinates(Given(lambda theta: theta, 2), coordinates([0.0, 0.0], [1.0, 1.0]))
    trial = stood(kernel, target, DRAWS, StaleGradients(), workers=1, staleness=0, steps=1600, bias=0.05, seed=0)
    assert (trial.stood, trial.heat_known) == (True, known)


def test_no_step_stands_where_every_one_overflows():
    target = InCoordinates(Given(lambda theta: np.full_like(theta, np.nan), 2), coordinates([0, 0], [1, 1]))
    kernel = sg.Harmonic(step_size=0.5, friction=0.7)
    trial = stood(kernel, target, DRAWS, TURNING, workers=1, staleness=0, steps=1600, bias=0.05, seed=0)
    assert not trial.stood


def test_another_mode_is_found_with_how_high_it_is():
    around = coordinates([1.0, 0.0], [1 / np.sqrt(32), 1.0])
    found = other_mode(Given(two_wells, 2), around, DRAWS, seed=0)
    assert found is not None
    assert found.distance == pytest.approx(2 * np.sqrt(32), rel=0.05)
    assert found.height == pytest.approx(0.0, abs=0.01)


def test_a_mode_with_more_of_the_posterior_is_known_by_its_mass():
    """U has minima of the heights 0 and −10 or so at ±1; the second is heavier, unless it is far narrower."""

    def tilted(theta):
        return np.array([160 * theta[0] * (theta[0] ** 2 - 1) - 5.0, theta[1]])

    around = coordinates([-1.0, 0.0], [1 / np.sqrt(320), 1.0])
    found = other_mode(Given(tilted, 2), around, DRAWS, seed=0)
    assert found.height == pytest.approx(-10.0, rel=0.1)
    np.testing.assert_allclose(found.place, [1.0, 0.0], atol=0.05)
    assert found.heavier(Given(tilted, 2))
    assert not found._replace(height=10.0).heavier(Given(tilted, 2))
    assert not found._replace(height=-3.0).heavier(Given(tilted, 2))


def test_a_part_of_the_data_has_its_mode_elsewhere_and_that_is_no_other_mode():
    """That of 20,000 of 100,000 data is two standard deviations off in each direction, beyond all draws."""
    around, shifted = coordinates([0, 0], [1, 1]), Given(lambda theta: theta - 30.0, 2)
    assert other_mode(shifted, around, DRAWS, seed=0) is None


def test_there_is_no_other_mode_where_there_is_one_alone():
    assert other_mode(Given(lambda theta: theta + theta**3, 2), coordinates([0, 0], [1, 1]), DRAWS, seed=0) is None
