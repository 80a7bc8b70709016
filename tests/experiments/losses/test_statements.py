"""The paper's statements, and what chains say about them."""

from dataclasses import replace

import pytest

from stalegrad.experiments.losses import figure, statements
from stalegrad.experiments.losses.layouts import Layout

from .small_task import LENGTH, extent, logistic_model, record, use

pytestmark = pytest.mark.long


def test_intervals_decide(tmp_path, monkeypatch):
    """At a short step more workers are further on the way; with one repetition nobody can tell."""
    use(logistic_model(3000), monkeypatch, iterations=LENGTH)
    wanted = figure.Wanted(iterations=20, seeds=6, controls=("fresh",))
    numbers = figure.reproduce("fig3", tmp_path, ["a9a"], wanted, processes=1)
    verdicts = {each["statement"]: each["outcome"] for each in numbers["datasets"]["a9a"]["verdicts"]}
    assert verdicts["Loss (φ̂) falls with workers (1, 2, 4, 6, 9) at L̄ = 20"] == "holds"
    assert any("as many updates" in statement for statement in verdicts)
    alone = figure.reproduce("fig3", tmp_path, ["a9a"], replace(wanted, seeds=1), processes=1)
    assert {each["outcome"] for each in alone["datasets"]["a9a"]["verdicts"]} == {"cannot be told"}


def test_differences_pair_the_repetitions():
    few, many = Layout(1, 1), Layout(1, 2)
    ends = {few: ([1.0, 1.0], [2.0, 2.0]), many: ([0.9, 0.9], [1.9, 1.9])}
    records = {
        chain: record(loss, workers=layout.workers)
        for layout, losses in ends.items()
        for seed, loss in enumerate(losses)
        for chain in layout.chains(seed, task="a9a", lr=0.01)
    }
    mean, half = statements.differences(few, many, extent([few, many], records, seeds=2), "current", 2)
    assert (mean, half) == (pytest.approx(-0.1), pytest.approx(0, abs=1e-9))


def test_differences_pair_the_chains_that_both_have():
    """Two chains with one worker, one with two: the second start has no partner, and must not count."""
    few, more, many = Layout(1, 1), Layout(2, 1), Layout(1, 2)
    ends = {more: ([1.0, 8.0], [2.0, 9.0]), many: ([0.9], [1.9])}
    records = {
        chain: record([end, end], workers=layout.workers)
        for layout, repetitions in ends.items()
        for seed, row in enumerate(repetitions)
        for chain, end in zip(layout.chains(seed, task="a9a", lr=0.01), row, strict=True)
    }
    found = extent([few, more, many], records, seeds=2)
    mean, half = statements.differences(few, many, found, "current", 2)
    assert (mean, half) == (pytest.approx(-0.1), pytest.approx(0, abs=1e-6))
    assert found.current(few).shape == (4, 2)


def test_what_diverges_has_no_lower_loss():
    few, many = Layout(1, 1), Layout(1, 2)
    records = {
        chain: record([2.0 / layout.workers] * 2, workers=layout.workers)
        for layout in (few, many)
        for seed in range(3)
        for chain in layout.chains(seed, task="a9a", lr=0.01)
    }

    def of_the_draw():
        found = statements.statements([few, many], extent([few, many], records, seeds=3))
        return next(each for each in found if "current draw" in each.statement)

    assert of_the_draw().outcome == "holds"
    (lost,) = many.chains(1, task="a9a", lr=0.01)
    records[lost] = record([1.0], at=(1,), workers=2, diverged="at 3")
    assert of_the_draw().outcome == "does not hold"
    assert "1 of 3 chains with 2 workers diverged" in of_the_draw().evidence
