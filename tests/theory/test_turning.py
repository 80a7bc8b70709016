"""The turning course: what is left of staleness by the exact oracle, and in chains that are not linear."""

import numpy as np
import pytest

import stalegrad as sg
from stalegrad.theory import stale_harmonic, turned


@pytest.mark.parametrize("owned", [1.0, 2.5])
@pytest.mark.parametrize("friction", [0.5, 0.7])
def test_the_point_has_the_law_of_theta_and_the_error_is_of_second_order_in_the_residual(owned, friction):
    tau, h = 7, 0.1 / np.sqrt(owned)
    kept, ahead = turned(owned, friction * np.sqrt(owned), tau * h)
    assert kept**2 + owned * ahead**2 == pytest.approx(1.0)

    def error(excess, **point):
        curvature = owned * (1 + excess)
        chain = stale_harmonic(curvature, h, friction * np.sqrt(owned), tau, well=owned, owned=owned, **point)
        return chain.variance * curvature - 1

    # of the discrete chain, whose own error at this step is below 0.003 of the excess
    small, twice = (abs(error(e, kept=kept, ahead=ahead)) for e in (0.05, 0.1))
    assert small < 0.01 * 0.05 + 0.2 * 0.05**2
    assert twice < 0.01 * 0.1 + 0.2 * 0.1**2
    assert abs(error(0.1)) > 10 * twice  # plain


def test_without_age_it_is_the_chains_own_point_and_for_little_of_it_the_straight_course():
    assert turned(1.0, 1.5, 0.0) == pytest.approx((1.0, 0.0))
    kept, ahead = turned(1.0, 1.5, 1e-3)
    assert ahead == pytest.approx(1e-3, rel=1e-2)
    assert kept == pytest.approx(1.0, abs=1e-6)


def test_where_gradients_are_too_old_the_law_is_kept():
    kept, ahead = turned(1.0, 2.0, 3.0)
    assert kept**2 + ahead**2 == pytest.approx(1.0)


def test_the_course_needs_a_well():
    with pytest.raises(sg.ArgumentError, match="needs a well"):
        sg.StaleGradients(look_ahead="auto", course="turning")
    with pytest.raises(sg.ArgumentError, match="needs a well"):
        sg.StaleGradients(linear=[1.0, 2.0], look_ahead="auto", course="turning")
