"""Six ways to be uncertain: equal gradients, files that are picked up again, and figures that tell methods apart."""

import json
from dataclasses import replace

import numpy as np
import pytest

from stalegrad.datasets import Dataset
from stalegrad.experiments.deep import experiment
from stalegrad.experiments.deep.experiment import MEASURES, Images, Settings, _task, averaged, reproduce, summary
from stalegrad.experiments.deep.methods import METHODS, Budget

pytestmark = pytest.mark.long

BUDGET = Budget(gradients=48, members=2, draws=4, batch_size=16)
SETTINGS = Settings(seeds=(0, 1), test=40, strange=20, budget=BUDGET)


@pytest.fixture
def pictures(monkeypatch):
    """Ten classes of bright squares at different places, which a few gradients tell apart."""
    rng = np.random.Generator(np.random.Philox(3))

    def made(count):
        y = rng.integers(10, size=count).astype(np.uint8)
        X = rng.integers(0, 40, (count, 28, 28)).astype(np.uint8)
        for image, label in zip(X, y, strict=True):
            row, column = divmod(int(label), 5)
            image[4 + 12 * row : 12 + 12 * row, 1 + 5 * column : 6 + 5 * column] = 250
        return X, y

    data = Dataset("squares", *made(320), *made(60), tuple("0123456789"), "made for a test")
    monkeypatch.setattr(experiment, "mnist", lambda: data)
    return data


@pytest.fixture
def asked(monkeypatch):
    """How many gradients each call of a method has asked for."""
    import stalegrad.experiments.deep.methods as methods

    counts, really = [], methods.sample

    def sample(model, kernel, **options):
        counts.append(options["steps"] * options.get("servers", 1))
        return really(model, kernel, **options)

    monkeypatch.setattr(methods, "sample", sample)
    return counts


@pytest.mark.parametrize("method", METHODS)
def test_every_method_spends_the_same_gradients_and_predicts_probabilities(method, pictures, asked):
    predictors = METHODS[method](_task(pictures, BUDGET, 0), BUDGET)
    assert sum(asked) == BUDGET.gradients
    single = {"SGD": 1, "ensemble of SGD": BUDGET.members}
    assert len(predictors) == single.get(method, BUDGET.draws)
    assert len({theta.tobytes() for _, theta, _ in predictors}) == len(predictors), "draws that differ"
    probabilities = averaged(predictors, pictures.X_test[:7]).probabilities
    assert probabilities.shape == (7, 10)
    np.testing.assert_allclose(probabilities.sum(1), 1.0, rtol=1e-5)


def test_more_gradients_tell_the_classes_apart(pictures):
    more = replace(BUDGET, gradients=400, lr=0.03)
    X, y = pictures.X_test, pictures.y_test
    predicted = averaged(METHODS["SGD"](_task(pictures, more, 0), more), X).probabilities.argmax(1)
    assert np.mean(predicted == y) > 0.6, "chance is a tenth"


def test_interrupted_it_goes_on_and_two_may_share_the_work(pictures, tmp_path, monkeypatch):
    made, really = [], experiment.unit
    monkeypatch.setattr(
        experiment, "unit", lambda method, seed, *rest: made.append((method, seed)) or really(method, seed, *rest)
    )
    assert reproduce(tmp_path, SETTINGS, budget=0.0) is None
    assert not made
    monkeypatch.setattr(experiment, "METHODS", {name: METHODS[name] for name in ("SGD", "SGHMC")})
    numbers = reproduce(tmp_path, SETTINGS, from_the_end=True)
    assert made == [("SGHMC", 1), ("SGD", 1), ("SGHMC", 0), ("SGD", 0)]
    assert reproduce(tmp_path, SETTINGS) == numbers, "nothing is made again"
    assert len(made) == 4
    assert json.loads((tmp_path / "deep.json").read_text())["best"] == numbers["best"]
    assert (tmp_path / "deep.png").stat().st_size > 5_000
    other = replace(SETTINGS, budget=replace(BUDGET, lr=0.02))
    reproduce(tmp_path, other)
    assert len(made) == 8, "other settings are other work"


def test_noise_and_turned_images_are_what_they_say(pictures):
    images = Images(pictures, SETTINGS)
    np.testing.assert_array_equal(np.rot90(images.rotated[0], -1), pictures.X_test[0])
    assert images.noise.shape == (20, 28, 28)
    assert abs(images.noise.mean() - 127.5) < 5 * 73.9 / np.sqrt(images.noise.size)


def test_intervals_are_students_and_the_best_is_the_smallest_loss_and_the_largest_score():
    values = {"SGD": (0.3, 0.5, 0.4), "SGHMC": (0.2, 0.1, 0.3)}
    rows = [
        {"method": method, "seed": seed, "seconds": 1.0, "draws": 1, "reliability": {},
         "measured": dict.fromkeys(MEASURES, values.get(method, (0.9, 0.8, 0.85))[seed])}
        for method in METHODS
        for seed in range(3)
    ]  # fmt: skip
    found = summary(rows, Settings())
    assert found["methods"]["SGD"]["nll"]["mean"] == pytest.approx(0.4)
    assert found["methods"]["SGD"]["nll"]["half"] == pytest.approx(4.303 * 0.1 / np.sqrt(3))
    assert found["best"]["nll"] == "SGHMC"
    assert found["best"]["auroc_noise"] not in ("SGD", "SGHMC")
