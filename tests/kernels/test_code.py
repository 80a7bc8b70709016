"""A kernel's call as reports and recommendations print it: run again, it makes the kernel."""

import pytest

import stalegrad as sg
from stalegrad.kernels import kernel_table
from stalegrad.kernels.code import kernel_code
from stalegrad.kernels.temperatures import Annealing

PLAIN = sg.SGHMC(step_size=0.01, friction=2.0)
KERNELS = {
    "plain": PLAIN,
    "schedule": sg.SGLD(step_size=sg.schedules.Polynomial(0.1, 2.0, 0.5)),
    "optimise, then sample": PLAIN.after_optimising(100, step_size=0.1),
    "falling steps, then sample": PLAIN.after_optimising(100, step_size=sg.schedules.Cyclical(0.1, 100)),
    "cycles": PLAIN.in_cycles(100, explore=0.5),
    "optimise, then cycles": PLAIN.in_cycles(100).after_optimising(50),
    "annealing": sg.BAOAB(step_size=0.01, friction=2.0, temperature=Annealing(5.0, 1.0, 13)),
}


@pytest.mark.parametrize("name", KERNELS)
def test_what_is_printed_makes_the_kernel(name):
    assert eval(kernel_code(kernel_table(KERNELS[name])), {"sg": sg}) == KERNELS[name]
