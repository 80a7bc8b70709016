"""What the values of all chains say, whichever of their draws have been looked at."""

import numpy as np
import pytest

from stalegrad.runs.observers.values import FEWEST, figures
from stalegrad.runs.spaced_values import SpacedValues


def values(numbers, level=0.0):
    """Of one function, around a level."""
    rng, found = np.random.default_rng(7), SpacedValues()
    for number in numbers:
        found.add(number, np.array([level + rng.standard_normal()]))
    return found


def test_nothing_is_said_before_every_chain_has_a_draw():
    assert figures(["phi"], [values(range(100)), values([])]) == []


def test_draws_that_all_chains_have_are_compared():
    ahead, behind = values(range(400), level=1.0), values(range(100))
    (found,) = figures(["phi"], [ahead, behind])
    first = np.concatenate([chain.until(100).series()[1] for chain in (ahead, behind)])
    assert found.value == pytest.approx(first.mean())


def test_chains_without_common_draws_are_shown_all_the_same():
    """As where draws are seen between two commits only, at other moments of each chain."""
    early, late = values(range(200)), values(range(1000, 1050))
    (found,) = figures(["phi"], [early, late])
    assert abs(found.value) < 5 / np.sqrt(100)
    assert np.isfinite([found.error, found.rhat, found.ess]).all()


def test_few_common_draws_are_not_taken_for_all_there_are():
    one, other = values(range(100)), values(range(100 - FEWEST // 2, 200))
    (found,) = figures(["phi"], [one, other])
    assert np.isfinite(found.ess)
