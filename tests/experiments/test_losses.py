"""Figures 3 and 4, step sizes and averaging on small data: their arithmetic, their folder, and all of it end to end."""

import json
from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.sparse import csr_array
from typer.testing import CliRunner

import stalegrad as sg
from stalegrad import cli
from stalegrad._internal.errors import ArgumentError, StoreError
from stalegrad.datasets import Dataset
from stalegrad.experiments.losses import (
    averaging,
    chain_run,
    curves,
    figure,
    statements,
    step_sizes,
    tasks,
    units,
)
from stalegrad.experiments.losses.chain import ChainName
from stalegrad.experiments.losses.chain_folder import ChainFolder
from stalegrad.experiments.losses.chain_record import ChainRecord
from stalegrad.experiments.losses.chain_run import Files, lengthen
from stalegrad.experiments.losses.cluster import cluster_rate
from stalegrad.experiments.losses.evaluation import grid_error, places, refuse_unless_a_place, running_average
from stalegrad.experiments.losses.layouts import FIGURES, Goal, Layout, with_controls
from stalegrad.experiments.losses.reached import ends_of_repetitions, longer_alone, most_repeated
from stalegrad.experiments.losses.together import draw_together
from stalegrad.experiments.losses.worker_momentum import WorkerMomentum
from stalegrad.protocol.architectures.base import Place
from stalegrad.protocol.chain import Each

pytestmark = pytest.mark.long

LENGTH = 60
KINDS = ("datasets", "longest")


