"""Figures 3 and 4, step sizes and averaging on small data: their arithmetic, their folder, and all of it end to end."""

import json
from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.sparse import csr_array
from typer.testing import CliRunner

import stalegrad as sg
from stalegrad import cli
from stalegrad._internal.errors import ArgumentError
from stalegrad.datasets import Dataset
from stalegrad.experiments.losses import averaging, curves, figure, step_sizes, tasks, units
from stalegrad.experiments.losses.budget import Costs, affordable
from stalegrad.experiments.losses.cluster import cluster_rate
from stalegrad.experiments.losses.layouts import FIGURES, Layout, chain_count, updates_per_iteration
from stalegrad.experiments.losses.unit_folder import UnitFolder
from stalegrad.experiments.losses.units import Unit

pytestmark = pytest.mark.long

SMALL = {"iterations": 40, "points": 4, "seeds": 2}


@pytest.fixture
def small(monkeypatch):
    """a9a's task with 300 made-up rows, and a clock that is not looked at."""
    rng = np.random.Generator(np.random.Philox(key=1))
    dense = rng.integers(2, size=(400, 6)).astype(np.float32)
    labels = np.where(dense.sum(1) + rng.standard_normal(400) > 3, 1, -1)
    parts = [csr_array(part) for part in (dense[:300], dense[300:])]
    data = Dataset("small", parts[0], labels[:300], parts[1], labels[300:], ("no", "yes"), "made for a test")
    model = tasks.LogisticModel(data, batch_size=50)
    monkeypatch.setitem(tasks.TASKS, "a9a", replace(tasks.TASKS["a9a"], **SMALL))
    for module in (figure, units, averaging):
        monkeypatch.setattr(module, "model_of", lambda name, batch_size: model)
    monkeypatch.setattr(
        figure, "measure_times", lambda *args, **options: type("Measured", (), {"updates_per_second": 100.0})
    )
    return model


def result(loss, step_size=None):
    return {"loss": loss, "step_size": step_size or [1.0] * len(loss)}


SMALL_UNIT = {"task": "a9a", "iterations": 40, "points": 4, "lr": 0.01}


def unit(workers=1, chain=0, seed=0, **changes):
    return Unit(workers=workers, chain=chain, seed=seed, **(SMALL_UNIT | changes))


class TestLayouts:
    def test_the_figures_compare_what_the_paper_does(self):
        assert FIGURES["fig3"] == [Layout(1, w) for w in (1, 2, 4, 6, 9)]
        assert FIGURES["fig4"] == [Layout(s, 2) for s in (1, 3, 5, 7)]
        assert {(x.servers, x.workers) for x in FIGURES["supplement"]} == {(1, w) for w in range(1, 10)} | {
            (s, w) for s in (1, 3, 5, 7) for w in (1, 2, 4, 6)
        }

    def test_chains_that_layouts_share_count_once(self):
        assert updates_per_iteration(FIGURES["fig3"]) == 22
        assert updates_per_iteration(FIGURES["fig4"]) == 14
        assert chain_count(FIGURES["fig4"]) == 7
        assert updates_per_iteration(FIGURES["supplement"]) == 3 + 5 + 7 + 8 + 9 + 7 * (1 + 2 + 4 + 6)

    def test_chains_and_repetitions_have_seeds_of_their_own(self):
        seeds = {each.run_seed for seed in range(3) for each in Layout(7, 2).units(seed, **SMALL_UNIT)}
        assert len(seeds) == 21


class TestCurves:
    def test_the_average_is_weighted_by_step_sizes(self):
        assert_allclose(curves.running_average(result([4.0, 1.0], [1.0, 2.0]), 2), [4.0, 2.0])

    def test_a_chain_that_diverged_has_no_average(self):
        assert np.isnan(curves.running_average({"diverged": "at 3"}, 4)).all()

    def test_averaged_predictions_are_of_all_draws_and_chains(self):
        layout, common = Layout(2, 1), SMALL_UNIT | {"points": 2}
        first, second = layout.units(0, **common)
        likelihood = {first: np.log([[0.2], [0.6]]), second: np.log([[0.4], [0.8]])}
        results = {each: result([0.0, 0.0]) for each in (first, second)}
        found = curves.predictive_losses(layout, 1, results, common, likelihood.__getitem__)
        assert_allclose(found, [-np.log([0.3, 0.5])])

    def test_the_band_is_students_interval(self):
        mean, half = curves.summary(np.array([[1.0], [2.0], [3.0]]))
        assert_allclose((mean, half), ([2.0], [4.302653 / np.sqrt(3)]), rtol=1e-6)
        assert np.isnan(curves.summary(np.array([[1.0]]))[1]).all()

    def test_comparisons_pair_the_repetitions(self):
        ends = [np.array([1.0, 2.0]), np.array([0.9, 1.9]), np.array([0.95, 1.85])]
        first, second = curves.comparisons([Layout(1, w) for w in (1, 2, 4)], ends)
        assert (first["holds"], first["clear"]) == (True, True)
        assert first["half_width"] == pytest.approx(0, abs=1e-9)
        assert second["difference"] == pytest.approx(0)
        assert not second["clear"]

    def test_speedup_is_read_where_the_curves_cross(self):
        axis = np.array([10.0, 20.0, 30.0, 40.0])
        one = np.array([4.0, 3.0, 2.0, 1.0])
        assert curves.speedup(axis, one, one) == pytest.approx(1)
        assert curves.speedup(axis, one, np.array([2.0, 0.0, 0.0, 0.0])) == pytest.approx(40 / 15)
        assert curves.speedup(axis, one, one + 1) is None

    def test_the_verdict_names_the_step_that_is_too_large_and_the_one_that_repairs(self):
        rows = [
            {"lr": 1.0, "loss": [[3.0], [2.0]]},
            {"lr": 2.0, "loss": [[2.0], [1.9]]},
            {"lr": 4.0, "loss": [[1.5], [1.8]]},
            {"lr": 8.0, "loss": [[1.4], [float("nan")]]},
        ]
        assert step_sizes.verdict(rows) == {"too_large": 4.0, "repaired_at": 2.0}
        assert step_sizes.verdict(rows[3:]) == {"too_large": 8.0, "repaired_at": None}


