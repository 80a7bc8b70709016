"""Data in shards: who sees what, with which weight, and that all engines agree on it."""

import os

import numpy as np
import pytest

import stalegrad as sg
from stalegrad._internal.errors import ArgumentError
from stalegrad.potentials import GaussianMean, Minibatches, from_gradient
from stalegrad.potentials.minibatches.shards import ShardedMinibatches, shard_sizes
from stalegrad.protocol.architectures import StaleGradients
from stalegrad.protocol.architectures.shards import Sharded, ShardedChain, ShardWeights
from stalegrad.protocol.chain import Each
from stalegrad.runs.jobs import JobFile
from stalegrad.testing import FaultyModel, check_shards

pytestmark = pytest.mark.usefixtures("compiled")

SGLD = sg.SGLD(step_size=1e-3)
DATA = np.random.default_rng(5).normal(size=(60, 3)) + np.linspace(-2, 2, 60)[:, None]  # shards differ


def model(**settings):
    return GaussianMean(DATA, **{"batch_size": 4, "dtype": np.float64, **settings})


class TestSizes:
    @pytest.mark.parametrize(("n_data", "workers"), [(10, 1), (10, 3), (12, 12), (1000, 7)])
    def test_equal_shards_differ_by_one_at_most(self, n_data, workers):
        sizes = shard_sizes(None, n_data, workers)
        assert (sum(sizes), len(sizes)) == (n_data, workers)
        assert max(sizes) - min(sizes) <= 1

    @pytest.mark.parametrize(
        ("sizes", "complaint"),
        [
            (None, "without any of 2 data"), ([1], "1 entries for 3 shards"), ([1, 1, 1], "sums to 3"),
            ([2, 0, 0], r"sizes\[1\]"), ("yes", "not a list"), ([1.0, 1, 1], r"sizes\[0\]"), (3, "not a list"),
        ],
    )  # fmt: skip
    def test_refusals(self, sizes, complaint):
        with pytest.raises(ArgumentError, match=complaint):
            shard_sizes(sizes, 2, 3)


@pytest.mark.parametrize("scheme", ["subset", "replacement", "reshuffle"])
class TestMinibatches:
    sizes = (7, 20, 33)

    def batches(self, scheme, size=5):
        return ShardedMinibatches(60, size, scheme, sizes=self.sizes)

    def test_every_datum_is_used_by_exactly_one_worker(self, scheme):
        batches = self.batches(scheme)
        seen = [
            {int(i) for chain in (0, 1) for count in range(200) for i in batches.draw(3, chain, worker, count)}
            for worker in range(3)
        ]
        for worker, indices in enumerate(seen):
            rows = batches.rows(worker)
            assert indices == set(range(rows.start, rows.stop))
        assert sum(map(len, seen)) == len(set.union(*seen)) == 60

    def test_many_at_once_are_the_same(self, scheme):
        batches = self.batches(scheme)
        workers, counts = np.array([2, 0, 1, 0, 2, 9]), np.array([0, 4, 1, 5, 7, 0])
        many = batches.draw_many(8, 1, workers, counts, repeats=3, first_repeat=2)
        for b, (worker, count) in enumerate(zip(workers.tolist(), counts.tolist(), strict=True)):
            for r in range(3):
                np.testing.assert_array_equal(many[b, r], batches.draw(8, 1, worker, count, repeat=2 + r))

    def test_whoever_is_no_worker_has_all_data(self, scheme):
        np.testing.assert_array_equal(
            self.batches(scheme).draw(1, 0, 3, 5), Minibatches(60, 5, scheme).draw(1, 0, 3, 5)
        )

    def test_one_shard_is_no_shard(self, scheme):
        whole = ShardedMinibatches(60, 5, scheme, sizes=(60,))
        np.testing.assert_array_equal(whole.draw(1, 0, 0, 5), Minibatches(60, 5, scheme).draw(1, 0, 0, 5))

    def test_a_minibatch_fits_into_every_shard(self, scheme):
        assert self.batches(scheme, 7).draw(0, 0, 0, 0).max() < 7
        with pytest.raises(ArgumentError, match="smallest of 3 shards"):
            self.batches(scheme, 8)


