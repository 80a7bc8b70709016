"""The same run once more with half the step size."""

import numpy as np
import pytest

import stalegrad as sg
from stalegrad.analysis.diagnostics import step_halving
from stalegrad.theory import stale_sgld

from .models import SIZE, STIFFEST, linear, sampled, sghmc, sgld, sgnht

pytestmark = pytest.mark.long


@pytest.mark.parametrize(("h_curvature", "workers"), [(1.0, 1), (0.2, 4)])
def test_the_difference_is_that_of_the_theory(h_curvature, workers):
    """Variances along the stiffest direction, at h and at h/2 with the same staleness in updates."""
    kernel, h, tau, potential = sgld(h_curvature), h_curvature / STIFFEST, workers - 1, linear()
    origin = potential.full_gradient(np.zeros(SIZE))[-1]
    mean = -origin / STIFFEST  # coordinates are independent
    run = sampled(kernel, steps=6000, workers=workers)
    functions = {"deviation": lambda theta: theta[-1] - mean, "square": lambda theta: (theta[-1] - mean) ** 2}
    found = step_halving(run.draws, run.trace, potential, (kernel, kernel), functions)
    full, half = (stale_sgld(STIFFEST, step, tau).variance for step in (h, h / 2))
    square, deviation = found["square"], found["deviation"]
    assert abs(float(square.full) - full) < 5 * square.full.standard_error
    assert abs(float(square.half) - half) < 5 * square.half.standard_error
    exact = 2 * (full - half) / (np.sqrt(2) * half)
    assert abs(float(square.bias) - exact) < 5 * square.bias_error
    assert exact > 5 * square.bias_error, "the test would not see that there is a bias"
    assert abs(float(deviation.bias)) < 5 * deviation.bias_error, "the mean has none"


def test_the_same_time_is_run_and_draws_are_taken_at_the_same_times():
    """Without noise and at a tiny step both runs follow the same path, burn-in, thinning and schedule included."""
    potential = linear(dtype=np.float64)
    schedule, faster = (sg.schedules.Polynomial(a=a, b=5.0, gamma=0.3) for a in (2e-4, 2e-3))
    for kernel in (
        sg.SGLD(step_size=schedule, temperature=0.0),
        sg.SGHMC(step_size=faster, friction=5.0, integrator="splitting", temperature=0.0),
    ):
        run = sg.sample(
            potential, kernel, steps=600, workers=2, burn_in=50, thin=10, engine="inline", progress=False,
            initial=np.full(SIZE, 2.0),
        )  # fmt: skip
        path = step_halving(run.draws, run.trace, potential, (kernel,), {"θ": lambda theta: theta}, most_draws=10)["θ"]
        assert np.ptp(run.draws[0, :, -1]) > 0.05
        np.testing.assert_allclose(path.half.value, path.full.value, atol=2e-3)
        np.testing.assert_allclose(path.spread, run.draws[0, 5::6].std(axis=0), rtol=0.02)


CASES = {
    "SGLD": (sgld(0.1), 100, {}, False),
    "SGHMC": (sghmc(0.15, 6.0, "splitting"), 100, {}, False),
    "SGLD, step": (sgld(1.2), None, {}, True),
    "SGHMC, stale": (sghmc(0.3, 6.0, "splitting"), None, {"workers": 4}, True),
    "SGNHT, step": (sgnht(1.2, 1.0, "splitting"), None, {}, True),
}


@pytest.mark.parametrize("name", CASES)
def test_the_warning_fires_on_bias_and_is_silent_on_health(name):
    kernel, batch_size, options, fires = CASES[name]
    findings = sampled(kernel, batch_size, **options).diagnose(linear(batch_size), step_halving=True)
    assert ("step halving" in findings.names) is fires, str(findings)
    assert "step halving" not in findings.skipped
    if fires:
        assert findings.recommendation.step_size < kernel.step_size


def test_functions_of_the_user_are_compared():
    run = sampled(sgld(1.2))
    centre = run.draws.mean(axis=(0, 1))
    functions = {"mean": lambda theta: theta.sum(), "squares": lambda theta: (theta - centre) ** 2}
    found = run.diagnose(linear(), functions=functions, step_halving=True)
    assert "squares" in found[found.names.index("step halving")].measurement.what


def test_it_needs_the_model():
    assert (
        sampled(sgld(0.1), steps=400).diagnose(step_halving=True).skipped["step halving"].startswith("needs the model")
    )
