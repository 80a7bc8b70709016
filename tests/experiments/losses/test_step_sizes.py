"""Where many workers become worse than few."""

import pytest

from stalegrad.experiments.losses import step_sizes
from stalegrad.experiments.losses.layouts import Layout

from .small_task import extent, record

pytestmark = pytest.mark.long


def test_steps_that_are_too_large_and_one_that_repairs():
    def row(lr, *above, diverged=(0, 0, 0)):
        return {"lr": lr, "above_fewest": above, "diverged": list(diverged)}

    rows = [
        row(1.0, (-1.0, 0.1), (-2.0, 0.1)), row(2.0, (-0.1, 0.2), (-0.2, 0.3)),
        row(4.0, (0.3, 0.1), (0.1, 0.2)), row(8.0, (0.5, 0.1), (0.0, 0.0), diverged=(0, 0, 2)),
    ]  # fmt: skip
    worse, repaired = step_sizes.verdicts(rows, [4, 6, 9])
    assert worse.outcome == repaired.outcome == "holds"
    assert "lr 8" in worse.evidence
    assert "lr 1" in repaired.evidence
    assert [each.outcome for each in step_sizes.verdicts(rows[1:3], [4, 6, 9])] == ["cannot be told"] * 2
    assert step_sizes.verdicts(rows[:1], [4, 6, 9])[0].outcome == "does not hold"


def test_a_step_that_is_too_large_is_found(small, tmp_path):
    numbers = step_sizes.reproduce(tmp_path, "a9a", lr=[0.01, 3.0], workers=[1, 9], iterations=50, seeds=3, processes=1)
    assert [each["outcome"] for each in numbers["verdicts"]] == ["holds", "holds"]
    assert (tmp_path / "step_sizes.png").stat().st_size > 10_000


def test_a_chain_that_diverges_later_is_as_good_as_others_before():
    few, many = Layout(1, 1), Layout(1, 2)
    records = {
        chain: record([2.0, 1.0, 50.0], at=(1, 2, 3), workers=layout.workers, diverged="at 3")
        for layout in (few, many)
        for seed in range(2)
        for chain in layout.chains(seed, task="a9a", lr=0.01)
    }
    lost = [
        step_sizes._row(0.01, [few, many], extent([few, many], records, iterations=end, seeds=2))["diverged"]
        for end in (2, 3)
    ]
    assert lost == [[0, 0], [2, 2]]
