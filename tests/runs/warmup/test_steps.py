"""The step that is chosen, against the exact oracle for Gaussian targets."""

import numpy as np
import pytest

import stalegrad as sg
from stalegrad.protocol.architectures import StaleGradients
from stalegrad.runs.warmup.steps import LONGEST, Conditions, chosen
from stalegrad.theory import stale_harmonic, stale_sghmc

BIAS = 0.05


def conditions(curvature, noise, staleness, linear):
    architecture = StaleGradients(linear=linear)
    return Conditions(
        staleness, curvature, curvature, noise, architecture, architecture.owned_along(np.ones(1)), staleness + 1, BIAS
    )


@pytest.mark.parametrize("noise", [0.0, 0.3, 100.0])
@pytest.mark.parametrize("staleness", [0, 1, 7])
@pytest.mark.parametrize("curvature", [1.0, 1.5, 30.0])
@pytest.mark.parametrize("linear", [0.0, 1.0])
def test_variances_are_right_within_the_bias_whatever_was_measured(noise, staleness, curvature, linear):
    found = conditions(curvature, noise, staleness, linear)
    harmonic = chosen(sg.Harmonic(), found)
    splitting = chosen(sg.SGHMC(integrator="splitting"), found)
    for kernel, oracle, more in (
        (harmonic, stale_harmonic, {"well": 1.0}), (splitting, stale_sghmc, {"integrator": "splitting"}),
    ):  # fmt: skip
        for along in {1.0, curvature}:
            chain = oracle(
                along, kernel.step_size, kernel.friction, staleness, gradient_variance=noise, owned=linear, **more
            )
            assert abs(chain.variance * along - 1) <= BIAS * (1 + 1e-9)


def test_on_a_normal_posterior_staleness_costs_nothing_where_the_server_owns_the_linear_part():
    assert chosen(sg.Harmonic(), conditions(1.0, 0.0, 31, linear=1.0)).step_size == LONGEST
    assert chosen(sg.Harmonic(), conditions(1.0, 0.0, 31, linear=0.0)).step_size < 0.1 * LONGEST


def test_what_a_kernel_has_stays():
    kernel = chosen(sg.SGHMC(step_size=0.01), conditions(1.0, 0.0, 0, linear=1.0))
    assert kernel.step_size == 0.01
    assert np.isfinite(kernel.friction)


def test_a_sampler_without_a_theory_is_refused():
    with pytest.raises(sg.ArgumentError, match="learns a metric"):
        chosen(sg.PSGLD(), conditions(1.0, 0.0, 0, linear=1.0))
