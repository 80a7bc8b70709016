"""Control variates and SVRG: unbiased, less noisy, as dear as they say, and replayed bit for bit."""

import numpy as np
import pytest

import stalegrad as sg
from stalegrad.potentials import GaussianMean, Logistic, control_variates, find_mode, natural, svrg
from stalegrad.potentials.address import GradientAddress
from stalegrad.potentials.base import Potential
from stalegrad.potentials.wrappers.whitened import Whitened
from stalegrad.protocol import executor as inline
from stalegrad.testing import FaultyModel, small_logistic, small_model

KERNEL = sg.SGLD(step_size=0.01)


@pytest.fixture(scope="module")
def logistic():
    rng = np.random.default_rng(3)
    x = rng.standard_normal((400, 3))
    y = rng.random(400) < 1 / (1 + np.exp(-x @ [1.0, -0.5, 0.3]))
    return Logistic(x, y, batch_size=8, dtype=np.float64)


class TestFindMode:
    def test_the_gradient_vanishes_there(self, logistic):
        mode = find_mode(logistic, progress=False, tolerance=1e-12)
        assert np.linalg.norm(logistic.full_gradient(mode)) < 1e-4 * np.linalg.norm(logistic.full_gradient(0 * mode))

    def test_it_does_not_mind_how_badly_scaled_a_model_is(self):
        scales = np.geomspace(1e-3, 1e3, 12)

        def gradient(theta, indices):
            return (theta - 1.0) * scales

        model = sg.potentials.from_gradient(gradient, size=12, n_data=1, dtype=np.float64)
        found = find_mode(model, progress=False)
        assert scales @ (found - 1.0) ** 2 / 2 < 0.01  # the posterior's own U is 6 above its minimum

    def test_it_ends_when_it_may_not_spend_more(self):
        calls = []

        def gradient(theta, indices):
            calls.append(len(indices))
            return theta**3 - 1e6

        model = sg.potentials.from_gradient(gradient, size=3, n_data=10, dtype=np.float64)
        find_mode(model, progress=False, passes=7)
        assert calls == [10] * 7

    def test_it_shows_how_far_it_is_on_a_terminal(self, logistic, monkeypatch, capsys):
        find_mode(logistic)
        assert capsys.readouterr() == ("", "")
        monkeypatch.setenv("FORCE_COLOR", "1")  # rich takes standard error for a terminal
        find_mode(logistic)
        assert "finding the mode" in capsys.readouterr().err

    def test_a_start_of_another_shape_is_refused(self, logistic):
        with pytest.raises(sg.ArgumentError, match="initial"):
            find_mode(logistic, np.zeros(4))


