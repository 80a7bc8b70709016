"""Chains that are on their way and chains that have arrived, on values that are made for it."""

import numpy as np
import pytest

from stalegrad.analysis.estimates.arrival import FAR, arrived, travel


def normal(*shape):
    return np.random.Generator(np.random.Philox(4)).standard_normal(shape)


def test_a_chain_that_came_from_afar_and_has_stopped_is_at_rest():
    """From 20 deviations away at once: the distance is as long as that of a traveller, and nobody moves any more."""
    values = normal(2, 400)
    values[1, :100] += 20.0
    found = travel(values)
    assert found.distance == pytest.approx(20.0, rel=0.1)
    assert found.chain == 1
    assert not found.travelling
    assert arrived(values)


@pytest.mark.parametrize("sign", [-1, 1])
def test_a_chain_that_goes_on_is_travelling(sign):
    values = normal(3, 400)
    values[1] += sign * np.linspace(0, 20, 400)
    found = travel(values)
    assert found.distance > FAR
    assert found.chain == 1
    assert found.travelling


def test_a_chain_that_has_turned_back_is_not_travelling():
    """The last quarter is far from the first, but it is on its way to it."""
    values = normal(1, 400)
    values[0, 100:300] += 20.0
    values[0, 300:] += 10.0
    assert travel(values).distance > FAR
    assert not travel(values).travelling
