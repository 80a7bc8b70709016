"""Temperatures that change: their formulas, the stages they make, and what a kernel is at an update."""

import pickle

import numpy as np
import pytest

import stalegrad as sg
from stalegrad.kernels import SAMPLERS, kernel_from_table, kernel_table
from stalegrad.kernels.schedules import Changed
from stalegrad.kernels.temperatures import Annealing, Exploration, Stages, stages

STEPS = np.arange(12)
FORMULAS = {
    "exploration": (Exploration(5, 3, 2.0), np.where(STEPS % 5 < 3, 0.0, 2.0)),
    "annealing": (Annealing(8.0, 0.5, 4), 8.0 * 16.0 ** (-np.minimum(STEPS, 4) / 4)),
    "optimise, then cycles": (Changed(0.0, Exploration(5, 3), 6), np.where((STEPS < 6) | (STEPS % 5 < 3), 0.0, 1.0)),
}
OWN = [sampler for sampler in SAMPLERS.values() if not sampler.made_of_functions]
TEMPERED = [example.for_model(100, 10) for sampler in OWN for example in sampler.examples()]


@pytest.mark.parametrize("name", FORMULAS)
def test_formulas(name):
    schedule, expected = FORMULAS[name]
    np.testing.assert_allclose(schedule(STEPS), expected, rtol=1e-12)
    np.testing.assert_allclose([schedule(step) for step in STEPS.tolist()], expected, rtol=1e-12)


@pytest.mark.parametrize("kernel", TEMPERED, ids=lambda kernel: type(kernel).__name__)
@pytest.mark.parametrize("name", FORMULAS)
def test_a_kernel_at_an_update_is_the_one_of_that_temperature(kernel, name):
    schedule, expected = FORMULAS[name]
    changing = pickle.loads(pickle.dumps(type(kernel)(**{**_fields(kernel), "temperature": schedule})))
    for update, temperature in enumerate(expected.tolist()):
        constant = type(kernel)(**{**_fields(kernel), "temperature": float(schedule(update))})
        assert changing.at(update) == constant
        assert changing.at(update).coefficients(0.01, 0.02) == constant.coefficients(0.01, 0.02)
        assert constant.temperature == pytest.approx(temperature)
    if not isinstance(kernel, sg.SGRLD):  # whose metric is a function
        assert kernel_from_table(kernel_table(changing)) == changing
    assert kernel.at(3) is kernel


def test_stages_follow_from_the_temperature():
    kernel = sg.SGLD(step_size=0.1)
    assert kernel.stages == Stages()
    assert kernel.after_optimising(40).stages == Stages(begin=40)
    assert kernel.in_cycles(50, explore=0.5).stages == Stages(cycle=50, explore=25)
    assert kernel.in_cycles(50, explore=0.5).after_optimising(70).stages == Stages(70, 50, 25)
    assert stages(Annealing(9.0, 1.0, 30)) == Stages(begin=30)
    assert stages(lambda update: 1.0) == Stages()


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: Exploration(10, 10), "leaves no sampling"),
        (lambda: sg.SGLD(step_size=0.1, temperature=lambda update: -1.0), "gives T_0 = -1.0"),
        (lambda: sg.SGLD(temperature=Exploration(10, 5)), "found for one temperature"),
        (lambda: sg.SGLD(step_size=Exploration(10, 5)), "gives h_0 = 0.0"),
        (lambda: sg.SGLD(step_size=Changed(0.1, 0.0, 0)), "gives h_0 = 0.0"),
        (lambda: sg.SGLD(step_size=0.1).in_cycles(10).in_cycles(10), "changes already"),
    ],
)
def test_refusals(make, words):
    with pytest.raises(sg.ArgumentError, match=words):
        make()


def _fields(kernel):
    return {name: value for name, value in vars(kernel).items() if name not in ("schedule", "heat", "_tempered")}