class TestWeights:
    """An order of workers, 0 1 1 2 2 2 0 1 1 …, gives them any share of the updates."""

    @pytest.mark.parametrize("sizes", [(20, 20, 20), (7, 20, 33)])
    @pytest.mark.parametrize("turns", [(1, 1, 1), (1, 3, 6)])
    def test_weighed_gradients_average_to_the_full_one(self, sizes, turns):
        """Over all minibatches of every worker, by its share of the updates: reshuffling sees each datum once."""
        potential = Sharded(model(batch_size=1, scheme="reshuffle"), sizes)
        order = np.tile(np.repeat(np.arange(3), turns), 20_000)
        weights = ShardWeights(sizes).of(order, 0)[-sum(turns) :]
        theta, total = np.array([0.3, -1.0, 2.0]), np.zeros(3)
        for worker, size in enumerate(sizes):
            draws = [potential.minibatches.draw(0, 0, worker, k) for k in range(size)]
            mean = np.mean([potential.gradient(theta, indices) for indices in draws], axis=0)
            total += weights[order[-sum(turns) :] == worker].sum() / sum(turns) * mean
        np.testing.assert_allclose(total, model().full_gradient(theta), rtol=5e-3)

    def test_equal_shards_and_workers_by_turns_keep_the_usual_scale(self):
        weights = ShardWeights((20, 20, 20)).of(np.arange(3000) % 3, 0)
        np.testing.assert_allclose(weights, 1, rtol=1e-12)

    def test_shards_in_proportion_to_speeds_keep_it_in_the_long_run(self):
        order = np.tile([0] + [1] * 9, 5000)
        weights = ShardWeights((6, 54)).of(order, 0)
        np.testing.assert_allclose(weights[-10:].mean(), 1, rtol=2e-3)
        np.testing.assert_allclose(weights[-10], 1, rtol=2e-3)

    def test_a_worker_that_comes_late_is_not_taken_for_a_slow_one(self):
        order = np.concatenate([np.zeros(5000, int), np.arange(2000) % 2])
        weights = ShardWeights((30, 30)).of(order, 0)
        assert weights.max() == 1
        np.testing.assert_allclose(weights[-2:], 1, rtol=0.2)

    def test_a_worker_that_was_away_for_long_is_not_taken_for_one_either(self):
        order = np.concatenate([np.arange(400) % 2, np.zeros(5000, int), np.arange(400) % 2])
        assert ShardWeights((30, 30)).of(order, 0).max() < 1.1

    def test_a_worker_that_becomes_slower_gets_its_due(self):
        order = np.concatenate([np.arange(20_000) % 2, np.tile([0] * 9 + [1], 10_000)])
        assert ShardWeights((30, 30)).of(order, 0)[-1] == pytest.approx(5, rel=1e-3)

    def test_one_by_one_all_at_once_and_from_a_past_are_the_same(self):
        order = np.random.default_rng(0).integers(3, size=500)
        weights = ShardWeights((10, 20, 30)).of(order, 0)
        one_by_one = ShardWeights((10, 20, 30))
        singles = [one_by_one.of([worker], update)[0] for update, worker in enumerate(order.tolist())]
        assert singles == weights.tolist()
        before, after = ShardWeights((10, 20, 30)), ShardWeights((10, 20, 30))
        before.of(order[:200], 0)
        for name, array in after.arrays().items():
            array[...] = before.arrays()[name]
        assert after.of(order[200:], 200).tolist() == weights[200:].tolist()

    def test_a_chain_that_is_restored_weighs_on_as_it_did(self):
        order, gradient = [0, 1, 1, 0, 1, 1, 1, 0], np.ones((1, 3))
        whole, half, rest = (ShardedChain(SGLD, np.zeros((1, 3)), 0, 0, sizes=(20, 40)) for _ in range(3))
        for worker in order:
            whole.apply(gradient, worker, Each(lambda *_: None))
        for worker in order[:5]:
            half.apply(gradient, worker, Each(lambda *_: None))
        rest.restore(5, half.snapshot())
        for worker in order[5:]:
            rest.apply(gradient, worker, Each(lambda *_: None))
        np.testing.assert_array_equal(rest.position, whole.position)

    def test_more_workers_than_shards(self):
        with pytest.raises(ArgumentError, match="a worker 2"):
            ShardWeights((30, 30)).of([0, 2], 0)


