"""What φ̂ owes to how often φ is looked at."""

import json

import numpy as np
import pytest
from numpy.testing import assert_allclose
from typer.testing import CliRunner

from stalegrad import cli
from stalegrad.experiments.losses import grids, tasks
from stalegrad.experiments.losses.chain_run import Files, lengthen

from .small_task import LENGTH, logistic_model, name, use

pytestmark = pytest.mark.long


def test_the_average_over_every_update_is_that_of_a_chain_looked_at_at_every_iteration(small, tmp_path, monkeypatch):
    """With one worker an iteration is an update."""
    use(small, monkeypatch, density=LENGTH)
    found = lengthen(Files(tmp_path, name(lr=0.001)), 40)
    (row,) = grids.reproduce(tmp_path, "a9a", workers=[1], iterations=40, processes=1)["rows"]
    assert row["looks"] == row["updates"] == 40
    assert row["average"] == pytest.approx(found.average(tasks.TASKS["a9a"], 40)[-1], rel=1e-6)
    assert row["error"] == pytest.approx(0, abs=1e-7)


def test_the_grid_of_the_figures_is_fine_enough_and_a_coarse_one_is_found_out(tmp_path, monkeypatch):
    model = logistic_model(6000)
    for density, outcome in ((60, "holds"), (2, "does not hold")):
        use(model, monkeypatch, density=density, iterations=300)
        out = tmp_path / str(density)
        numbers = grids.reproduce(out, "a9a", workers=[2, 4], iterations=300, lr=0.01, processes=1)
        (verdict,) = numbers["verdicts"]
        assert verdict["outcome"] == outcome
        assert [row["workers"] for row in numbers["rows"]] == [2, 4]
        if outcome == "holds":
            assert max(abs(row["error_of_half"]) for row in numbers["rows"]) < grids.BOUND
        assert json.loads((out / "grids.json").read_text()) == numbers


def test_oscillations_between_looks_are_part_of_the_average():
    """Every other update is 1 above the others: a grid that sees those alone is half of that too high."""
    loss = np.tile([2.0, 3.0], 50)[:100]
    every, high = (grids.average(name(), loss, np.arange(1, 100, step)) for step in (1, 2))
    assert_allclose((every, high), (2.5, 3.0), rtol=0.01)


def test_a_chain_that_diverges_ends_there(small, tmp_path):
    numbers = grids.reproduce(tmp_path, "a9a", workers=[9], iterations=50, lr=1e20, processes=1)
    (row,) = numbers["rows"]
    assert row["diverged"]
    assert row["updates"] < 9 * 50
    assert numbers["verdicts"][0]["outcome"] == "cannot be told"


def test_what_is_there_is_not_made_again(small, tmp_path, monkeypatch):
    command = ["reproduce", "grids", "--dataset", "a9a", "--iterations", "50", "--processes", "1"]
    command += ["--out", str(tmp_path)]
    nothing = CliRunner().invoke(cli.app, [*command, "--budget", "0"])
    assert nothing.exit_code == 0, nothing.output
    assert "Not made yet: W = 9, W = 6, W = 4, W = 2, W = 1" in " ".join(nothing.output.split())
    outcome = CliRunner().invoke(cli.app, command)
    assert outcome.exit_code == 0, outcome.output
    monkeypatch.setattr(grids, "_looked_at", lambda chain, _: pytest.fail(f"{chain} was made again"))
    again = CliRunner().invoke(cli.app, command)
    assert again.output == outcome.output
    assert "within 0.1%" in " ".join(outcome.output.split())
