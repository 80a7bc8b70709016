"""What averaging is worth."""

import pytest

from stalegrad.experiments.losses import averaging

pytestmark = pytest.mark.long


def test_averaging_beats_single_draws(small, tmp_path):
    numbers = averaging.reproduce(
        tmp_path, "a9a", gradients=400, draws=20, workers=2, seeds=2, lr=0.05, temperatures=[1.0], processes=1,
        sgd_lr=[0.05],
    )  # fmt: skip
    rows = {row["name"]: row["mean_log_likelihood"] for row in numbers["rows"]}
    assert list(rows) == ["posterior average, T = 1", "a single draw, T = 1", "last draw, T = 1", "SGD, lr 0.05"]
    assert rows["posterior average, T = 1"] > rows["a single draw, T = 1"]
