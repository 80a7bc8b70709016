"""The first order and the limit of stability, against the exact recursions that they are about."""

import doctest
from pathlib import Path

import numpy as np
import pytest

import stalegrad as sg
from stalegrad.theory import (
    Direction,
    bias_bound,
    effective_staleness,
    owned_stability_limit,
    stability_limit,
    stale_sghmc,
    stale_sgld,
    staleness_error,
)

KERNELS = (
    sg.SGHMC(step_size=1e-4, friction=2.0),
    sg.SGHMC(step_size=1e-4, friction=2.0, integrator="splitting"),
    sg.BAOAB(step_size=1e-4, friction=2.0),
    sg.UBU(step_size=1e-4, friction=2.0),
)


@pytest.mark.parametrize("owned", [0.0, 0.7, 1.0, 1.6])
def test_the_first_order_of_sgld(owned):
    h, tau = 1e-5, 7
    stale, fresh = (stale_sgld(1.3, h, t, owned=owned).variance for t in (tau, 0))
    assert (stale / fresh - 1) / h == pytest.approx(float(staleness_error(1.3, h, tau, owned=owned)) / h, abs=2e-3)


@pytest.mark.parametrize("kernel", KERNELS, ids=lambda k: f"{type(k).__name__}{k.order}")
@pytest.mark.parametrize(("owned", "course"), [(0.0, 0.0), (0.0, 1.0), (0.7, 0.5), (1.6, 1.0)])
def test_the_first_order_of_samplers_with_a_momentum(kernel, owned, course):
    h, tau = 1e-4, 7
    stale = kernel.recursion(h, tau, Direction(1.3, owned=owned, ahead=course * tau * h)).variance
    fresh = kernel.recursion(h, 0, Direction(1.3)).variance
    expected = staleness_error(1.3, h, tau, owned=owned, friction=2.0, ahead=course * tau * h)
    assert (stale / fresh - 1) / h == pytest.approx(float(expected) / h, abs=0.01)


def test_on_the_straight_course_the_error_is_of_higher_order():
    """On a Gaussian of the third."""
    errors = []
    for h in (0.02, 0.01, 0.005):
        stale = stale_sghmc(1.0, h, 2.0, 8, ahead=8 * h).variance
        errors.append(stale - stale_sghmc(1.0, h, 2.0, 0).variance)
    assert 2.7 < np.log2(errors[0] / errors[1]) < 3.3
    assert 2.7 < np.log2(errors[1] / errors[2]) < 3.3


@pytest.mark.parametrize("tau", [0, 1, 4, 15, 16])
@pytest.mark.parametrize("owned", [0.0, 0.3, 0.8, 1.0, 1.4, 3.0])
def test_the_limit_of_stability_is_where_the_recursion_stops_to_be_stable(tau, owned):
    limit = owned_stability_limit(1.3, tau, owned)
    assert stale_sgld(1.3, 0.999 * limit, tau, owned=owned).stable
    assert not stale_sgld(1.3, 1.001 * limit, tau, owned=owned).stable
    for share in (0.05, 0.3, 0.7):
        assert stale_sgld(1.3, share * limit, tau, owned=owned).stable


def test_without_ownership_it_is_the_limit_that_is_known():
    for tau in (0, 3, 10):
        assert owned_stability_limit(2.0, tau, 0.0) == pytest.approx(float(stability_limit(2.0, tau)), rel=1e-6)


def test_up_to_twice_what_is_owned_no_staleness_is_too_large():
    for curvature in (0.1, 0.9, 1.9):
        assert owned_stability_limit(curvature, 64, 1.0) >= 1.0


def test_bounds_with_the_staleness_that_counts():
    tau = effective_staleness(1.2, 10, 1.0)
    assert bias_bound(1000, 0.1, tau) == pytest.approx(0.01 + 0.1 * 10 * 0.2 / 1.2 + 0.1)


def test_sgld_has_nowhere_to_look_ahead():
    with pytest.raises(sg.ArgumentError, match=r"ahead.*momentum"):
        staleness_error(1.0, 0.1, 3, ahead=0.1)


def test_the_figures_on_the_page():
    page = Path(__file__).resolve().parents[2] / "docs" / "free-staleness.md"
    found = doctest.testfile(str(page), module_relative=False, globs={"sg": sg})
    assert found.attempted == 9
    assert found.failed == 0
