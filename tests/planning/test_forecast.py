"""Forecasts from made-up calibrations against what queues and theory say."""

import json
import math

import pytest

from stalegrad._internal.errors import ArgumentError
from stalegrad.engines.simulation import simulate
from stalegrad.kernels import SGHMC, SGLD
from stalegrad.planning import Cluster, StepSizes, Targets, contention, times_here
from stalegrad.planning.contention import NO_BOUND, Bound, predict_here
from stalegrad.planning.forecast import predict
from stalegrad.theory import stability_limit

from .made_up import CYCLE, EXCHANGE, GRADIENT, SERVED, calibration, job, trip

NO_NETWORK = Cluster(latency=0.0, bandwidth=math.inf)
COUNTS = (1, 2, 4, 8, 16, 32, 64)


def forecast(measured=None, sizes=None, *, cluster=NO_NETWORK, targets=None, counts=COUNTS, **job_settings):
    measured = measured or calibration()
    return predict(job(**job_settings), measured, sizes, counts=counts, cluster=cluster, targets=targets or Targets())


class TestCluster:
    def test_without_contention_the_rate_is_workers_over_round_trips_until_the_server_is_busy(self):
        rows = forecast().rows
        for row in rows:
            expected = min(row.workers / CYCLE, 1 / SERVED)
            assert row.cluster.updates_per_second == pytest.approx(expected, rel=1e-6)
            assert row.cluster.mean_staleness == pytest.approx(row.workers - 1)
            assert row.core_seconds == pytest.approx(1000 * (row.workers + 1) / expected)
        assert rows[-1].cluster.server_busy == pytest.approx(1)

    def test_a_slow_server_is_the_limit(self):
        served = GRADIENT
        rows = forecast(calibration(trip(1, served=served, rate=1 / (2 * GRADIENT + EXCHANGE)))).rows
        assert [row.cluster.updates_per_second for row in rows[2:]] == pytest.approx([1 / served] * 5)

    def test_a_slow_link_is_the_limit(self):
        transfer = 2e-3
        rows = forecast(cluster=Cluster(latency=0.0, bandwidth=4000 / transfer)).rows
        assert rows[0].cluster.updates_per_second == pytest.approx(1 / (CYCLE + 2 * transfer))
        assert [row.cluster.updates_per_second for row in rows[4:]] == pytest.approx([1 / transfer] * 3)

    def test_latency_comes_on_top_of_the_exchange(self):
        rows = forecast(cluster=Cluster(latency=3e-3)).rows
        assert rows[0].cluster.updates_per_second == pytest.approx(1 / (CYCLE + 6e-3), rel=1e-3)