@pytest.mark.parametrize("engine", ["inline", "threads", pytest.param("processes", marks=pytest.mark.long)])
class TestEngines:
    def test_the_conformance_check(self, engine):
        check_shards(sg.engines.Inline() if engine == "inline" else engine, steps=120)

    @pytest.mark.parametrize("sizes", [None, [10, 20, 30]])
    @pytest.mark.long
    def test_replay_bit_for_bit(self, engine, sizes, tmp_path):
        kernel = sg.SGHMC(step_size=0.01, friction=5.0)
        run = sg.sample(
            model(dtype=np.float32), kernel, steps=200, workers=3, servers=2, architecture=sg.Shards(sizes),
            engine=engine, progress=False,
        )  # fmt: skip
        run.trace.save(tmp_path / "trace.npz")
        again = sg.replay(sg.Trace.load(tmp_path / "trace.npz"), model(dtype=np.float32), kernel)
        np.testing.assert_array_equal(again.draws, run.draws)
        assert again.trace.architecture == run.trace.architecture == sg.Shards(sizes or [20, 20, 20])

    @pytest.mark.long
    def test_stored_stopped_and_gone_on_with(self, engine, tmp_path):
        settings = {"workers": 3, "architecture": sg.Shards([10, 20, 30]), "engine": engine, "progress": False}
        sg.sample(model(), SGLD, steps=80, store=tmp_path / "run", **settings)
        with pytest.raises(ArgumentError, match="the run's state is that of 3 workers"):
            sg.resume(tmp_path / "run", model(), workers=4, steps=160, progress=False)
        run = sg.resume(tmp_path / "run", model(), steps=160, progress=False)
        assert run.draws.shape[1] == 160
        again = sg.replay(sg.load(tmp_path / "run").trace, model(), SGLD)
        np.testing.assert_array_equal(again.draws, np.asarray(run.draws[:]))

    @pytest.mark.long
    def test_compensated_stored_and_gone_on_with(self, engine, tmp_path):
        kernel = sg.SGHMC(step_size=0.01, friction=5.0)
        shards = sg.Shards([10, 20, 30], linear=[8.0] * model().size, look_ahead="auto", tame=0.3)
        settings = {"workers": 3, "architecture": shards, "engine": engine, "progress": False}
        sg.sample(model(), kernel, steps=80, store=tmp_path / "run", **settings)
        run = sg.resume(tmp_path / "run", model(), steps=160, progress=False)
        stored = sg.load(tmp_path / "run").trace
        assert stored.architecture == shards
        again = sg.replay(stored, model(), kernel)
        np.testing.assert_array_equal(again.draws, np.asarray(run.draws[:]))
        plain = sg.replay(stored, model(), kernel, architecture=sg.Shards([10, 20, 30]))
        assert not np.array_equal(plain.draws, again.draws)


def test_what_looks_ahead_needs_a_momentum_with_shards_as_well():
    with pytest.raises(ArgumentError, match="look_ahead"):
        sg.sample(model(), SGLD, steps=10, workers=3, architecture=sg.Shards(look_ahead=2), progress=False)


def test_a_stored_run_without_shards_stays_one(tmp_path):
    run = sg.sample(model(), SGLD, steps=20, workers=2, store=tmp_path / "run", progress=False)
    assert run.trace.architecture == StaleGradients()
    assert sg.resume(tmp_path / "run", model(), workers=3, steps=40, progress=False).draws.shape[1] == 40


def test_repetitions_share_the_weights_and_the_first_is_the_run():
    trace = sg.simulate(workers=3, steps=100, compute=sg.simulation.Exponential(1.0))
    one = sg.replay(trace, model(), SGLD, architecture=sg.Shards())
    many = sg.replay(trace, model(), SGLD, architecture=sg.Shards(), repeats=4)
    np.testing.assert_array_equal(many.draws[0], one.draws)
    np.testing.assert_array_equal(sg.replay(one.trace, model(), SGLD).draws, one.draws)


class OwnShard:
    """A gradient that loads its shard on first use and cannot reach any other data."""

    def __init__(self, file, sizes):
        self.file, self.ends = file, np.cumsum(sizes)
        self.rows, self.start = None, 0

    def __call__(self, theta, indices):
        if self.rows is None:
            shard = int(np.searchsorted(self.ends, indices[0], side="right"))
            self.start = int(self.ends[shard - 1]) if shard else 0
            self.rows = np.load(self.file, mmap_mode="r")[self.start : self.ends[shard]].copy()
            with open(f"{self.file}.{os.getpid()}", "w") as note:
                note.write(str(shard))
        local = indices - self.start
        assert local.min() >= 0
        return theta + 60 * (theta - self.rows[local].mean(axis=0))


@pytest.mark.long
def test_a_worker_that_holds_its_shard_only(tmp_path):
    """Worker processes each load a part of the file; the draws are those of the whole data."""
    np.save(tmp_path / "data.npy", DATA)
    sizes = [10, 20, 30]

    def alone():
        return from_gradient(
            OwnShard(str(tmp_path / "data.npy"), sizes), size=3, n_data=60, batch_size=4, dtype=np.float64
        )

    run = sg.sample(
        alone(), SGLD, steps=150, workers=3, architecture=sg.Shards(sizes), engine="processes", progress=False
    )
    notes = {path.read_text() for path in tmp_path.glob("data.npy.*") if path.suffix != f".{os.getpid()}"}
    assert notes == {"0", "1", "2"}

    def everything(theta, indices):
        return theta + 60 * (theta - DATA[indices].mean(axis=0))

    whole = from_gradient(everything, size=3, n_data=60, batch_size=4, dtype=np.float64)
    np.testing.assert_array_equal(sg.replay(run.trace, whole, SGLD).draws, run.draws)


