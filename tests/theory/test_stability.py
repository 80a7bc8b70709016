"""The limit of stability, against the eigenvalues of the companion matrix."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from stalegrad._internal.errors import ArgumentError
from stalegrad.theory import stability_limit, stale_sgld


def largest_root(product: float, staleness: int) -> float:
    """Of z^{τ+1} − z^τ + hλ, written down here once more, apart from the oracle's own matrix."""
    companion = np.zeros((staleness + 1, staleness + 1))
    companion[np.arange(staleness), np.arange(1, staleness + 1)] = 1  # z^k of the next power down
    companion[-1, 0] -= product
    companion[-1, -1] += 1
    return np.abs(np.linalg.eigvals(companion)).max()


@pytest.mark.parametrize("staleness", [0, 1, 2, 3, 5, 10, 20, 50])
def test_limit_is_exactly_where_the_largest_root_leaves_the_unit_circle(staleness):
    limit = float(stability_limit(1.0, staleness))
    assert largest_root(limit * (1 - 1e-6), staleness) < 1 < largest_root(limit * (1 + 1e-6), staleness)
    assert_allclose(largest_root(limit, staleness), 1, atol=1e-9)
    for fraction in (0.01, 0.3, 0.9):  # nothing goes wrong on the way there, and nothing comes back beyond
        assert largest_root(limit * fraction, staleness) < 1
        assert largest_root(limit / fraction, staleness) > 1


@pytest.mark.parametrize("staleness", [0, 4])
def test_oracle_agrees(staleness):
    limit = float(stability_limit(30.0, staleness))
    assert stale_sgld(30.0, limit * 0.999, staleness).stable
    assert not stale_sgld(30.0, limit * 1.001, staleness).stable


def test_known_values_and_scaling():
    assert_allclose(stability_limit([1.0, 4.0], 0), [2.0, 0.5])
    assert_allclose(stability_limit(1.0, 1), 1.0)
    assert_allclose(stability_limit(1.0, 1000), np.pi / 2001, rtol=1e-6)


def test_a9a_facts_of_the_specification():
    """λ_max = 27,015: h = 3e-5 blows up with 4 workers (τ = 3), h = 1e-6 is fine with 9 (τ = 8)."""
    assert stability_limit(27015, 3) < 3e-5
    assert stability_limit(27015, 8) > 5e-6


@pytest.mark.parametrize(
    ("arguments", "name"), [((0, 1), "curvature"), ((1, -1), "staleness"), ((1, 0.5), "staleness")]
)
def test_malformed_arguments_are_named(arguments, name):
    with pytest.raises(ArgumentError) as caught:
        stability_limit(*arguments)
    assert caught.value.name == name