class TestControlVariates:
    def test_the_mean_over_all_minibatches_is_the_exact_gradient(self, logistic):
        model, theta = control_variates(logistic, progress=False), np.array([0.3, 0.3, -1.0])
        parts = [model.gradient(theta, np.arange(8 * k, 8 * k + 8)) for k in range(50)]
        np.testing.assert_allclose(np.mean(parts, axis=0), logistic.full_gradient(theta), rtol=1e-10)

    def test_noise_vanishes_at_the_anchor_and_grows_with_the_distance_squared(self, logistic):
        model = control_variates(logistic, progress=False)
        assert model.variance_report(model.anchor).reduced < 1e-20
        near, far = (model.variance_report(model.anchor + d, batches=256) for d in (0.01, 0.02))
        assert near.factor > 1000
        assert 3.9 < far.reduced / near.reduced < 4.1  # the same minibatches: only the curvature of the logit is left
        assert (near.plain_cost, near.reduced_cost) == (8, 16)
        assert "for 16 gradients of a datum in place of 8" in str(near)

    def test_the_reported_variance_is_the_exact_one(self):
        """Of the mean of J of N data without replacement: (1/J)(1 − J/N) N²/(N − 1) times the sum of squares / N."""
        data = np.random.default_rng(0).standard_normal(50)
        model = control_variates(GaussianMean(data, batch_size=5, dtype=np.float64), progress=False)
        report = model.variance_report(np.zeros(1), batches=4000)
        exact = 50**2 * data.var(ddof=1) / 5 * (1 - 5 / 50)
        assert abs(report.plain - exact) < 5 * report.plain_error  # 6e-7
        assert report.reduced < 1e-20  # a constant Hessian leaves no noise at all

    def test_rows_have_the_bits_of_single_gradients(self, logistic):
        model = control_variates(small_logistic(), np.full(3, 0.5))
        theta = np.random.default_rng(1).standard_normal((5, 3)).astype(np.float32)
        indices = np.random.default_rng(2).integers(0, 40, (5, 4))
        out = np.empty_like(theta)
        model.gradients(theta, indices, out)
        alone = [model.gradient(t, i) for t, i in zip(theta, indices, strict=True)]
        np.testing.assert_array_equal(out, np.array(alone))

    @pytest.mark.long
    def test_compiled_blocks_give_the_same_bits(self, monkeypatch):
        model, trace = control_variates(small_logistic(), np.full(3, 0.5)), sg.Trace.constant_staleness(3, 60, seed=2)
        plain = sg.replay(trace, model, KERNEL, repeats=2)
        used = []
        real = inline.execute_block
        monkeypatch.setattr(inline, "execute_block", lambda *a: used.append(1) or real(*a))
        monkeypatch.setattr(inline, "WORTH_A_BLOCK", 1)
        np.testing.assert_array_equal(sg.replay(trace, model, KERNEL, repeats=2).draws, plain.draws)
        assert used

    def test_a_model_without_compiled_code_takes_no_compiled_way(self, monkeypatch):
        monkeypatch.setattr("stalegrad.protocol.executor.WORTH_A_BLOCK", 10)
        model = sg.potentials.from_gradient(lambda theta, indices: theta, size=2, n_data=5, dtype=np.float64)
        anchored = sg.potentials.control_variates(model, np.ones(2))
        assert anchored.bound is None
        sg.sample(anchored, sg.SGLD(step_size=0.1), steps=20, engine="inline", progress=False)

    def test_the_posterior_stays_and_the_chain_is_closer_to_it(self, logistic):
        """With steps at which minibatch noise more than doubles the variance, the anchored chain hardly feels it."""
        model = control_variates(logistic, progress=False)
        trace = sg.Trace.constant_staleness(2, 4000, seed=5)
        kernel = sg.SGLD(step_size=5e-4)
        runs = [sg.replay(trace, m, kernel, burn_in=500, repeats=16, initial=model.anchor) for m in (logistic, model)]
        plain, anchored = (run.draws.reshape(-1, 3).var(axis=0) for run in runs)
        hessian = np.stack([(logistic.full_gradient(model.anchor + d) - logistic.full_gradient(model.anchor - d)) / 2e-4
                            for d in 1e-4 * np.eye(3)])  # fmt: skip
        exact = np.diag(np.linalg.inv(hessian))
        assert (plain > 1.3 * exact).all()
        assert (np.abs(anchored / exact - 1) < 0.25).all()

    def test_names_start_and_variables_are_the_model_s(self, logistic):
        model = control_variates(logistic, np.ones(3))
        assert model.layout == logistic.layout
        np.testing.assert_array_equal(model.initial(), logistic.initial())
        np.testing.assert_array_equal(model.full_gradient(np.ones(3)), logistic.full_gradient(np.ones(3)))

    def test_shards_work_as_they_do_without(self):
        model = control_variates(small_logistic(), np.full(3, 0.5))
        run = sg.sample(model, KERNEL, steps=90, workers=3, architecture=sg.Shards(), engine="threads", progress=False)
        np.testing.assert_array_equal(sg.replay(run.trace, model, KERNEL).draws, run.draws)

    def test_refusals(self, logistic):
        with pytest.raises(sg.ArgumentError, match="mode"):
            control_variates(logistic, np.zeros(2))
        with pytest.raises(sg.ArgumentError, match="is a SVRG"):
            control_variates(svrg(logistic))

    def test_no_other_wrapper_drops_what_workers_do_beyond_gradients(self, logistic):
        reduced = svrg(logistic)
        with pytest.raises(sg.ArgumentError, match="is a SVRG"):
            natural(reduced, sg.metrics.ExpandedMean())
        with pytest.raises(sg.ArgumentError, match="is a SVRG"):
            Whitened(reduced, np.zeros(3), np.eye(3))


