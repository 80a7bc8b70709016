"""The figures of the checks of mixing, on draws that are made for them: agreement of chains and effective draws."""

import numpy as np
import pytest

import stalegrad as sg
from stalegrad.analysis.diagnostics.checks.mixing import ESS_LIMIT, RHAT_LIMIT, check_agreement, check_effective_draws
from stalegrad.analysis.diagnostics.evidence import Evidence

KERNEL = sg.SGLD(step_size=0.1)


def normal(*shape, seed=1):
    return np.random.Generator(np.random.Philox(seed)).standard_normal(shape)


def autoregression(rho, *shape):
    values = normal(*shape)
    values[:, 0] /= np.sqrt(1 - rho**2)
    for step in range(1, shape[1]):
        values[:, step] += rho * values[:, step - 1]
    return values


def evidence(draws):
    chains, length, _ = draws.shape
    return Evidence(
        draws=draws,
        step_sizes=np.full((chains, length), 0.1),
        kinetic_temperature=np.full((chains, length), np.nan),
        trace=sg.Trace.constant_staleness(0, length, chains=chains),
        kernels=(KERNEL,) * chains,
    )


class TestAgreement:
    def test_chains_that_agree_are_no_finding(self):
        measured, finding = check_agreement(evidence(normal(4, 500, 5)))
        assert measured.figure < RHAT_LIMIT
        assert finding is None

    def test_a_chain_that_sits_elsewhere(self):
        """Two standard deviations away in one of five parameters; of such a mean the standard error is a twentieth."""
        draws = normal(4, 500, 5)
        draws[2, :, 3] += 2.0
        measured, finding = check_agreement(evidence(draws))
        assert measured.figure > 1.2
        assert finding is not None
        assert "theta[3]" in measured.what
        assert "chance" not in measured.what
        assert "have seen different laws" in finding.why

    def test_a_chain_that_is_too_wide(self):
        """Its mean is that of the others, its spread is not."""
        draws = normal(3, 500, 5)
        draws[1, :, 4] *= 3
        measured, finding = check_agreement(evidence(draws))
        assert finding is not None
        assert "theta[4]" in measured.what
        assert "have seen different laws" in finding.why


class TestEffectiveDraws:
    def test_the_advice_is_a_fifth_more_than_what_would_be_enough(self):
        measured, finding = check_effective_draws(evidence(autoregression(0.95, 2, 1000, 5)))
        assert measured.limit == ESS_LIMIT
        assert 0.3 * ESS_LIMIT < measured.figure < 0.7 * ESS_LIMIT
        assert finding.advice.longer == pytest.approx(1.2 * ESS_LIMIT / measured.figure)
        assert finding.severity == "warning"

    def test_independent_draws_are_enough(self):
        measured, finding = check_effective_draws(evidence(normal(2, 200, 5)))
        assert measured.figure > ESS_LIMIT
        assert finding is None
