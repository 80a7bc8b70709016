"""Predictions of a run: every draw with its weight, none of them held."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from numpy.testing import assert_allclose

import stalegrad as sg
from stalegrad.analysis.estimates import PredictiveAverage, PredictiveNormal, draw_blocks, predictions, score

RNG = np.random.Generator(np.random.Philox(41))
X, TEST = RNG.normal(size=(30, 3)), RNG.normal(size=(12, 3))
CLASSES, Y = RNG.integers(0, 3, size=30), RNG.integers(0, 3, size=12)
KERNELS = [sg.SGLD(step_size=sg.schedules.Polynomial(5e-3, gamma=0.4)), sg.SGLD(step_size=1e-3)]


def sample(model, **options):
    given = {"steps": 60, "burn_in": 10, "thin": 2, "workers": 3, "servers": 2, "engine": "inline", "progress": False}
    return sg.sample(model, KERNELS, **given | options)


@pytest.fixture(scope="module")
def model():
    return sg.potentials.Softmax(X, CLASSES, batch_size=5, intercept=True)


@pytest.fixture(scope="module")
def run(model):
    return sample(model)


@pytest.fixture
def small_blocks(monkeypatch):
    monkeypatch.setattr(draw_blocks, "BLOCK_BYTES", 700)  # seven draws of both chains


def by_hand(run, model, thin=1):
    draws, h = run.draws[:, thin - 1 :: thin], run.step_sizes[:, thin - 1 :: thin]
    p = np.array([[model.predict(theta, TEST) for theta in chain] for chain in draws])
    return np.tensordot(h, p, 2) / h.sum()


@pytest.mark.parametrize("thin", [1, 4, 25])
def test_the_average_weighs_draws_by_their_step_sizes(run, model, thin):
    average = run.predict(model.predictive(TEST), thin=thin)
    assert isinstance(average, PredictiveAverage)
    assert average.count == 2 * (25 // thin)
    assert_allclose(average.probabilities, by_hand(run, model, thin), rtol=1e-12)
    assert average.scores(Y).as_dict() == pytest.approx(score(by_hand(run, model, thin), Y).as_dict())
    assert average.reliability(Y, 5).count.sum() == 12


def test_chains_count_by_their_time(run, model):
    """Σ_s (T_s/T) p̂_s."""
    time = run.step_sizes.sum(axis=1)
    apart = []
    for s in range(2):
        average = PredictiveAverage()
        for theta, h in zip(run.draws[s], run.step_sizes[s], strict=True):
            average.add(model.predict(theta, TEST), h)
        apart.append(average.probabilities)
    expected = time[0] / time.sum() * apart[0] + time[1] / time.sum() * apart[1]
    assert not np.isclose(time[0], time[1], rtol=0.2)
    assert_allclose(run.predict(model.predictive(TEST)).probabilities, expected, rtol=1e-12)


@pytest.mark.parametrize("batch", [None, 1, 4, 1000])
@pytest.mark.parametrize("thin", [1, 3])
def test_blocks_and_batches_change_nothing(run, model, small_blocks, batch, thin):
    one, sizes = model.predictive(TEST), []

    def many(theta):
        sizes.append(len(theta))
        return np.stack([one(row) for row in theta])

    average = run.predict(one if batch is None else many, batch=batch, thin=thin)
    assert_allclose(average.probabilities, by_hand(run, model, thin), rtol=1e-12)
    assert batch is None or max(sizes) == min(batch, 14, 2 * (25 // thin))


def test_draws_come_in_the_order_of_the_run_with_all_that_is_known_of_them(run, model, small_blocks):
    found = list(predictions(run.draws, run.step_sizes, model.predictive(TEST), thin=2))
    assert [(each.draw, each.chain) for each in found] == [(draw, chain) for draw in range(12) for chain in range(2)]
    for each in found:
        assert each.weight == run.step_sizes[each.chain, 2 * each.draw + 1]
        np.testing.assert_array_equal(each.theta, run.draws[each.chain, 2 * each.draw + 1])
        np.testing.assert_array_equal(each.prediction, model.predict(each.theta, TEST))


def test_logistic_regression_predicts_both_labels():
    model = sg.potentials.Logistic(X, CLASSES > 0, batch_size=5)
    run = sample(model)
    average = run.predict(model.predictive(TEST))
    positive = run.estimate(lambda theta: model.predict(theta, TEST)).value
    assert_allclose(average.probabilities, np.stack([1 - positive, positive], axis=1), rtol=1e-6)
    assert 0 <= average.scores(Y > 0).accuracy <= 1


@pytest.mark.parametrize("batch", [None, 6])
def test_regression_gives_mean_and_variance(batch):
    model = sg.potentials.Linear(X, X @ [1.0, 2.0, 3.0], noise_scale=0.5, batch_size=5)
    run = sample(model)
    one = model.predictive(TEST)
    average = run.predict(one if batch is None else lambda theta: (theta @ TEST.T, 0.25), batch=batch)
    assert isinstance(average, PredictiveNormal)
    mean = run.estimate(lambda theta: model.predict(theta, TEST)).value
    second = run.estimate(lambda theta: model.predict(theta, TEST) ** 2).value
    assert_allclose(average.mean, mean, rtol=1e-5)
    assert_allclose(average.variance, 0.25 + second - mean**2, rtol=1e-3)


@pytest.mark.parametrize("batch", [None, 8])
def test_a_network_in_jax(batch):
    params = {"hidden": {"w": jnp.ones((3, 4)) * 0.1, "b": jnp.zeros(4)}, "out": jnp.ones((4, 3)) * 0.1}

    def logits(p, x):
        return jnp.tanh(x @ p["hidden"]["w"] + p["hidden"]["b"]) @ p["out"]

    model = sg.potentials.from_jax(
        lambda p: -0.5 * sum((leaf**2).sum() for leaf in jax.tree.leaves(p)),
        lambda p, d: jax.nn.log_softmax(logits(p, d[0]))[d[1]],
        (jnp.asarray(X, jnp.float32), jnp.asarray(CLASSES)),
        params,
        batch_size=5,
    )
    run = sample(model, steps=30)

    def one(theta):
        return jax.nn.softmax(logits(model.unravel(theta), jnp.asarray(TEST, jnp.float32)))

    average = run.predict(jax.jit(one if batch is None else jax.vmap(one)), batch=batch)
    expected = run.estimate(lambda theta: np.asarray(one(theta))).value
    assert_allclose(average.probabilities, expected, rtol=1e-5)


class TestRefusals:
    @pytest.mark.parametrize(
        ("predict", "options", "message"),
        [
            (
                lambda theta: theta,
                {},
                r"prediction=.*is shape \(12,\)\. Return probabilities \(rows, classes\), or for",
            ),
            (lambda theta: (theta, 1.0, 2.0), {}, r"prediction=.*is a tuple of 3\. Return probabilities"),
            (lambda theta: np.ones((2, 2)), {}, "probabilities=.*rows that do not add up to 1"),
            (lambda theta: np.ones(12), {"batch": 5}, r"predict=.*gave shape \(12,\) for 5 draws\. With batch=, it"),
            (lambda theta: theta, {"thin": 26}, r"thin=26: leaves none of 25 draws"),
            (lambda theta: theta, {"thin": 0}, "thin=0"),
            (lambda theta: theta, {"batch": 0}, "batch=0"),
        ],
    )
    def test_they_say_what_to_do(self, run, predict, options, message):
        with pytest.raises(sg.ArgumentError, match=f"(?s){message}"):
            run.predict(predict, **options)

    def test_one_kind_of_prediction_for_all_draws(self, run):
        kinds = iter([np.full((2, 2), 0.5), (np.ones(2), 1.0)] * 25)
        with pytest.raises(sg.ArgumentError, match=r"gave both probabilities and pairs"):
            run.predict(lambda theta: next(kinds))

    def test_repetitions_are_predicted_one_by_one(self, run, model):
        repeated = sg.replay(run.trace, model, KERNELS, repeats=3)
        with pytest.raises(sg.ArgumentError, match=r"holds 3 repetitions\. Take one: run\.repetition\(0\)\.predict"):
            repeated.predict(model.predictive(TEST))
        first = repeated.repetition(0).predict(model.predictive(TEST))
        assert_allclose(first.probabilities, run.predict(model.predictive(TEST)).probabilities, rtol=0)