class TestThisMachine:
    def test_workers_that_do_not_disturb_each_other(self):
        here = [predict_here(calibration(), count, NO_BOUND) for count in (1, 2)]
        assert [h.updates_per_second for h in here] == pytest.approx([1 / CYCLE, 2 / CYCLE], rel=1e-3)
        assert [h.mean_staleness for h in here] == pytest.approx([0, 1])

    def test_the_exchange_is_what_neither_gradient_nor_server_explains(self):
        assert times_here(calibration(), 1).exchange == pytest.approx(EXCHANGE)
        assert times_here(calibration(), 2).exchange == pytest.approx(EXCHANGE, rel=1e-2)
        assert calibration().exchange == pytest.approx(EXCHANGE)

    @pytest.mark.parametrize("gain", [0.8, 1.0, 1.3, 1.7])
    @pytest.mark.parametrize("variation", [0.0, 0.3])
    def test_contention_at_two_workers_is_kept(self, gain, variation):
        """Server and workers share two cores, or a lock: two workers bring less than twice the rate of one."""
        shared = calibration(trip(1), trip(2, rate=gain / CYCLE), variation=variation)
        assert predict_here(shared, 2, NO_BOUND).updates_per_second == pytest.approx(gain / CYCLE, rel=0.03)

    def test_beyond_the_cores_more_workers_bring_nothing(self):
        shared = calibration(trip(1), trip(2, gradient=1.4 * GRADIENT, rate=1.4 / CYCLE))
        rates = [predict_here(shared, count, NO_BOUND).updates_per_second for count in (2, 4, 8)]
        assert rates == pytest.approx([1.4 / CYCLE] * 3, rel=0.06)

    def test_with_a_core_for_every_worker_the_rate_goes_on_growing(self):
        large = calibration(trip(1), trip(2), trip(8), cores=64)
        for count in (4, 8, 16):
            assert predict_here(large, count, NO_BOUND).updates_per_second == pytest.approx(count / CYCLE, rel=1e-2)

    def test_a_server_that_is_always_busy(self):
        busy = calibration(trip(1, served=GRADIENT, rate=40.0), trip(2, served=GRADIENT, rate=1 / GRADIENT))
        assert predict_here(busy, 2, NO_BOUND).updates_per_second == pytest.approx(1 / GRADIENT, rel=1e-3)

    def test_chains_share_the_cores(self):
        two = calibration(servers=2, cores=4)
        assert times_here(two, 4).gradient == pytest.approx(2 * GRADIENT)

    def test_a_bound_is_kept(self):
        assert predict_here(calibration(), 4, Bound(1, "wait")).mean_staleness <= 1

    def test_many_workers_under_a_tight_bound_are_simulated_for_so_many_gradients_only(self, monkeypatch):
        """All but one in twelve are dropped: as many updates as without the bound would take twelve times as long."""
        traces = []

        def simulated(**given):
            traces.append(simulate(**given))
            return traces[-1]

        monkeypatch.setattr(contention, "simulate", simulated)
        here = predict_here(calibration(cores=64), 12, Bound(0))
        assert len(traces[-1].chains[0]) == 10 * 400 * 12
        assert here.updates_per_second == pytest.approx(1 / CYCLE, rel=0.2)

    def test_far_beyond_the_cores_nothing_is_said(self):
        assert [row.here is None for row in forecast().rows] == [False, False, False, True, True, True, True]


def sgld(h, curvature=1.0):
    return StepSizes((SGLD(step_size=h),), curvature)


class TestStepSizes:
    def test_fresh_sgld_on_a_gaussian(self):
        """The variance of θ' = (1 − hλ)θ + √(2h) z is 1/(λ(1 − hλ/2))."""
        assert sgld(0.2, 2.0).error(0.0) == pytest.approx(1 / (1 - 0.2) - 1)

    @pytest.mark.parametrize("tau", [0, 1, 7, 31])
    def test_it_blows_up_at_the_limit_of_stability(self, tau):
        limit = float(stability_limit(3.0, tau))
        assert sgld(0.1, 3.0).blow_up(tau) == limit
        assert math.isinf(sgld(1.01 * limit, 3.0).error(tau))
        assert math.isfinite(sgld(0.99 * limit, 3.0).error(tau))

    @pytest.mark.parametrize("kernel", [SGLD(step_size=0.9), SGLD(step_size=1e3), SGHMC(step_size=0.9, friction=1.0)])
    @pytest.mark.parametrize("tau", [0.0, 3.4, 200.0])
    def test_the_advised_step_leaves_a_tenth(self, kernel, tau):
        sizes = StepSizes((kernel,), 1.0)
        factor = sizes.advised_factor(tau)
        if factor == 1:
            assert sizes.stands(tau)
        else:
            assert not sizes.stands(tau)
            assert 0.05 < abs(sizes.error(tau, factor)) <= 0.1

    def test_momentum_has_no_such_limit(self):
        assert StepSizes((SGHMC(step_size=0.1, friction=1.0),), 1.0).blow_up(3.0) is None


