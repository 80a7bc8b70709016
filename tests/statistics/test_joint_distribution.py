"""Geweke's joint-distribution test of every kernel: small by ``make test-slow``, precise by ``make check-statistics``.

The false-alarm rate is 10⁻⁶ over all kernels, kinds of staleness and moments together. The errors that step size and
staleness cause are computed, see :mod:`.joint_distribution`, and must be below half a standard error of every moment.
"""

from dataclasses import dataclass

import pytest

from .cases import KERNELS, STALENESS, case
from .conjugate import NormalMean
from .joint_distribution import (
    MOMENTS,
    allowances,
    compare,
    marginal_conditional,
    standard_errors,
    successive_conditional,
)
from .wrong_samplers import FAULTS

pytestmark = pytest.mark.long

TESTS = len(KERNELS) * len(STALENESS) * len(MOMENTS)
FALSE_ALARM = 1e-6 / TESTS


@dataclass(frozen=True)
class Size:
    """How much is simulated, and the fault in temperature that this much can see."""

    chains: int
    coordinates: int
    relative_step: float
    duration: float  # updates of a chain times the relative step
    wrong_temperature: float

    @property
    def model(self):
        return NormalMean(self.coordinates)

    def block(self, relative_step):
        """A quarter of the time in which SGLD forgets its start."""
        return max(1, round(0.25 / relative_step))

    def steps(self, relative_step):
        """A whole number of blocks."""
        block = self.block(relative_step)
        return block * round(self.duration / relative_step / block)


@pytest.fixture(scope="module")
def size(full):
    return Size(64, 64, 0.001, 12, 1.3) if full else Size(16, 40, 0.004, 6, 3.0)


@pytest.mark.parametrize("kernel", KERNELS)
def test_joint_law_stays(kernel, staleness, size, add_row):
    model, block = size.model, size.block(size.relative_step)
    sampler = case(kernel, model, size.relative_step)
    trace = STALENESS[staleness](size.steps(size.relative_step))
    seed = 2000 + KERNELS.index(kernel) * len(STALENESS) + list(STALENESS).index(staleness)
    successive = successive_conditional(sampler, trace, model, model, block=block, chains=size.chains, seed=seed)
    marginal = marginal_conditional(model, pairs=2000, seed=seed + 1000)
    allowed = allowances(sampler, trace, model, block=block)
    share = (allowed / standard_errors(successive, marginal)).max()
    assert share < 0.5, "the step is too large: its bias is not below the test's resolution"
    z, p = compare(successive, marginal, allowed)
    add_row(
        f"Geweke's joint-distribution test with {size.chains} chains: z and p; p < {FALSE_ALARM:.1e} fails",
        kernel=kernel, staleness=staleness, updates=f"{len(trace.chains[0])}", **{"bias/se": f"{share:.2f}"},
        **{name: f"{z_of:+.2f} {p_of:.3f}" for name, z_of, p_of in zip(MOMENTS, z, p, strict=True)},
    )  # fmt: skip
    assert p.min() > FALSE_ALARM, (
        f"{kernel} with {staleness} gradients, seed {seed}: z = {z}, p-values {p} of {MOMENTS}"
    )


@pytest.mark.parametrize("fault", FAULTS)
def test_a_wrong_sampler_is_noticed(fault, size, add_row):
    """The same test, with the allowance that SGLD at its right step gets, fails each of these."""
    wrong = FAULTS[fault](size.model, size.relative_step, size.wrong_temperature)
    block = size.block(wrong.relative_step)
    successive = successive_conditional(
        wrong.case, wrong.trace(size.steps(wrong.relative_step)), wrong.model, wrong.believed,
        block=block, chains=size.chains, seed=1999,
    )  # fmt: skip
    marginal = marginal_conditional(wrong.model, pairs=2000, seed=2999)
    right = case("SGLD", size.model, size.relative_step)
    trace = STALENESS["random"](size.steps(size.relative_step))
    allowed = allowances(right, trace, size.model, block=size.block(size.relative_step))
    z, p = compare(successive, marginal, allowed)
    words = {name: f"{value:+.1f}" for name, value in zip(MOMENTS, z, strict=True)}
    add_row(
        "Geweke's joint-distribution test of wrong samplers, to be noticed", fault=fault, **words, p=f"{p.min():.1e}"
    )
    assert p.min() < FALSE_ALARM
