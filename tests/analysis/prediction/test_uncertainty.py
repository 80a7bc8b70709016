"""Entropies, detection of strange inputs, abstaining and intervals, against closed forms and scikit-learn."""

import numpy as np
import pytest
from sklearn.metrics import log_loss, roc_auc_score, roc_curve

import stalegrad as sg
from stalegrad.analysis.estimates import (
    PredictiveAverage,
    auroc,
    entropy,
    false_positive_rate,
    interval_score,
    learning_coefficient,
    risk_coverage,
    score,
)

RNG = np.random.Generator(np.random.Philox(5))
P = RNG.dirichlet(np.full(4, 0.5), size=300)
Y = np.array([RNG.choice(4, p=row) for row in P])


def test_entropy_is_that_of_closed_forms():
    np.testing.assert_allclose(entropy(np.full((2, 7), 1 / 7)), np.log(7))
    np.testing.assert_array_equal(entropy(np.eye(3)), 0.0)
    np.testing.assert_allclose(entropy([[0.5, 0.25, 0.25]]), 1.5 * np.log(2))


def test_nll_is_scikit_learns():
    assert score(P, Y).nll == pytest.approx(log_loss(Y, P, labels=range(4)))


@pytest.mark.parametrize("digits", [1, 8])  # with one digit there are many ties
def test_auroc_and_false_positives_are_scikit_learns(digits):
    inside, outside = RNG.normal(0, 1, 400).round(digits), RNG.normal(1, 1.3, 300).round(digits)
    strange, u = np.repeat([0, 1], [400, 300]), np.concatenate([inside, outside])
    assert auroc(inside, outside) == pytest.approx(roc_auc_score(strange, u))
    false, true, _ = roc_curve(strange, u, drop_intermediate=False)
    assert false_positive_rate(inside, outside) == pytest.approx(false[np.flatnonzero(true >= 0.95)[0]])
    assert false_positive_rate(inside, outside, detected=1.0) == pytest.approx(false[np.flatnonzero(true >= 1)[0]])


def test_auroc_of_normals_is_that_of_their_difference():
    from statistics import NormalDist

    inside, outside = RNG.normal(0, 1, 40_000), RNG.normal(1, 1, 40_000)
    exact = NormalDist().cdf(1 / np.sqrt(2))
    assert auroc(inside, outside) == pytest.approx(exact, abs=5 * np.sqrt(exact * (1 - exact) / 40_000))


def test_risk_and_coverage_by_counting():
    curve = risk_coverage(P, Y)
    sure = np.argsort(1 - P.max(axis=1), kind="stable")
    wrong = (P.argmax(axis=1) != Y)[sure]
    np.testing.assert_allclose(curve.risk, [wrong[: k + 1].mean() for k in range(300)])
    assert curve.at(1.0) == pytest.approx(np.mean(P.argmax(axis=1) != Y))
    assert curve.at(0.5) == pytest.approx(wrong[:150].mean())
    assert curve.area == pytest.approx(curve.risk.mean())
    flat = risk_coverage(P, Y, np.zeros(300))  # nobody is surer than others
    np.testing.assert_allclose(flat.risk, curve.at(1.0))


def test_mutual_information_is_what_draws_disagree_about():
    average, other = PredictiveAverage(), PredictiveAverage()
    for weight, p in ((1.0, [[1.0, 0.0], [0.5, 0.5]]), (3.0, [[0.0, 1.0], [0.5, 0.5]])):
        average.add(p, weight)
        other.add(p, weight)
    quarter = -(0.25 * np.log(0.25) + 0.75 * np.log(0.75))
    for each in (average, average + other):
        np.testing.assert_allclose(each.entropy, [quarter, np.log(2)])
        np.testing.assert_allclose(each.expected_entropy, [0.0, np.log(2)], atol=1e-12)
        np.testing.assert_allclose(each.mutual_information, [quarter, 0.0], atol=1e-12)
    again = PredictiveAverage()
    again.restore(average.arrays())
    again.add([[1.0, 0.0], [0.5, 0.5]], 2.0)
    average.add([[1.0, 0.0], [0.5, 0.5]], 2.0)
    np.testing.assert_array_equal(again.mutual_information, average.mutual_information)
    assert again.count == 3


def test_the_interval_score_of_a_right_prediction_is_its_closed_form():
    """Of N(0, 1) at level 1 − α: 2φ(z)·2/α, the width cancelling against the tails, and more for any other width."""
    y, z = RNG.normal(size=200_000), 1.6448536269514722
    exact = 4 / 0.1 * np.exp(-(z**2) / 2) / np.sqrt(2 * np.pi)
    assert interval_score(np.zeros_like(y), 1.0, y) == pytest.approx(exact, rel=0.02)
    for variance in (0.5, 2.0):
        assert interval_score(np.zeros_like(y), variance, y) > exact * 1.02


def test_the_learning_coefficient_of_a_regular_model_is_half_its_parameters():
    """A Gaussian posterior: nL − nL* has the mean T·d/2, whatever its curvature."""
    H = np.diag([1.0, 4.0, 100.0])
    temperature = np.log(1000)
    draws = RNG.normal(size=(20_000, 3)) @ np.linalg.cholesky(temperature * np.linalg.inv(H)).T
    phi = learning_coefficient(lambda theta: 0.5 * float(theta @ H @ theta), np.zeros(3), temperature=temperature)
    values = np.array([phi(theta) for theta in draws])
    assert values.mean() == pytest.approx(1.5, abs=5 * values.std() / np.sqrt(len(values)))


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: auroc([0.1], []), "outside"),
        (lambda: false_positive_rate([0.1], [0.2], detected=1.5), "not a share"),
        (lambda: risk_coverage(P, Y, [1.0]), "uncertainty"),
        (lambda: risk_coverage(P, Y).at(2.0), "not a share"),
        (lambda: learning_coefficient(lambda theta: np.nan, [0.0], temperature=1.0), "finite"),
    ],
)
def test_refusals(call, words):
    with pytest.raises(sg.ArgumentError, match=words):
        call()
