"""Schedules against their formulas, one by one and for many updates at once."""

import numpy as np
import pytest

import stalegrad as sg
from stalegrad.kernels.schedules import as_schedule

STEPS = np.arange(10)
FORMULAS = {
    "polynomial": (sg.schedules.Polynomial(0.2, 3.0, 0.4), 0.2 * (3.0 + STEPS) ** -0.4),
    "inverse": (sg.schedules.Inverse(0.2, 0.5, 0.75), 0.2 * (1 + 0.5 * STEPS) ** -0.75),
    "cyclical": (
        sg.schedules.Cyclical(0.2, 4, 0.01),
        0.01 + 0.1 * (1 + np.tile(np.cos(np.pi * np.arange(4) / 4), 3)[:10]),
    ),
    "constant": (sg.schedules.Constant(0.2), np.full(10, 0.2)),
}


@pytest.mark.parametrize("name", FORMULAS)
def test_formulas(name):
    schedule, expected = FORMULAS[name]
    np.testing.assert_allclose(schedule(STEPS), expected, rtol=1e-12)
    np.testing.assert_allclose([schedule(step) for step in range(10)], expected, rtol=1e-12)


def test_a_function_that_gives_a_step_that_is_none_is_refused_at_that_update():
    schedule = as_schedule(lambda l: 0.1 - 0.05 * l)  # noqa: E741
    assert schedule(1) == pytest.approx(0.05)
    with pytest.raises(sg.ArgumentError, match="gives h_2"):
        schedule(2)


def test_a_friction_at_which_eulers_momentum_does_not_decay_is_refused():
    sg.SGHMC(step_size=0.5, friction=3.99)
    with pytest.raises(sg.ArgumentError, match=r"friction=4\.0"):
        sg.SGHMC(step_size=0.5, friction=4.0)
