"""Curvature that is owned and is not there: what is left of the bias is found, and a shorter step takes it away."""

import numpy as np
import pytest
from scipy import stats

import stalegrad as sg
from stalegrad.analysis.diagnostics.curvature import average_curvature, largest_curvature
from stalegrad.potentials import from_gradient

VARIANCE = np.pi**2 / 4
TRACE = sg.Trace.constant_staleness(16, steps=2000)


def long_tails(coordinates=64):
    """Every coordinate has the density 1/(π cosh θ): U'' is 1 at the mode and sech² θ elsewhere."""
    return from_gradient(lambda theta, indices: np.tanh(theta), size=coordinates, n_data=1, dtype=np.float64)


def run_of(step_size, architecture, trace=TRACE, thin=1):
    kernel = sg.SGLD(step_size=step_size)
    return sg.replay(trace, long_tails(), kernel, burn_in=300, thin=thin, architecture=architecture), kernel


def test_tails_that_are_longer_than_the_owned_curvature_says():
    run, kernel = run_of(0.06, sg.StaleGradients(linear=1.0))
    variances = run.draws[0].var(axis=0)
    short = 1 - variances.mean() / VARIANCE
    error = variances.std() / VARIANCE / np.sqrt(len(variances))
    assert short > 0.1 + stats.norm.isf(1e-6) * error  # the bias is there
    found = run.diagnose(long_tails(), kernel=kernel)
    assert "owned part" in found.names
    finding = found[found.names.index("owned part")]
    assert "too small" in finding.measurement.what
    factor = finding.advice.step
    assert 0.05 < factor < 0.7
    better, kernel = run_of(0.06 * factor, sg.StaleGradients(linear=1.0))
    assert "owned part" not in better.diagnose(long_tails(), kernel=kernel).names


@pytest.mark.parametrize("linear", [0.0, 0.2])
def test_nothing_is_said_where_no_more_is_owned_than_there_is(linear):
    run, kernel = run_of(0.01, sg.StaleGradients(linear=linear))
    assert "owned part" not in run.diagnose(long_tails(), kernel=kernel).names


def test_curvature_on_average_over_draws_is_not_that_of_the_flattest_or_the_steepest():
    """E U'' is ½ along every direction, and at a draw between 0 and 1 along some. Along a direction that was found
    on other draws the average is unbiased; it is within 6 of its standard errors, which are below 0.1."""
    uniform = np.random.default_rng(0).uniform(size=(64, 64))
    draws = np.log(np.tan(np.pi * uniform / 2))
    found = average_curvature(long_tails(), draws, gradients=64)
    assert found.error < 0.1
    assert abs(found.value - 0.5) < 6 * found.error
    assert np.linalg.norm(found.direction) == pytest.approx(1.0)
    assert largest_curvature(long_tails(), draws[-2:]).value > 0.9