def test_a_worker_that_is_lost_takes_its_shard_with_it(tmp_path):
    """Without shards the others would go on."""

    class OneBad(GaussianMean):
        def gradients(self, theta, indices, out):
            if indices.min() >= 40:
                raise RuntimeError("injected fault")
            super().gradients(theta, indices, out)

    bad = OneBad(DATA, batch_size=4)
    engine = sg.engines.Threads(restarts=1)
    with pytest.raises(sg.RunFailed, match="worker 2, whose part no other worker can take over"):
        sg.sample(
            bad, SGLD, steps=10**7, thin=10**5, workers=3, architecture=sg.Shards(), engine=engine, progress=False
        )


def test_a_chain_begins_when_all_workers_are_there():
    """Otherwise it would know the data of the first only until the others come."""
    run = sg.sample(
        model(), SGLD, steps=60, workers=4, architecture=sg.Shards(), engine="processes", progress=False,
        max_staleness=20, policy="wait",  # so that no run ends before each has answered
    )  # fmt: skip
    (chain,) = run.trace.chains
    first = chain.count == 0
    assert set(chain.worker[first]) == {0, 1, 2, 3}
    assert not (chain.version - chain.staleness)[first].any()  # all were given θ_0


def test_faults_do_not_change_the_bits(tmp_path):
    faulty = FaultyModel(tmp_path / "calls", {20: "raise", 40: "nan"})
    run = sg.sample(faulty, SGLD, steps=100, workers=2, architecture=sg.Shards(), engine="threads", progress=False)
    assert "refused" in {event.kind for event in run.events}  # the other may end the run before it has raised
    np.testing.assert_array_equal(sg.replay(run.trace, sg.testing.small_model(), SGLD).draws, run.draws)


class TestRefusals:
    def test_dropping(self):
        with pytest.raises(ArgumentError, match="policy='wait'"):
            sg.sample(model(), SGLD, steps=10, workers=3, architecture=sg.Shards(), max_staleness=4, progress=False)
        run = sg.sample(
            model(), SGLD, steps=30, workers=3, architecture=sg.Shards(), max_staleness=4, policy="wait",
            engine="inline", progress=False,
        )  # fmt: skip
        assert run.trace.chains[0].accepted.all()

    def test_minibatches_beyond_a_shard(self):
        with pytest.raises(ArgumentError, match="smallest of 20 shards"):
            sg.sample(model(), SGLD, steps=10, workers=20, architecture=sg.Shards(), progress=False)


TABLE = {
    "model": {"function": "stalegrad.datasets.models:gaussian", "arguments": {"n_data": 60}}, "steps": 10,
    "workers": 2, "kernel": {"name": "SGLD", "step_size": 1e-3},
}  # fmt: skip


class TestJobs:
    @pytest.mark.parametrize("sizes", [None, (20, 40)])
    def test_there_and_back(self, sizes):
        table = {"name": "Shards"} if sizes is None else {"name": "Shards", "sizes": list(sizes)}
        job = JobFile.from_table({**TABLE, "architecture": table})
        again = JobFile.from_table(job.table())
        assert again == job
        assert again.arguments(again.potential())["architecture"] == sg.Shards(sizes)

    def test_a_file(self, tmp_path):
        path = tmp_path / "job.toml"
        path.write_text(
            'steps = 10\nworkers = 2\narchitecture = {name = "Shards", sizes = [20, 40]}\n'
            '[model]\nfunction = "stalegrad.datasets.models:gaussian"\n'
            '[model.arguments]\nn_data = 60\n[kernel]\nname = "SGLD"\nstep_size = 1e-3\n'
        )
        job = JobFile.read(path)
        potential = job.potential()
        run = sg.sample(potential, progress=False, **job.arguments(potential))
        assert run.trace.architecture == sg.Shards([20, 40])

    @pytest.mark.parametrize("sizes", ["yes", [0, 60], ["a", 1], 3])
    def test_bad_tables(self, sizes):
        with pytest.raises(ArgumentError, match=r"architecture\.sizes|sizes\["):
            JobFile.from_table({**TABLE, "architecture": {"name": "Shards", "sizes": sizes}})