class TestCluster:
    def test_servers_share_cores_and_links_beyond_what_there_is(self):
        machine = replace(tasks.TASKS["mnist"].machine, variation=0.0)
        alone = cluster_rate(machine, Layout(1, 2), 1000)
        assert cluster_rate(machine, Layout(5, 2), 1000) == alone
        crowded = cluster_rate(machine, Layout(7, 6), 1000) / cluster_rate(machine, Layout(1, 6), 1000)
        assert crowded == pytest.approx(40 / 49, rel=0.01)


class TestBudget:
    task = replace(tasks.TASKS["mnist"], iterations=1000, points=10)

    def test_iterations_are_what_fits(self):
        # 85 s less 2 · 10 evaluations of 0.25 s leave 80 s: 8,000 steps of 10 ms, or 800 for each of 10 workers.
        costs = Costs(step=0.01, loss=0.25)
        assert affordable(self.task, costs, updates=10, chains=2, seconds=100) == 800

    def test_never_more_than_the_whole(self):
        assert affordable(self.task, Costs(1e-9, 1e-9), updates=10, chains=2, seconds=100) == 1000

    def test_too_little_is_refused_with_what_would_do(self):
        with pytest.raises(ArgumentError, match=r"budget.*Give at least 0\.1 core minutes"):
            affordable(self.task, Costs(0.01, 0.25), updates=10, chains=2, seconds=5)


class Counting:
    """Executes units and counts them; one may be told to fail."""

    def __init__(self, fail_at=None):
        self.executed, self.fail_at = [], fail_at

    def __call__(self, each):
        if len(self.executed) == self.fail_at:
            raise KeyboardInterrupt
        self.executed.append(each)
        return {**result([1.0] * each.points), "array": np.arange(3.0)}


def name_of(each):
    """For other processes."""
    return {"name": each.name}


class TestUnitFolder:
    wanted = tuple(unit(workers=w) for w in (1, 2, 4))

    def test_what_was_done_before_an_interruption_is_not_done_again(self, tmp_path):
        interrupted, second = Counting(fail_at=2), Counting()
        with pytest.raises(KeyboardInterrupt):
            UnitFolder(tmp_path, interrupted, 1).results(self.wanted, lambda *_: None)
        found = UnitFolder(tmp_path, second, 1).results(self.wanted, lambda *_: None)
        assert [each.workers for each in (*interrupted.executed, *second.executed)] == [4, 2, 1]
        assert set(found) == set(self.wanted)

    def test_arrays_are_kept_beside_the_numbers(self, tmp_path):
        place = UnitFolder(tmp_path, Counting(), 1)
        assert "array" not in place.results(self.wanted, lambda *_: None)[self.wanted[0]]
        assert_allclose(place.arrays(self.wanted[0], "array"), [0, 1, 2])

    def test_other_processes_can_execute_units(self, tmp_path):
        reports = []
        found = UnitFolder(tmp_path, name_of, 2).results(self.wanted, lambda what, share: reports.append(share))
        assert {each: numbers["name"] for each, numbers in found.items()} == {each: each.name for each in self.wanted}
        assert reports[-1] == 1


