import numpy as np
import pytest
from numpy.testing import assert_allclose

from stalegrad._internal.errors import ArgumentError
from stalegrad.analysis.estimates import combine_chains, running_average

VALUES = np.random.Generator(np.random.Philox(5)).normal(size=(3, 7, 2))
STEPS = np.linspace(0.5, 0.1, 7)


def test_running_average_is_the_average_of_every_prefix():
    averages = running_average(VALUES, axis=1)
    for length in range(1, 8):
        assert_allclose(averages[:, length - 1], VALUES[:, :length].mean(1))


def test_running_average_weighs_by_step_size():
    averages = running_average(VALUES, STEPS, axis=1)
    for length in range(1, 8):
        expected = np.average(VALUES[:, :length], axis=1, weights=STEPS[:length])
        assert_allclose(averages[:, length - 1], expected)


def test_weights_may_differ_between_chains():
    weights = np.random.Generator(np.random.Philox(6)).uniform(0.1, 1, size=VALUES.shape)
    averages = running_average(VALUES, weights, axis=-2)
    for chain in range(3):
        for part in range(2):
            one = running_average(VALUES[chain, :, part], weights[chain, :, part])
            assert_allclose(averages[chain, :, part], one)


def test_equal_weights_change_nothing_and_float32_is_summed_in_float64():
    assert_allclose(running_average(VALUES, np.full(7, 0.3), axis=1), running_average(VALUES, axis=1))
    averages = running_average(np.full(200_000, 0.1, dtype=np.float32))
    assert averages.dtype == np.float64
    assert_allclose(averages[-1], np.float32(0.1), rtol=1e-10)


def test_combined_chains_weigh_by_time():
    per_chain = VALUES[:, 0]
    expected = (2 * per_chain[0] + 5 * per_chain[1] + 3 * per_chain[2]) / 10
    assert_allclose(combine_chains(per_chain, [2, 5, 3]), expected)
    assert_allclose(combine_chains([1.0, 100.0], [1e308, 1e308]), 50.5)  # no overflow in the sum of the times
    assert_allclose(combine_chains([1.0, 100.0], [1.0, 0.0]), 1.0)  # a chain that made no update


def test_combining_equals_one_average_over_all_draws():
    long, short = VALUES[0, :, 0], VALUES[1, :4, 0]
    parts = [running_average(chain)[-1] for chain in (long, short)]
    assert_allclose(combine_chains(parts, [7 * 0.1, 4 * 0.1]), np.concatenate([long, short]).mean())


@pytest.mark.parametrize(
    ("call", "name"),
    [
        (lambda: running_average(3.0), "values"),
        (lambda: running_average([1.0, np.nan]), "values"),
        (lambda: running_average([1.0, 2.0], axis=1), "axis"),
        (lambda: running_average([1.0, 2.0], [1.0, 1.0, 1.0]), "weights"),
        (lambda: running_average([1.0, 2.0], [1.0, 0.0]), "weights"),
        (lambda: running_average(VALUES, np.ones((3, 7)), axis=1), "weights"),
        (lambda: combine_chains(1.0, [1.0]), "per_chain"),
        (lambda: combine_chains([1.0, 2.0], [1.0]), "times"),
        (lambda: combine_chains([1.0, 2.0], [1.0, -1.0]), "times"),
        (lambda: combine_chains([1.0, 2.0], [0.0, 0.0]), "times"),
    ],
)
def test_malformed_arguments_are_named(call, name):
    with pytest.raises(ArgumentError) as caught:
        call()
    assert caught.value.name == name