def logistic_model(rows):
    """Made-up data: so many rows to learn from, a third of that to test with."""
    rng = np.random.Generator(np.random.Philox(key=1))
    dense = rng.integers(2, size=(rows + rows // 3, 6)).astype(np.float32)
    labels = np.where(dense.sum(1) + rng.standard_normal(len(dense)) > 3, 1, -1)
    parts = [csr_array(part) for part in (dense[:rows], dense[rows:])]
    data = Dataset("small", parts[0], labels[:rows], parts[1], labels[rows:], ("no", "yes"), "made for a test")
    return tasks.LogisticModel(data, batch_size=50)


def use(model, monkeypatch, **changes):
    """Let it be a9a's task."""
    monkeypatch.setitem(tasks.TASKS, "a9a", replace(tasks.TASKS["a9a"], **changes))
    for module in (figure, units, averaging, chain_run):
        monkeypatch.setattr(module, "model_of", lambda name, batch_size, layers="caffe": model)
    return model


@pytest.fixture
def small(monkeypatch):
    """a9a's task with 300 rows, and at most 60 iterations."""
    return use(logistic_model(300), monkeypatch, iterations=LENGTH)


def name(workers=1, chain=0, seed=0, **changes):
    return ChainName(**{"task": "a9a", "workers": workers, "chain": chain, "seed": seed, "lr": 0.01, **changes})


def record(loss, at=(1, 2), workers=1, predictive=((0.5,),), kept=(1,), **facts):
    return ChainRecord(
        name(workers), 9.0, np.array(at), np.array(loss), np.array(kept), np.log(np.array(predictive)),
        {"seconds": 0.0, **facts},
    )  # fmt: skip


class TestEvaluation:
    def test_a_shorter_chain_is_looked_at_where_a_longer_one_is(self):
        few, many = places(500, density=20), places(20_000, density=20)
        assert_array_equal(few, many[: len(few)])
        assert np.diff(few[:20]).max() == 1
        assert np.diff(many).max() <= 20_000 / 20
        assert {100, 200, 300, 500, 1000, 20_000} <= set(many.tolist())

    def test_other_lengths_are_refused_with_what_would_do(self):
        refuse_unless_a_place(500, 20)
        with pytest.raises(ArgumentError, match=r"iterations=499.*Give \d+ or 500"):
            refuse_unless_a_place(499, 20)

    def test_the_average_is_over_all_updates_and_weighted_by_steps(self):
        found = running_average(9.0, np.array([4.0, 1.0]), np.array([1, 4]), np.array([1.0, 2.0, 1.0, 1.0]))
        assert_allclose(found, [4.0, (4 + 2 * 3 + 2 + 1) / 5])

    def test_the_average_does_not_depend_on_how_often_one_looks(self, tmp_path, monkeypatch):
        """The same chain, looked at as a9a is, half as often, and at every iteration: within 0.1 %."""
        model, ends, looked = logistic_model(6000), {}, {}
        for density in (30, tasks.TASKS["a9a"].density, 500):
            use(model, monkeypatch, density=density, iterations=500)
            found = lengthen(Files(tmp_path / str(density), name(workers=4)), 500)
            ends[density], looked[density] = found.average(tasks.TASKS["a9a"], 500)[-1], len(found.places)
        assert looked[30] < looked[60] < looked[500] == 500
        assert ends[30] == pytest.approx(ends[60], rel=1e-3)
        assert ends[60] == pytest.approx(ends[500], rel=1e-3)

    def test_oscillations_are_averaged_right_where_looks_are_a_third_of_a_period_apart(self):
        """One update in 2,000 sets off 200 updates of oscillation up to twenty times the loss, as nine workers do."""
        updates, since = np.arange(1, 9001), np.arange(200)
        burst = 10 * np.sin(np.pi * since / 200) ** 2 * (1 - np.cos(2 * np.pi * since / 27))
        begun = np.random.default_rng(3).random(9000) < 1 / 2000
        phi = 2 / (1 + updates / 100) * (1 + np.convolve(begun, burst)[:9000])
        errors = {}
        for apart in (None, 2, 1):
            at = 9 * places(1000, 40, apart)
            errors[apart] = abs(running_average(2.0, phi[at - 1], at, np.ones(9000))[-1] / phi.mean() - 1)
        assert errors[1] < 1e-3
        assert errors[1] < errors[2]
        assert errors[None] > 0.02

    def test_networks_are_looked_at_as_often_by_updates_for_every_number_of_workers(self):
        task = tasks.TASKS["mnist"]
        common = places(1000, task.density)
        for workers in (1, 2, 4, 6, 9):
            at = task.looked_at(workers, 1000)
            assert np.isin(common, at).all()
            assert np.diff(at).max() == max(1, 9 // workers)
        assert_array_equal(tasks.TASKS["a9a"].looked_at(9, 1000), places(1000, tasks.TASKS["a9a"].density))

    def test_a_coarse_grid_is_found_out(self):
        at = np.array([1, 10, 100])
        assert grid_error(9.0, np.array([9.0, 1.0, 9.0]), at, np.ones(100)) > 0.3


class TestChains:
    def test_a_chain_that_goes_on_is_the_chain(self, small, tmp_path):
        """For each form: its state holds everything that it carries."""
        for changes in ({}, {"temperature": 0.0}, {"momentum": "workers", "temperature": 0.0}, {"fresh": True}):
            chain = name(workers=3, **changes)
            whole = lengthen(Files(tmp_path / "whole", chain), 50)
            assert lengthen(Files(tmp_path / "parts", chain), 10).iterations == 10
            parts = lengthen(Files(tmp_path / "parts", chain), 50)
            assert_array_equal(parts.loss, whole.loss)
            assert_array_equal(parts.log_predictive, whole.log_predictive)
            again = lengthen(Files(tmp_path / "parts", chain), 30)
            assert again.facts == parts.facts

    def test_without_its_state_it_begins_anew_and_is_the_same(self, small, tmp_path):
        files = Files(tmp_path, name(workers=2))
        short = lengthen(files, 20)
        files.state.unlink()
        assert_array_equal(lengthen(files, 50).loss[: len(short.loss)], short.loss)

    def test_a_chain_that_was_looked_at_less_often_is_made_again(self, small, tmp_path, monkeypatch):
        use(small, monkeypatch, density=5)
        files = Files(tmp_path, name(workers=2))
        coarse = lengthen(files, 50)
        use(small, monkeypatch, updates_between=4)
        assert not coarse.has(tasks.TASKS["a9a"], 50)
        fine = lengthen(files, 50)
        assert len(fine.places) > len(coarse.places)
        assert_array_equal(fine.loss[np.isin(fine.places, coarse.places)], coarse.loss)
        assert ChainRecord.load(files.record).has(tasks.TASKS["a9a"], 50)

    def test_the_time_that_is_over_leaves_a_chain_that_goes_on(self, small, tmp_path):
        files = Files(tmp_path, name(workers=2))
        assert 0 < lengthen(files, 50, deadline=0.0).iterations < 50
        assert lengthen(files, 50).iterations == 50

    def test_the_loss_over_all_test_data_is_that_of_the_last_draw_or_none(self, small, tmp_path):
        files = Files(tmp_path, name(workers=2))
        short = lengthen(files, 10).facts["whole_test_loss"]
        left = lengthen(files, 50, deadline=0.0)
        assert 10 < left.iterations < 50
        assert "whole_test_loss" not in left.facts
        assert lengthen(files, 50).facts["whole_test_loss"] != short

    def test_the_losses_are_those_of_a_run_of_ones_own(self, small, tmp_path):
        found = lengthen(Files(tmp_path, name(lr=0.001)), 40)
        kernel = tasks.TASKS["a9a"].recipe.kernel(300)
        run = sg.sample(small.potential, kernel, steps=40, seed=0, engine="inline", progress=False)
        losses = [-small.log_likelihood(theta).mean() for theta in run.draws[0]]
        assert_allclose(found.loss, losses, rtol=1e-5)
        weights = run.step_sizes[0]
        average = np.cumsum(weights * losses) / np.cumsum(weights)
        assert_allclose(found.average(tasks.TASKS["a9a"], 40), average, rtol=1e-5)

    def test_learning_rates_decay_with_the_iterations_of_a_worker(self, small):
        task = tasks.TASKS["a9a"]
        one, nine = (small.kernel(task, 0.001, 1.0, workers).schedule for workers in (1, 9))
        assert nine(9 * 10_000) == pytest.approx(one(10_000))
        assert_allclose(name(9).weights(task, 91)[90], one(10) / one(0))

    def test_a_chain_that_diverges_says_when(self, small, tmp_path):
        found = lengthen(Files(tmp_path, name(workers=9, lr=1e20)), 50)
        assert "update" in found.facts["diverged"]
        assert found.has(tasks.TASKS["a9a"], 50)
        assert len(found.average(tasks.TASKS["a9a"], 50)) < 50

    def test_fresh_gradients_are_those_of_one_worker(self, small, tmp_path):
        found = lengthen(Files(tmp_path, name(workers=9, fresh=True)), 20)
        assert found.facts["staleness_max"] == 0
        assert lengthen(Files(tmp_path, name(workers=9)), 20).facts["staleness_mean"] > 7

    def test_one_worker_that_keeps_the_momentum_is_sgd_with_momentum(self, small, tmp_path):
        """With W = 1 both controls are the same algorithm; only the server's starts with no momentum, too, at T = 0."""
        cold, own = (
            lengthen(Files(tmp_path, name(temperature=0.0, momentum=who)), 20) for who in ("server", "workers")
        )
        assert_allclose(own.loss[:3], cold.loss[:3], rtol=1e-3)

    def test_records_are_read_back_and_rubbish_is_refused(self, small, tmp_path):
        files = Files(tmp_path, name(workers=2, seed=3, layers="paper"))
        found = lengthen(files, 10)
        again = ChainRecord.load(files.record)
        assert again.name == found.name
        assert_allclose(again.predictive_loss(10), found.predictive_loss(10))
        assert_allclose(found.predictive_loss(1), found.loss[:1], rtol=1e-2)  # of one draw they are the same
        files.record.write_bytes(b"rubbish")
        with pytest.raises(StoreError, match="Delete it to have it made again"):
            ChainRecord.load(files.record)


def test_momenta_of_workers_are_their_own():
    """v_w ← m v_w + g of worker w, and θ ← θ − h v_w."""
    kernel = sg.SGLD(step_size=0.1, temperature=0.0)
    chain = WorkerMomentum(0.5).chain(kernel, Place(np.zeros((1, 2)), 0, 0), workers=2)
    velocity, theta = np.zeros((2, 2)), np.zeros(2)
    for step, worker in enumerate((0, 1, 0, 0, 1)):
        gradient = np.array([1.0 + step, -2.0])
        chain.apply(gradient[None].copy(), worker, Each(lambda *update: None))
        velocity[worker] = 0.5 * velocity[worker] + gradient
        theta -= 0.1 * velocity[worker]
    assert_allclose(chain.position[0], theta)
    assert_allclose(chain.snapshot()["velocities"][:, 0], velocity)


def extent(layouts, records, iterations=2, seeds=1):
    return curves.Extent(
        tasks.TASKS["a9a"],
        layouts,
        records,
        iterations,
        seeds,
        lambda layout, seed: layout.chains(seed, task="a9a", lr=0.01),
    )


class TestCurves:
    def test_servers_are_estimated_over_all_subsets_of_their_chains(self):
        layouts = [Layout(1, 1), Layout(2, 1)]
        chains = layouts[1].chains(0, task="a9a", lr=0.01)
        records = dict(
            zip(
                chains,
                [record([4.0, 2.0], predictive=((0.2,), (0.4,)), kept=(1, 2)),
                 record([2.0, 2.0], predictive=((0.4,), (0.6,)), kept=(1, 2))],
                strict=True,
            )
        )  # fmt: skip
        found = extent(layouts, records)
        for layout in layouts:
            assert_allclose(found.averages(layout), [[4.0, 3.0], [2.0, 2.0]], rtol=1e-4)
            assert_allclose(found.current(layout), [[4.0, 2.0], [2.0, 2.0]])
        assert_allclose(found.predictive(layouts[1]), [-np.log([0.3, 0.5])])
        assert_allclose(found.predictive(layouts[0]), -np.log([[0.2, 0.4], [0.4, 0.6]]))
        one, two = found.pairs("predictive", *layouts)  # one row a repetition
        assert_allclose(one, -np.log([[0.2, 0.4], [0.4, 0.6]]).mean(0)[None])
        assert_allclose(two, [-np.log([0.3, 0.5])])
        one, two = (found.spread(layout)[0] for layout in layouts)
        assert two == pytest.approx(one / np.sqrt(2))

    def test_the_variance_of_servers_is_compared_with_that_of_one(self):
        """40 repetitions of 4 servers whose ends are independent normals: 1/4, and an interval that holds it."""
        layout, rng = Layout(4, 1), np.random.Generator(np.random.Philox(key=3))
        records = {
            chain: record([end, end], at=(1, 2))
            for seed in range(40)
            for chain, end in zip(layout.chains(seed, task="a9a", lr=0.01), rng.standard_normal(4), strict=True)
        }
        ratio, low, high = extent([layout], records, seeds=40).spread_ratio(layout)
        assert low < 0.25 < high < 1
        assert low < ratio < high
        assert np.isnan(extent([layout], records, seeds=1).spread_ratio(layout)).all()

    def test_a_chain_that_diverged_has_no_end(self):
        layout = Layout(1, 1)
        (chain,) = layout.chains(0, task="a9a", lr=0.01)
        found = extent([layout], {chain: record([4.0], at=(1,), diverged="at 3")})
        assert_allclose(found.averages(layout), [[4.0, np.nan]])
        assert_allclose(found.predictive(layout), [[-np.log(0.5), np.nan]])
        assert np.isnan(found.spread_ratio(layout)).all()

    def test_a_chain_that_diverges_later_is_sound_before(self):
        """Its last losses are no part of curves: one is above that of the start, 9, and stays there."""
        layout = Layout(1, 1)
        (chain,) = layout.chains(0, task="a9a", lr=0.01)
        one = record([4.0, 2.0, 50.0], at=(1, 2, 3), predictive=((0.5,), (0.4,)), kept=(1, 2), diverged="at 3")
        before, after = (extent([layout], {chain: one}, iterations=end) for end in (2, 3))
        assert_allclose(before.averages(layout), [[4.0, 3.0]], rtol=1e-4)
        assert_allclose(before.predictive(layout), -np.log([[0.5, 0.4]]))
        assert_allclose(after.averages(layout), [[4.0, 3.0, np.nan]], rtol=1e-4)
        assert_allclose(after.current(layout), [[4.0, 2.0, np.nan]])
        assert [one.lost(end) for end in (2, 3, 9)] == [False, True, True]

    def test_the_band_is_students_interval(self):
        mean, half = curves.summary(np.array([[1.0], [2.0], [3.0]]))
        assert_allclose((mean, half), ([2.0], [4.302653 / np.sqrt(3)]), rtol=1e-6)
        assert np.isnan(curves.summary(np.array([[1.0]]))[1]).all()

    def test_speedup_is_read_where_the_curves_cross(self):
        axis = np.array([10.0, 20.0, 30.0, 40.0])
        one = np.array([[4.0, 3.0, 2.0, 1.0]])
        assert_allclose(curves.speedups(axis, 5.0, one, one), [1])
        assert_allclose(curves.speedups(axis, 5.0, one, np.array([[2.0, 0.0, 0.0, 0.0]])), [40 / 15])
        assert_allclose(curves.speedups(axis, 5.0, one, np.array([[0.0, 0.0, 0.0, 0.0]])), [40 / 8])  # before the first
        assert np.isnan(curves.speedups(axis, 5.0, one, one + 1)).all()


class TestStatements:
    def test_intervals_decide(self, tmp_path, monkeypatch):
        """At a short step more workers are further on the way; with one repetition nobody can tell."""
        use(logistic_model(3000), monkeypatch, iterations=LENGTH)
        wanted = figure.Wanted(iterations=20, seeds=6, controls=("fresh",))
        numbers = figure.reproduce("fig3", tmp_path, ["a9a"], wanted, processes=1)
        verdicts = {each["statement"]: each["outcome"] for each in numbers["datasets"]["a9a"]["verdicts"]}
        assert verdicts["Loss (φ̂) falls with workers (1, 2, 4, 6, 9) at L̄ = 20"] == "holds"
        assert any("as many updates" in statement for statement in verdicts)
        alone = figure.reproduce("fig3", tmp_path, ["a9a"], replace(wanted, seeds=1), processes=1)
        assert {each["outcome"] for each in alone["datasets"]["a9a"]["verdicts"]} == {"cannot be told"}

    def test_differences_pair_the_repetitions(self):
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

    def test_differences_pair_the_chains_that_both_have(self):
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

    def test_what_diverges_has_no_lower_loss(self):
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

    def test_steps_that_are_too_large_and_one_that_repairs(self):
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


class TestLayouts:
    def test_the_figures_compare_what_the_paper_does(self):
        assert FIGURES["fig3"] == [Layout(1, w) for w in (1, 2, 4, 6, 9)]
        assert FIGURES["fig4"] == [Layout(s, 2) for s in (1, 3, 5, 7)]
        assert {(x.servers, x.workers) for x in FIGURES["supplement"]} == {(1, w) for w in range(1, 10)} | {
            (s, w) for s in (1, 3, 5, 7) for w in (1, 2, 4, 6)
        }

    def test_controls_are_chains_of_their_own(self):
        layouts = with_controls(FIGURES["fig3"], ["fresh", "cold", "worker-momentum"])
        words = [chain.word for layout in layouts for chain in layout.chains(0, task="cifar10", lr=0.1)]
        assert len(set(words)) == len(words) == 5 + 1 + 3 + 3

    def test_chains_and_repetitions_have_seeds_of_their_own(self):
        chains = [each for seed in range(3) for each in Layout(7, 2).chains(seed, task="a9a", lr=0.1)]
        assert len({each.run_seed for each in chains}) == 21


class TestReached:
    """How much of a figure is shown, of chains that are so long."""

    def ends(self, *lengths, **lost):
        layouts, goals = [Layout(1, 1)], [Goal(5000, 3)]
        records = {
            layouts[0].chains(seed, task="a9a", lr=0.1)[0]: record([1.0], at=(length,), **(lost if seed == 1 else {}))
            for seed, length in enumerate(lengths)
        }
        return ends_of_repetitions(
            layouts, records, goals, lambda layout, seed: layout.chains(seed, task="a9a", lr=0.1)
        )

    def test_a_figure_is_as_long_as_two_repetitions_of_all_its_layouts(self):
        assert most_repeated(self.ends(5000, 5000, 5000)) == (5000, 3)
        assert most_repeated(self.ends(5000, 1400, 1100)) == (1000, 3)
        assert most_repeated(self.ends(5000, 2000)) == (2000, 2)
        assert most_repeated(self.ends(730)) == (500, 1)
        assert most_repeated(self.ends()) is None
        assert most_repeated(self.ends(9000, 9000, 9000)) == (5000, 3)  # chains of a longer figure

    def test_what_diverged_is_as_long_as_it_gets(self):
        assert most_repeated(self.ends(9000, 7000, 9000, diverged="at 7,000")) == (5000, 3)
        assert most_repeated(self.ends(5000, 70, 5000, diverged="at 70")) == (5000, 3)

    def test_what_the_first_repetition_has_beyond_is_shown_alone(self):
        assert longer_alone(self.ends(5000, 1400, 1100)) == (5000, 1)
        assert longer_alone(self.ends(5000, 5000, 5000)) is None
        assert longer_alone(self.ends(1400, 5000, 5000)) is None  # one from which to read would be another seed's
        assert longer_alone(self.ends(730)) is None
        assert longer_alone(self.ends()) is None


class TestCluster:
    def test_servers_share_cores_and_links_beyond_what_there_is(self):
        machine = replace(tasks.TASKS["mnist"].machine, variation=0.0)
        alone = cluster_rate(machine, Layout(1, 2), 1000)
        assert cluster_rate(machine, Layout(5, 2), 1000) == alone
        crowded = cluster_rate(machine, Layout(7, 6), 1000) / cluster_rate(machine, Layout(1, 6), 1000)
        assert crowded == pytest.approx(40 / 49, rel=0.01)


class TestEndToEnd:
    def test_a_figure_goes_on_with_what_is_there(self, small, tmp_path, monkeypatch):
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

    def test_a_budget_that_is_over_leaves_what_there_is(self, small, tmp_path):
        wanted = figure.Wanted(iterations=50, seeds=2)
        nothing = figure.reproduce("fig4", tmp_path, ["a9a"], wanted, processes=1, deadline=0.0)
        assert nothing["datasets"] == {}
        assert figure.reproduce("fig4", tmp_path, ["a9a"], wanted, processes=1)["datasets"]["a9a"]["seeds"] == 2

    def test_what_one_repetition_has_beyond_the_others_has_a_picture_of_its_own(self, small, tmp_path):
        for iterations, seeds in ((20, 2), (60, 1)):
            figure.reproduce("fig4", tmp_path, ["a9a"], figure.Wanted(iterations, seeds), processes=1)
        assert not (tmp_path / "fig4-longest.png").exists()
        numbers = figure.reproduce("fig4", tmp_path, ["a9a"], figure.Wanted(60, 2), processes=1, deadline=0.0)
        extents = [(numbers[kind]["a9a"]["iterations"], numbers[kind]["a9a"]["seeds"]) for kind in KINDS]
        assert extents == [(20, 2), (60, 1)]
        assert all(path.stat().st_size > 10_000 for path in figure.pictures("fig4", tmp_path))
        command = ["reproduce", "fig4", "--dataset", "a9a", "--budget", "0", "--out", str(tmp_path), "--processes", "1"]
        printed = CliRunner().invoke(cli.app, [*command, "--iterations", "60", "--seeds", "2"]).output
        assert "after 20 iterations" in printed
        assert "after 60 iterations" in printed
        assert "fig4-longest.png" in "".join(printed.split())

    def test_iterations_must_be_a_place(self, small, tmp_path):
        tasks.TASKS["a9a"] = replace(tasks.TASKS["a9a"], density=5)
        with pytest.raises(ArgumentError, match=r"iterations=49"):
            figure.reproduce("fig4", tmp_path, ["a9a"], figure.Wanted(iterations=49), processes=1)

    def test_one_repetition_after_the_other_and_the_dearest_chains_first(self, tmp_path, monkeypatch):
        names, made = [name(workers=w, seed=seed) for seed in range(2) for w in (1, 9)], []
        module = "stalegrad.experiments.losses.chain_folder"
        monkeypatch.setattr(f"{module}.lengthen", lambda files, *_: made.append(files.name))
        ChainFolder(tmp_path, 1).lengthen(names, 10, lambda what, share: None)
        assert [(each.seed, each.workers) for each in made] == [(0, 9), (0, 1), (1, 9), (1, 1)]

    def test_a_step_that_is_too_large_is_found(self, small, tmp_path):
        numbers = step_sizes.reproduce(
            tmp_path, "a9a", lr=[0.01, 3.0], workers=[1, 9], iterations=50, seeds=3, processes=1
        )
        assert [each["outcome"] for each in numbers["verdicts"]] == ["holds", "holds"]
        assert (tmp_path / "step_sizes.png").stat().st_size > 10_000

    def test_averaging_beats_single_draws(self, small, tmp_path):
        numbers = averaging.reproduce(
            tmp_path, "a9a", gradients=400, draws=20, workers=2, seeds=2, lr=0.05, temperatures=[1.0], processes=1,
            sgd_lr=[0.05],
        )  # fmt: skip
        rows = {row["name"]: row["mean_log_likelihood"] for row in numbers["rows"]}
        assert list(rows) == ["posterior average, T = 1", "a single draw, T = 1", "last draw, T = 1", "SGD, lr 0.05"]
        assert rows["posterior average, T = 1"] > rows["a single draw, T = 1"]


class TestCommands:
    def test_figures_print_their_tables_and_verdicts(self, small, tmp_path):
        command = ["reproduce", "fig4", "--dataset", "a9a", "--out", str(tmp_path), "--processes", "1"]
        outcome = CliRunner().invoke(cli.app, [*command, "--iterations", "60", "--seeds", "2"])
        assert outcome.exit_code == 0, outcome.output
        assert all(f"{servers} × 2" in outcome.output for servers in (1, 3, 5, 7))
        assert "the whole experiment" in " ".join(outcome.output.split())
        assert "does not hold" in outcome.output

    def test_chains_that_diverged_have_no_finite_loss(self, small, tmp_path):
        command = ["reproduce", "fig3", "--dataset", "a9a", "--out", str(tmp_path), "--processes", "1"]
        outcome = CliRunner().invoke(cli.app, [*command, "--iterations", "60", "--seeds", "2", "--lr", "3000"])
        assert outcome.exit_code == 0, outcome.output
        assert "∞" in outcome.output
        assert "diverged" in outcome.output
        assert "does not hold" in outcome.output
        assert (tmp_path / "fig3.png").stat().st_size > 10_000

    def test_what_a_budget_leaves_out_is_said(self, small, tmp_path):
        command = ["reproduce", "fig3", "--dataset", "a9a", "--budget", "0", "--processes", "1", "--out", str(tmp_path)]
        outcome = CliRunner().invoke(cli.app, command)
        assert outcome.exit_code == 0, outcome.output
        assert "Not one repetition was finished of: a9a" in " ".join(outcome.output.split())

    def test_data_sets_are_drawn_together(self, small, tmp_path):
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

    def test_a_folder_without_figures_says_how_to_make_one(self, tmp_path):
        with pytest.raises(sg.ArgumentError, match="stalegrad reproduce fig3"):
            draw_together(tmp_path)


def _height_of(path):
    return int.from_bytes(path.read_bytes()[20:24], "big")  # the second number of a PNG's header


def test_networks_start_from_weights_of_their_own(monkeypatch):
    rng = np.random.Generator(np.random.Philox(key=2))
    X, y = rng.integers(256, size=(64, 28, 28), dtype=np.uint8), rng.integers(10, size=64)
    model = tasks.NetworkModel(
        sg.networks.lenet, Dataset("few", X, y, X, y, ("",) * 10, ""), 8, sg.networks.lenet_pixels
    )
    assert not np.array_equal(model.start(0), model.start(1))
    assert_allclose(model.start(0), model.potential.initial())
    assert_allclose(model.log_likelihoods(model.start(1)[None])[0], model.log_likelihood(model.start(1)), rtol=1e-5)
    assert_allclose(
        model.log_likelihood(model.start(1)), np.log(model.predict(model.start(1))[np.arange(64), y]), rtol=1e-5
    )