class TestEndToEnd:
    def test_a_figure_goes_on_with_what_is_there(self, small, tmp_path, monkeypatch):
        numbers = figure.reproduce("fig3", tmp_path, ["a9a"], processes=1)
        found = numbers["datasets"]["a9a"]
        assert [row["workers"] for row in found["layouts"]] == [1, 2, 4, 6, 9]
        assert found["iterations_axis"] == [10, 20, 30, 40]
        assert [round(row["staleness_mean"]) for row in found["layouts"]] == [0, 1, 3, 5, 8]
        assert [compared["iterations"] for compared in found["comparisons"]] == [10, 40]
        assert found["comparisons"][0]["comparisons"][0][
            "holds"
        ]  # far from its end the loss of two workers is lower than that of one
        for row in found["layouts"]:
            assert np.less_equal(row["predictive_loss"], row["loss"]).all()
        assert json.loads((tmp_path / "fig3.json").read_text()) == json.loads(json.dumps(numbers))
        assert (tmp_path / "fig3.png").stat().st_size > 10_000
        monkeypatch.setattr(figure, "execute", lambda each: pytest.fail(f"{each} was executed again"))
        assert figure.reproduce("fig3", tmp_path, ["a9a"], processes=1)["datasets"] == numbers["datasets"]

    def test_the_first_loss_is_that_of_a_run_of_ones_own(self, small, tmp_path):
        numbers = figure.reproduce("fig3", tmp_path, ["a9a"], processes=1, seeds=1)
        task = tasks.TASKS["a9a"]
        kernel = task.recipe.kernel(300)
        run = sg.sample(small.potential, kernel, steps=40, thin=10, seed=0, engine="inline", progress=False)
        mean = np.mean([-small.log_likelihood(theta).mean() for theta in run.draws[0]])
        assert numbers["datasets"]["a9a"]["layouts"][0]["loss"][-1] == pytest.approx(mean)

    def test_a_folder_holds_one_experiment(self, small, tmp_path):
        figure.reproduce("fig4", tmp_path, ["a9a"], processes=1)
        with pytest.raises(ArgumentError, match=r"seeds.*which has 2.*another --out"):
            figure.reproduce("fig4", tmp_path, ["a9a"], seeds=3, processes=1)

    def test_iterations_must_divide(self, small, tmp_path):
        with pytest.raises(ArgumentError, match=r"iterations.*multiple of 4"):
            figure.reproduce("fig4", tmp_path, ["a9a"], iterations=41, processes=1)

    def test_a_step_that_is_too_large_is_found(self, small, tmp_path):
        numbers = step_sizes.reproduce(
            tmp_path, "a9a", lr=[0.02, 3.0], workers=[1, 9], iterations=40, points=4, seeds=2, processes=1
        )
        assert numbers["verdict"] == {"too_large": 3.0, "repaired_at": 0.02}
        assert (tmp_path / "step_sizes.png").stat().st_size > 10_000

    def test_averaging_beats_single_draws(self, small, tmp_path):
        numbers = averaging.reproduce(
            tmp_path, "a9a", gradients=400, draws=20, workers=2, seeds=2, lr=0.05, temperatures=[1.0], processes=1,
            sgd_lr=[0.05],
        )  # fmt: skip
        rows = {row["name"]: row["mean_log_likelihood"] for row in numbers["rows"]}
        assert list(rows) == ["posterior average, T = 1", "a single draw, T = 1", "last draw, T = 1", "SGD, lr 0.05"]
        assert rows["posterior average, T = 1"] > rows["a single draw, T = 1"]

    def test_a_chain_that_diverges_says_when(self, small):
        found = units.execute(unit(workers=9, lr=1e6, iterations=400))
        assert "update" in found["diverged"]
        assert "loss" not in found


class TestCommands:
    def test_figures_print_their_tables(self, small, tmp_path):
        outcome = CliRunner().invoke(
            cli.app, ["reproduce", "fig4", "--dataset", "a9a", "--out", str(tmp_path), "--processes", "1"]
        )
        assert outcome.exit_code == 0, outcome.output
        assert all(f"{servers} × 2" in outcome.output for servers in (1, 3, 5, 7))
        assert "averaged²" in outcome.output
        assert "the whole experiment" in outcome.output

    def test_budget_and_iterations_exclude_each_other(self, tmp_path):
        arguments = ["reproduce", "fig3", "--budget", "1", "--iterations", "4", "--out", str(tmp_path / "new")]
        outcome = CliRunner().invoke(cli.app, arguments)
        assert outcome.exit_code == 2
        assert not (tmp_path / "new").exists()

    def test_a_budget_is_said(self, small, tmp_path, monkeypatch):
        monkeypatch.setattr(figure, "measure_costs", lambda task, model: Costs(step=0.01, loss=0.0))
        minutes = str(22 * 2 * 20 * 0.01 / 0.85 / 60 + 0.005)  # 20 iterations of 22 workers, twice
        arguments = ["reproduce", "fig3", "--dataset", "a9a", "--budget", minutes, "--processes", "1"]
        outcome = CliRunner().invoke(cli.app, [*arguments, "--out", str(tmp_path)])
        assert outcome.exit_code == 0, outcome.output
        assert "20 of 40 iterations" in " ".join(outcome.output.split())


def test_networks_start_from_weights_of_their_own(monkeypatch):
    rng = np.random.Generator(np.random.Philox(key=2))
    X, y = rng.integers(256, size=(64, 28, 28), dtype=np.uint8), rng.integers(10, size=64)
    model = tasks.NetworkModel(
        sg.networks.lenet, Dataset("few", X, y, X, y, ("",) * 10, ""), 8, sg.networks.lenet_pixels
    )
    assert not np.array_equal(model.start(0), model.start(1))
    assert_allclose(model.start(0), model.potential.initial())
    assert_allclose(
        model.log_likelihood(model.start(1)), np.log(model.predict(model.start(1))[np.arange(64), y]), rtol=1e-5
    )
