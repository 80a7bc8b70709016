import numpy as np
import pytest
from numpy.testing import assert_allclose

from stalegrad._internal.errors import ArgumentError
from stalegrad.analysis.estimates import PredictiveAverage, brier_score, mean_log_likelihood, score

RNG = np.random.Generator(np.random.Philox(8))
DRAWS = RNG.dirichlet([0.5, 1, 2, 0.3], size=(40, 25))  # (draw, row, class)
WEIGHTS = RNG.uniform(0.1, 2, size=40)
Y = RNG.integers(0, 4, size=25)


def streamed(draws, weights=None):
    average = PredictiveAverage()
    for draw, weight in zip(draws, np.ones(len(draws)) if weights is None else weights, strict=True):
        average.add(draw, weight)
    return average


def test_the_stream_is_the_batch():
    average = streamed(DRAWS)
    assert_allclose(average.probabilities, DRAWS.mean(0), rtol=1e-13)
    assert_allclose(average.spread, DRAWS.std(0), rtol=1e-12)
    assert (average.count, average.weight) == (40, 40)
    assert average.scores(Y, bins=5).as_dict() == pytest.approx(score(DRAWS.mean(0), Y, bins=5).as_dict(), rel=1e-12)


def test_draws_weigh_by_their_step_sizes():
    average = streamed(DRAWS, WEIGHTS)
    mean = np.average(DRAWS, axis=0, weights=WEIGHTS)
    assert_allclose(average.probabilities, mean, rtol=1e-13)
    assert_allclose(average.spread, np.sqrt(np.average((DRAWS - mean) ** 2, axis=0, weights=WEIGHTS)), rtol=1e-12)
    assert_allclose(streamed(DRAWS, 1e-7 * WEIGHTS).spread, average.spread, rtol=1e-10)


@pytest.mark.parametrize("cut", [0, 1, 13, 40])
def test_chains_averaged_apart_add_up(cut):
    whole = streamed(DRAWS, WEIGHTS)
    both = streamed(DRAWS[:cut], WEIGHTS[:cut]) + streamed(DRAWS[cut:], WEIGHTS[cut:])
    assert_allclose(both.probabilities, whole.probabilities, rtol=1e-13)
    assert_allclose(both.spread, whole.spread, rtol=1e-12)
    assert (both.count, both.weight) == (40, pytest.approx(whole.weight))


def test_no_digits_are_lost_where_the_spread_is_small():
    base = DRAWS[0]
    wiggle = 1e-7 * np.array([1, -1, 0, 0])
    average = streamed([base + sign * wiggle for sign in (1, -1) * 500])
    assert_allclose(average.spread[:, :2], 1e-7, rtol=1e-6)
    assert_allclose(average.spread[:, 2:], 0, atol=1e-15)


def test_adding_leaves_the_parts_and_the_input_alone():
    first, second, draw = streamed(DRAWS[:3]), streamed(DRAWS[3:]), DRAWS[0].copy()
    before = first.probabilities
    both = first + second
    both.add(draw)
    first.probabilities[:] = 0
    assert_allclose(first.probabilities, before, rtol=0)
    assert_allclose(draw, DRAWS[0], rtol=0)


def test_averaging_never_lowers_the_log_likelihood_nor_raises_the_brier_score():
    average = streamed(DRAWS, WEIGHTS)
    single = np.average([mean_log_likelihood(p, Y) for p in DRAWS], weights=WEIGHTS)
    squares = np.average([brier_score(p, Y) for p in DRAWS], weights=WEIGHTS)
    assert average.scores(Y).mean_log_likelihood > single
    assert average.scores(Y).brier_score < squares
    # The Brier score falls by exactly the spread: E(p − t)² = (p̂ − t)² + Var p.
    assert_allclose(squares - average.scores(Y).brier_score, np.square(average.spread).sum(1).mean())
    same = streamed([DRAWS[0]] * 5).scores(Y)
    assert_allclose(same.mean_log_likelihood, mean_log_likelihood(DRAWS[0], Y))


def test_the_stream_keeps_no_draws():
    average = streamed(DRAWS)
    held = sum(array.size for array in average.arrays().values())
    assert held <= 2 * DRAWS[0].size + 2 * len(DRAWS[0]) + 4  # two moments of probabilities, and two of entropies
    own = [value for name, value in vars(average).items() if isinstance(value, np.ndarray)]
    assert sum(array.size for array in own) <= 2 * DRAWS[0].size  # nothing else is held beside them


@pytest.mark.parametrize(
    ("call", "name"),
    [
        (lambda: PredictiveAverage().probabilities, "average"),
        (lambda: PredictiveAverage().spread, "average"),
        (lambda: PredictiveAverage().scores(Y), "average"),
        (lambda: PredictiveAverage().add(np.log(DRAWS[0])), "probabilities"),
        (lambda: PredictiveAverage().add(DRAWS), "probabilities"),
        (lambda: PredictiveAverage().add(DRAWS[0], 0.0), "weight"),
        (lambda: PredictiveAverage().add(DRAWS[0], np.nan), "weight"),
        (lambda: streamed(DRAWS).add(DRAWS[0, :1]), "probabilities"),
        (lambda: streamed(DRAWS) + streamed(DRAWS[:, :3]), "other"),
    ],
)
def test_malformed_arguments_are_named(call, name):
    with pytest.raises(ArgumentError) as caught:
        call()
    assert caught.value.name == name


def test_a_refused_draw_changes_nothing():
    average = streamed(DRAWS)
    with pytest.raises(ArgumentError):
        average.add(DRAWS[0, :1])
    assert average.count == 40
    assert_allclose(average.probabilities, DRAWS.mean(0), rtol=1e-13)
    with pytest.raises(TypeError):
        average + 1
