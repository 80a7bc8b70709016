"""Figures 3 and 4 on small data: all of it end to end, and their commands."""

import json
from dataclasses import replace

import pytest
from typer.testing import CliRunner

import stalegrad as sg
from stalegrad import cli
from stalegrad._internal.errors import ArgumentError
from stalegrad.experiments.losses import chain_run, figure, tasks
from stalegrad.experiments.losses.chain_folder import ChainFolder
from stalegrad.experiments.losses.together import draw_together

from .small_task import name

pytestmark = pytest.mark.long


def test_a_figure_goes_on_with_what_is_there(small, tmp_path, monkeypatch):
    wanted = figure.Wanted(iterations=50, seeds=2)
    numbers = figure.reproduce("fig3", tmp_path, ["a9a"], wanted, processes=1)
    found = numbers["datasets"]["a9a"]
    assert [row["workers"] for row in found["layouts"]] == [1, 2, 4, 6, 9]
    assert found["axis"][-1] == found["round_axis"][-1] == 50
    assert [round(row["staleness_mean"]) for row in found["layouts"]] == [0, 1, 3, 5, 8]
    for row in found["layouts"]:
        assert row["predictive"]["loss"][-1] <= row["average"]["loss"][-1]
        assert row["grid_error"] < 0.01
    assert json.loads((tmp_path / "fig3.json").read_text())["figure"] == "fig3"
    assert (tmp_path / "fig3.png").stat().st_size > 10_000
    monkeypatch.setattr(chain_run, "_Way", lambda files: pytest.fail(f"{files} was executed again"))
    again = figure.reproduce("fig3", tmp_path, ["a9a"], wanted, processes=1)
    assert json.dumps(again["datasets"]) == json.dumps(numbers["datasets"])


def test_a_budget_that_is_over_leaves_what_there_is(small, tmp_path):
    wanted = figure.Wanted(iterations=50, seeds=2)
    nothing = figure.reproduce("fig4", tmp_path, ["a9a"], wanted, processes=1, deadline=0.0)
    assert nothing["datasets"] == {}
    assert figure.reproduce("fig4", tmp_path, ["a9a"], wanted, processes=1)["datasets"]["a9a"]["seeds"] == 2


def test_what_one_repetition_has_beyond_the_others_has_a_picture_of_its_own(small, tmp_path):
    for iterations, seeds in ((20, 2), (60, 1)):
        figure.reproduce("fig4", tmp_path, ["a9a"], figure.Wanted(iterations, seeds), processes=1)
    assert not (tmp_path / "fig4-longest.png").exists()
    numbers = figure.reproduce("fig4", tmp_path, ["a9a"], figure.Wanted(60, 2), processes=1, deadline=0.0)
    extents = [(numbers[kind]["a9a"]["iterations"], numbers[kind]["a9a"]["seeds"]) for kind in ("datasets", "longest")]
    assert extents == [(20, 2), (60, 1)]
    assert all(path.stat().st_size > 10_000 for path in figure.pictures("fig4", tmp_path))
    command = ["reproduce", "fig4", "--dataset", "a9a", "--budget", "0", "--out", str(tmp_path), "--processes", "1"]
    printed = CliRunner().invoke(cli.app, [*command, "--iterations", "60", "--seeds", "2"]).output
    assert "after 20 iterations" in printed
    assert "after 60 iterations" in printed
    assert "fig4-longest.png" in "".join(printed.split())
    assert "nan" not in printed


def test_iterations_must_be_a_place(small, tmp_path):
    tasks.TASKS["a9a"] = replace(tasks.TASKS["a9a"], density=5)
    with pytest.raises(ArgumentError, match=r"iterations=49"):
        figure.reproduce("fig4", tmp_path, ["a9a"], figure.Wanted(iterations=49), processes=1)


def test_one_repetition_after_the_other_and_the_dearest_chains_first(tmp_path, monkeypatch):
    names, made = [name(workers=w, seed=seed) for seed in range(2) for w in (1, 9)], []
    module = "stalegrad.experiments.losses.chain_folder"
    monkeypatch.setattr(f"{module}.lengthen", lambda files, *_: made.append(files.name))
    ChainFolder(tmp_path, 1).lengthen(names, 10, lambda what, share: None)
    assert [(each.seed, each.workers) for each in made] == [(0, 9), (0, 1), (1, 9), (1, 1)]


def test_figures_print_their_tables_and_verdicts(small, tmp_path):
    command = ["reproduce", "fig4", "--dataset", "a9a", "--out", str(tmp_path), "--processes", "1"]
    outcome = CliRunner().invoke(cli.app, [*command, "--iterations", "60", "--seeds", "2"])
    assert outcome.exit_code == 0, outcome.output
    assert all(f"{servers} × 2" in outcome.output for servers in (1, 3, 5, 7))
    assert "the whole experiment" in " ".join(outcome.output.split())
    assert "does not hold" in outcome.output


def test_chains_that_diverged_have_no_finite_loss(small, tmp_path):
    command = ["reproduce", "fig3", "--dataset", "a9a", "--out", str(tmp_path), "--processes", "1"]
    outcome = CliRunner().invoke(cli.app, [*command, "--iterations", "60", "--seeds", "2", "--lr", "3000"])
    assert outcome.exit_code == 0, outcome.output
    assert "∞" in outcome.output
    assert "diverged" in outcome.output
    assert "does not hold" in outcome.output
    assert (tmp_path / "fig3.png").stat().st_size > 10_000


def test_what_a_budget_leaves_out_is_said(small, tmp_path):
    command = ["reproduce", "fig3", "--dataset", "a9a", "--budget", "0", "--processes", "1", "--out", str(tmp_path)]
    outcome = CliRunner().invoke(cli.app, command)
    assert outcome.exit_code == 0, outcome.output
    assert "Not one repetition was finished of: a9a" in " ".join(outcome.output.split())


def test_data_sets_are_drawn_together(small, tmp_path):
    command = ["reproduce", "fig4", "--dataset", "a9a", "--out", str(tmp_path / "a9a"), "--processes", "1"]
    assert CliRunner().invoke(cli.app, [*command, "--iterations", "20", "--seeds", "1"]).exit_code == 0
    one = tmp_path / "a9a" / "fig4.json"
    other = tmp_path / "mnist" / "fig4.json"
    other.parent.mkdir()
    other.write_text(one.read_text().replace('"a9a": {', '"mnist": {'))
    outcome = CliRunner().invoke(cli.app, ["reproduce", "together", "--out", str(tmp_path)])
    assert outcome.exit_code == 0, outcome.output
    heights = [_height_of(folder / "fig4.png") for folder in (tmp_path / "a9a", tmp_path)]
    assert heights[1] == 2 * heights[0], "a row for each data set"
    assert not (tmp_path / "fig3.png").exists()


def test_a_folder_without_figures_says_how_to_make_one(tmp_path):
    with pytest.raises(sg.ArgumentError, match="stalegrad reproduce fig3"):
        draw_together(tmp_path)


def _height_of(path):
    return int.from_bytes(path.read_bytes()[20:24], "big")  # the second number of a PNG's header