class TestAdvice:
    def test_the_server_limits_the_workers(self):
        """1/SERVED is 24 workers' worth of gradients: 16 keep the server two thirds busy, 32 too busy."""
        advice = forecast().advice
        assert advice.workers == 16
        assert "With 32 the server would be busy" in advice.reasons[0]
        assert advice.step_size_factor == 1
        assert not advice.warnings

    def test_the_step_size_limits_the_workers(self):
        """h·λ·(τ + ½) of about 0.2 is where the variance is off by a fifth: τ = 3 is within, τ = 7 is not."""
        advice = forecast(sizes=sgld(0.04)).advice
        assert advice.workers == 4
        assert "With 8 the variance would be off by" in advice.reasons[0]
        assert advice.reasons[1].startswith("Step size: 0.04 stays.")
        assert "takes back what they bring" in advice.reasons[0]

    def test_a_step_that_even_fresh_gradients_do_not_stand(self):
        sizes = sgld(1.5)
        made = forecast(sizes=sizes, workers=8)
        advice = made.advice
        assert advice.workers == 16
        assert abs(sizes.error(15.0, advice.step_size_factor)) <= 0.1
        assert "in place of 1.5" in advice.reasons[0]
        assert "blows up" in advice.warnings[0]
        assert advice.steps > 11_000 / advice.step_size_factor - 1  # shorter steps, more of them

    def test_the_largest_number_that_was_tried(self):
        advice = forecast(counts=(1, 2, 4)).advice
        assert advice.workers == 4
        assert "largest number that was tried" in advice.reasons[0]

    def test_half_the_error_takes_four_times_the_updates(self):
        advice = forecast(targets=Targets(error=0.5), servers=2).advice
        assert (advice.servers, advice.steps, advice.burn_in) == (2, 41_000, 1000)

    def test_a_deadline_sets_the_number_of_chains(self):
        rate = 16 / CYCLE
        within = 5000 / rate  # 4,000 kept updates a chain
        advice = forecast(targets=Targets(within=within)).advice
        assert advice.servers == 3
        assert advice.seconds <= within
        assert advice.servers * (advice.steps - advice.burn_in) >= 10_000
        assert advice.core_hours == pytest.approx(3 * 17 * advice.seconds / 3600)

    def test_a_deadline_within_the_burn_in(self):
        advice = forecast(targets=Targets(within=0.1)).advice
        assert advice.servers == 1
        assert any("burn-in alone takes" in reason for reason in advice.reasons)

    def test_a_price(self):
        advice = forecast(targets=Targets(price=0.5)).advice
        assert advice.price == pytest.approx(0.5 * advice.core_hours)

    def test_minibatches_that_are_large_enough_stay(self):
        """2 ms of 10 ms are a fifth."""
        advice = forecast().advice
        assert advice.batch_size == 100
        assert any("J = 100 is enough" in reason for reason in advice.reasons)

    def test_minibatches_that_are_too_small_grow(self):
        """A gradient takes 2 ms + J · 80 µs; 2 ms + 4 ms of latency are 15 % of 40 ms, at J = 475."""
        advice = forecast(cluster=Cluster(latency=2e-3, bandwidth=math.inf)).advice
        assert advice.batch_size == 480

    def test_a_model_that_is_too_cheap(self):
        advice = forecast(cluster=Cluster(latency=1.0)).advice
        assert advice.batch_size == 100
        assert any("too cheap" in reason for reason in advice.reasons)

    def test_this_machine(self):
        shared = calibration(trip(1), trip(2, rate=1.02 / CYCLE))
        assert forecast(shared).advice.workers_here == 1
        assert forecast().advice.workers_here == 2

    def test_a_thread_alone_may_be_faster(self):
        slow = calibration(trip(1, rate=20.0), trip(2, rate=21.0))
        assert "engine inline" in forecast(slow).advice.reasons[-1]

    def test_others_on_the_machine_are_mentioned(self):
        assert "others" in forecast(calibration(busy_elsewhere=0.4)).advice.warnings[0]

    @pytest.mark.parametrize("targets", [{"error": 0.0}, {"within": -1.0}, {"price": -1.0}])
    def test_targets_that_cannot_be(self, targets):
        with pytest.raises(ArgumentError, match=next(iter(targets))):
            Targets(**targets)


def test_gradients_at_other_sizes_lie_on_a_line():
    measured = calibration()
    assert measured.gradient_seconds(100) == pytest.approx(GRADIENT)
    assert measured.gradient_seconds(1000) == pytest.approx(82e-3)
    assert calibration(gradients={100: 1e-3}).gradient_seconds(500) == GRADIENT


def test_what_is_written(tmp_path):
    made = forecast(sizes=sgld(1.5))
    text, picture = made.save(tmp_path / "new")
    numbers = json.loads(text.read_text())
    assert [row["workers"] for row in numbers["predictions"]] == list(COUNTS)
    assert numbers["predictions"][-1]["variance_error"] is None  # it blows up, and JSON has no infinity
    assert numbers["calibration"]["round_trips"][1]["updates_per_second"] == pytest.approx(2 / CYCLE)
    assert numbers["advice"]["workers"] == made.advice.workers
    assert picture.stat().st_size > 1000