class TestSVRG:
    def answers(self, model, points, counts, worker=0):
        out = np.empty((len(points), 1, model.size), model.dtype)
        for k, (point, count) in enumerate(zip(points, counts, strict=True)):
            model.answer(np.array(point, model.dtype)[None], GradientAddress(1, 0, worker, count), out[k])
        return out[:, 0]

    def test_what_a_worker_answers(self, logistic):
        model, points = svrg(logistic, refresh=3), np.random.default_rng(0).standard_normal((5, 3))
        got = self.answers(model, points, range(5))
        for k, point in enumerate(points):
            anchor = points[k - k % 3]
            batch = logistic.minibatches.draw(1, 0, 0, k)
            expected = logistic.full_gradient(anchor)
            if k % 3:
                expected = expected + logistic.gradient(point, batch) - logistic.gradient(anchor, batch)
            np.testing.assert_allclose(got[k], expected, rtol=1e-12)

    def test_workers_have_anchors_of_their_own(self, logistic):
        model, points = svrg(logistic, refresh=4), np.random.default_rng(0).standard_normal((2, 3))
        alone = self.answers(svrg(logistic, refresh=4), points, [0, 1])
        self.answers(model, points[:1], [0])
        self.answers(model, points[1:], [0], worker=1)
        np.testing.assert_array_equal(self.answers(model, points[1:], [1]), alone[1:])

    def test_a_gap_in_a_trace_is_an_error_and_not_a_wrong_number(self, logistic):
        model = svrg(logistic, refresh=4)
        self.answers(model, np.zeros((4, 3)), range(4))
        with pytest.raises(sg.TraceError, match="gradient 5 of worker 0 needs the anchor of its gradient 4"):
            self.answers(model, np.zeros((1, 3)), [5])
        with pytest.raises(sg.TraceError, match="needs the anchor"):
            self.answers(model.for_worker(), np.zeros((1, 3)), [3])

    def test_the_report(self, logistic):
        mode = find_mode(logistic, progress=False)
        path = mode + 0.05 * np.cumsum(np.random.default_rng(0).standard_normal((10, 3)), axis=0) / np.sqrt(10)
        report = svrg(logistic, refresh=10).variance_report(path)
        assert report.factor > 20
        assert report.reduced_cost == pytest.approx((400 + 9 * 16) / 10)

    @pytest.mark.parametrize("engine", ["threads", pytest.param("processes", marks=pytest.mark.long)])
    @pytest.mark.parametrize("fault", ["raise", "nan"])
    def test_lost_gradients_leave_the_replay_exact(self, tmp_path, engine, fault):
        faulty = svrg(FaultyModel(tmp_path / "calls", {31: fault, 64: fault}), refresh=5)
        # One worker, so that the run cannot end before its faults are reported.
        run = sg.sample(faulty, KERNEL, steps=150, workers=1, seed=7, engine=engine, progress=False)
        assert len(run.events) == 2
        counts = run.trace.chains[0].count
        assert len(counts) < counts.max() + 1  # the worker has skipped the rest of an epoch
        again = sg.replay(run.trace, svrg(small_model(), refresh=5), KERNEL)
        np.testing.assert_array_equal(again.draws, run.draws)

    @pytest.mark.long
    def test_a_dead_process_leaves_the_replay_exact(self, tmp_path):
        faulty = svrg(FaultyModel(tmp_path / "calls", {33: "kill"}), refresh=5)
        run = sg.sample(faulty, KERNEL, steps=100, workers=1, seed=7, engine="processes", progress=False)
        assert [event.kind for event in run.events] == ["died"]
        again = sg.replay(run.trace, svrg(small_model(), refresh=5), KERNEL)
        np.testing.assert_array_equal(again.draws, run.draws)

    @pytest.mark.parametrize("engine", ["inline", "threads"])
    def test_a_resumed_run_replays_from_its_start(self, tmp_path, engine):
        model = svrg(small_logistic(), refresh=7)
        settings = {"workers": 3, "engine": engine, "progress": False}
        sg.sample(model, KERNEL, steps=50, store=tmp_path / "run", **settings)
        run = sg.resume(tmp_path / "run", model, engine=engine, steps=120, progress=False)
        assert run.trace.chains[0].steps == 120
        np.testing.assert_array_equal(sg.replay(run.trace, model, KERNEL).draws, np.asarray(run.draws))

    def test_repetitions_of_a_trace(self):
        model, trace = svrg(small_logistic(), refresh=5), sg.Trace.constant_staleness(2, 40, seed=1)
        many = sg.replay(trace, model, KERNEL, repeats=3)
        alone = sg.replay(trace, model, KERNEL, repeats=1, first_repeat=2)
        np.testing.assert_array_equal(many.draws[2], alone.draws[0])

    def test_what_could_lose_an_anchor_is_refused(self):
        model = svrg(small_logistic(), refresh=5)
        with pytest.raises(sg.ArgumentError, match="does not go with SVRG"):
            sg.sample(model, KERNEL, steps=10, workers=3, max_staleness=2, engine="inline", progress=False)
        with pytest.raises(sg.ArgumentError, match="architecture"):
            sg.sample(model, KERNEL, steps=10, workers=3, architecture=sg.Shards(), engine="inline", progress=False)
        run = sg.sample(
            model, KERNEL, steps=90, workers=3, max_staleness=3, policy="wait", engine="threads", progress=False
        )
        np.testing.assert_array_equal(sg.replay(run.trace, model, KERNEL).draws, run.draws)

    def test_a_simulated_trace_that_drops_anchors_is_refused(self):
        trace = sg.simulate(workers=4, steps=200, compute=sg.Exponential(1.0), max_staleness=2, seed=0)
        assert not trace.chains[0].accepted.all()
        with pytest.raises(sg.TraceError, match="needs the anchor"):
            sg.replay(trace, svrg(small_logistic(), refresh=3), KERNEL)


def test_wrappers_are_potentials_that_can_be_sent_away():
    import cloudpickle

    for model in (control_variates(small_logistic(), np.ones(3)), svrg(small_logistic(), refresh=3)):
        again = cloudpickle.loads(cloudpickle.dumps(model))
        assert isinstance(again, Potential)
        assert again.epoch == model.epoch
