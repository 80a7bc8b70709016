import numpy as np
import pytest
from numpy.testing import assert_allclose

from stalegrad._internal.errors import ArgumentError
from stalegrad.analysis.estimates import (
    accuracy,
    brier_score,
    calibration_error,
    mean_log_likelihood,
    reliability_curve,
    score,
)

P = np.array([[0.7, 0.2, 0.1], [0.1, 0.3, 0.6], [0.2, 0.5, 0.3], [0.05, 0.9, 0.05]])
Y = np.array([0, 1, 1, 1])  # right, wrong, right, right


def simulated(rows, sharpen=1.0, seed=3):
    """Predictions of 5 classes and what happened under them; told with their logits multiplied by ``sharpen``."""
    rng = np.random.Generator(np.random.Philox(seed))
    logits = rng.normal(0, 2, size=(rows, 5))
    truth = np.exp(logits) / np.exp(logits).sum(1, keepdims=True)
    y = (rng.uniform(size=(rows, 1)) > truth.cumsum(1)).sum(1).clip(0, 4)
    told = np.exp(sharpen * logits)
    return told / told.sum(1, keepdims=True), y


def test_scores_of_four_rows_by_hand():
    assert accuracy(P, Y) == 0.75
    assert_allclose(mean_log_likelihood(P, Y), np.log(0.7 * 0.3 * 0.5 * 0.9) / 4)
    squares = [0.3**2 + 0.2**2 + 0.1**2, 0.1**2 + 0.7**2 + 0.6**2, 0.2**2 + 0.5**2 + 0.3**2, 0.1**2 + 2 * 0.05**2]
    assert_allclose(brier_score(P, Y), sum(squares) / 4)
    # Of 10 bins: 0.5 is in (0.4, 0.5], right; 0.6 in (0.5, 0.6], wrong; 0.7 and 0.9 in bins of their own, right.
    assert_allclose(calibration_error(P, Y), (0.5 + 0.6 + 0.3 + 0.1) / 4)
    # Of 2 bins: 0.5 alone in (0, 0.5]; the others (mean 2.2/3) right twice of three times.
    assert_allclose(calibration_error(P, Y, bins=2), 1 / 4 * 0.5 + 3 / 4 * abs(2 / 3 - 2.2 / 3))
    together = score(P, Y, bins=2).as_dict()
    assert together == {
        "accuracy": accuracy(P, Y),
        "mean_log_likelihood": mean_log_likelihood(P, Y),
        "brier_score": brier_score(P, Y),
        "calibration_error": calibration_error(P, Y, bins=2),
    }


def test_perfect_and_hopeless_predictions():
    certain = np.eye(3)[Y]
    perfect = score(certain, Y)
    assert (perfect.accuracy, perfect.mean_log_likelihood, perfect.brier_score, perfect.calibration_error) == (
        1,
        0,
        0,
        0,
    )
    hopeless = score(certain, (Y + 1) % 3)
    assert (hopeless.accuracy, hopeless.brier_score, hopeless.calibration_error) == (0, 2, 1)
    assert hopeless.mean_log_likelihood == -np.inf


def test_reliability_curve_with_stated_edges():
    curve = reliability_curve(P, Y, bins=[0, 0.2, 0.6, 0.7, 1])
    assert curve.count.tolist() == [0, 2, 1, 1]  # an edge belongs to the bin below it
    assert_allclose(curve.confidence, [np.nan, 0.55, 0.7, 0.9])
    assert_allclose(curve.accuracy, [np.nan, 0.5, 1, 1])
    assert_allclose(curve.edges, [0, 0.2, 0.6, 0.7, 1])


def test_equal_width_bins_are_the_same_as_their_edges_stated():
    p, y = simulated(500)
    equal, stated = reliability_curve(p, y, 4), reliability_curve(p, y, [0, 0.25, 0.5, 0.75, 1])
    for name in ("edges", "count", "confidence", "accuracy"):
        assert_allclose(getattr(equal, name), getattr(stated, name))


@pytest.mark.parametrize("rows", [400, 40_000])
def test_calibrated_predictions_have_an_error_of_the_size_that_chance_leaves(rows):
    p, y = simulated(rows)
    curve = reliability_curve(p, y)
    full = curve.count > 0
    a = curve.accuracy[full]
    by_chance = (np.sqrt(curve.count[full] * 2 * a * (1 - a) / np.pi)).sum() / rows
    assert 0.3 * by_chance < calibration_error(p, y) < 2.5 * by_chance
    assert by_chance < 1.6 / np.sqrt(rows)


def test_overconfidence_and_underconfidence_show_on_their_sides_of_the_diagonal():
    for sharpen, sign in ((3.0, -1), (0.4, 1)):
        p, y = simulated(40_000, sharpen)
        curve = reliability_curve(p, y)
        many = curve.count > 400
        assert np.all(sign * (curve.accuracy - curve.confidence)[many] > 0)
        assert calibration_error(p, y) > 0.1


def test_the_true_probabilities_have_the_best_proper_scores():
    (best, y), others = simulated(40_000), [simulated(40_000, s)[0] for s in (0.5, 0.8, 1.25, 2.0)]
    assert all(mean_log_likelihood(best, y) > mean_log_likelihood(p, y) for p in others)
    assert all(brier_score(best, y) < brier_score(p, y) for p in others)


def test_float32_probabilities_are_accepted():
    p, y = simulated(1000)
    assert_allclose(mean_log_likelihood(p.astype(np.float32), y), mean_log_likelihood(p, y), rtol=1e-5)


@pytest.mark.parametrize(
    ("call", "name"),
    [
        (lambda: accuracy(np.log(P), Y), "probabilities"),
        (lambda: accuracy(2 * P, Y), "probabilities"),
        (lambda: accuracy(P[0], Y), "probabilities"),
        (lambda: accuracy(P[:, :1] * 0 + 1, Y * 0), "probabilities"),
        (lambda: accuracy(P * [1, np.nan, 1], Y), "probabilities"),
        (lambda: brier_score(P, Y[:3]), "y"),
        (lambda: brier_score(P, Y + 2), "y"),
        (lambda: brier_score(P, Y - 1), "y"),
        (lambda: mean_log_likelihood(P, Y + 0.5), "y"),
        (lambda: mean_log_likelihood(P, Y[:, None]), "y"),
        (lambda: calibration_error(P, Y, bins=0), "bins"),
        (lambda: calibration_error(P, Y, bins=2.5), "bins"),
        (lambda: reliability_curve(P, Y, bins=[0.1, 1]), "bins"),
        (lambda: reliability_curve(P, Y, bins=[0, 0.5, 0.5, 1]), "bins"),
        (lambda: reliability_curve(P, Y, bins=[0]), "bins"),
    ],
)
def test_malformed_arguments_are_named(call, name):
    with pytest.raises(ArgumentError) as caught:
        call()
    assert caught.value.name == name


def test_curves_of_two_sets_add_up_to_that_of_both():
    (p, y), (q, z) = simulated(50, seed=5), simulated(300, sharpen=2.0, seed=6)
    both = reliability_curve(np.concatenate([p, q]), np.concatenate([y, z]), 20)
    added = reliability_curve(p, y, 20) + reliability_curve(q, z, 20)
    assert np.isnan(both.accuracy).any()
    for name in ("edges", "count", "confidence", "accuracy"):
        assert_allclose(getattr(added, name), getattr(both, name), rtol=1e-12)
    with pytest.raises(ArgumentError, match="has other bins"):
        reliability_curve(p, y, 20) + reliability_curve(q, z, 10)
    with pytest.raises(TypeError):
        both + 1
