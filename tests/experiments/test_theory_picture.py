"""The theory's picture: bounds that hold, and chains that do what the oracle says."""

import json
from dataclasses import replace

import pytest

from stalegrad.experiments import theory_picture
from stalegrad.experiments.verdicts import Verdict, all_of, below, within

SMALL = theory_picture.Settings(
    runs=300, steps=400, tau=(0, 4), step_sizes=(0.01, 0.02), servers=(1, 2), servers_batches=2
)


def test_bounds_lie_nowhere_below_the_oracle_and_chains_agree_with_it(tmp_path):
    numbers = theory_picture.reproduce(SMALL)
    for row in numbers["rows"]:
        for name in ("bias", "variance", "mse"):
            cell = row[name]
            assert cell["bound"] >= abs(cell["exact"]) * (1 - 1e-6)
            assert cell["measured"] == pytest.approx(cell["exact"], abs=4.9 * cell["error"])
    outcomes = {each["statement"]: each["outcome"] for each in numbers["verdicts"]}
    assert outcomes["Measured chains have the oracle's bias, variance and MSE"] == "holds"
    text, picture = theory_picture.save(numbers, tmp_path)
    assert json.loads(text.read_text())["runs"] == 300
    assert picture.stat().st_size > 10_000


def test_a_wrong_oracle_is_found_out(monkeypatch):
    monkeypatch.setattr(theory_picture, "stale_sgld", lambda curvature, h, tau: original(curvature, 3 * h, tau))
    numbers = theory_picture.reproduce(replace(SMALL, tau=(0, 4), step_sizes=(0.02,)))
    assert numbers["verdicts"][0]["outcome"] == "does not hold"


original = theory_picture.stale_sgld


def test_intervals_decide():
    assert [below(-1.0, 0.5), below(-0.1, 0.5), below(1.0, 0.5)] == ["holds", "cannot be told", "does not hold"]
    assert within(0.9, 1.1, 0.8, 1.2) == "holds"
    assert all_of(["holds", "holds"]) == "holds"
    assert Verdict("s", "holds", "e").plain() == {"statement": "s", "outcome": "holds", "evidence": "e"}
