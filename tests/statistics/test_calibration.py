"""Simulation-based calibration of all kernels: small by ``make test-slow``, 500 data sets by ``make check-statistics``.

That command is ``pytest tests/statistics --full``. It takes 11 minutes of one core, half of that with two, and prints
every p-value of this test and of Geweke's.

The false-alarm rate is 10⁻⁶ over all kernels, kinds of staleness and functions of the parameters together. The error
that step size and staleness cause is computed, see :mod:`.calibration`, and must be below a quarter of 1/√(data sets):
D is about 0.9/√(data sets) by chance, and 4.5/√(data sets) where the test fails.
"""

from dataclasses import dataclass

import pytest

from .calibration import distance_from_posterior, p_values, uniform_ranks
from .cases import KERNELS, STALENESS, case
from .conjugate import NormalMean
from .wrong_samplers import FAULTS

pytestmark = pytest.mark.long

MODEL = NormalMean(coordinates=8)
TESTS = len(KERNELS) * len(STALENESS) * (MODEL.coordinates + 1)
FALSE_ALARM = 1e-6 / TESTS


@dataclass(frozen=True)
class Size:
    """How much is simulated, and the fault in temperature that this much can see."""

    data_sets: int
    draws: int
    relative_step: float
    wrong_temperature: float


@pytest.fixture(scope="module")
def size(full):
    return Size(500, 31, 0.0025, 1.3) if full else Size(40, 15, 0.01, 3.0)


def _steps(relative_step):
    return round(4 / relative_step)


@pytest.mark.parametrize("kernel", KERNELS)
def test_ranks_are_uniform(kernel, staleness, size, add_row):
    sampler = case(kernel, MODEL, size.relative_step)
    trace = STALENESS[staleness](_steps(size.relative_step))
    distance = distance_from_posterior(sampler, trace, MODEL)
    assert distance < 0.25 * size.data_sets**-0.5, "the step is too large: its bias is not below the test's resolution"
    seed = 1000 + KERNELS.index(kernel) * len(STALENESS) + list(STALENESS).index(staleness)
    ranks = uniform_ranks(sampler, trace, MODEL, MODEL, data_sets=size.data_sets, draws=size.draws, seed=seed)
    p = p_values(ranks, distance)
    add_row(
        f"simulation-based calibration with {size.data_sets} data sets; p < {FALSE_ALARM:.1e} fails",
        kernel=kernel, staleness=staleness, updates=f"{len(trace.chains[0])}", bias=f"{distance:.4f}",
        **{"p of θ": " ".join(f"{value:.3f}" for value in p[:-1]), "p of U(θ)": f"{p[-1]:.3f}"},
    )  # fmt: skip
    assert p.min() > FALSE_ALARM, f"{kernel} with {staleness} gradients, seed {seed}: p-values {p} of θ and last of U"


@pytest.mark.parametrize("fault", FAULTS)
def test_a_wrong_sampler_is_noticed(fault, size, add_row):
    """The same test, with the allowance that SGLD at its right step gets, fails each of these."""
    wrong = FAULTS[fault](MODEL, size.relative_step, size.wrong_temperature)
    right = case("SGLD", MODEL, size.relative_step)
    allowance = distance_from_posterior(right, STALENESS["random"](_steps(size.relative_step)), MODEL)
    ranks = uniform_ranks(
        wrong.case, wrong.trace(_steps(wrong.relative_step)), wrong.model, wrong.believed,
        data_sets=size.data_sets, draws=size.draws, seed=999,
    )  # fmt: skip
    p = p_values(ranks, allowance).min()
    add_row("simulation-based calibration of wrong samplers, to be noticed", fault=fault, p=f"{p:.1e}")
    assert p < FALSE_ALARM
