"""The simulated cluster against what queueing theory and common sense say."""

from types import MappingProxyType

import numpy as np
import pytest
from scipy import stats

import stalegrad as sg
from stalegrad.engines.simulation import Constant, Exponential, LogNormal, Network, simulate
from stalegrad.engines.simulation.cluster import Cluster
from stalegrad.protocol.chain_trace import joined
from stalegrad.testing import small_model

FALSE_ALARM = 1e-6
LIMIT = stats.norm.isf(FALSE_ALARM / 2)
FREE = Network()
SLOW_LINK = Network(latency=0.03, bandwidth=1e6, message_bytes=1e5)  # a message occupies it for 0.1 s
UNEVEN = Network(latency=0.03, bandwidth=1e6, message_bytes=5e4, gradient_bytes=2e5)


def chain_of(**settings):
    (chain,) = simulate(**settings).chains
    return chain


def by_events(steps, **settings):
    """A chain that is simulated event by event, though there is a shorter way."""
    return joined(rows for rows, _ in Cluster(**settings)._events(0, steps))


def assert_same(one, other):
    for (name, x), y in zip(one.columns().items(), other.columns().values(), strict=True):
        assert (x is None) == (y is None), name
        if x is not None:
            np.testing.assert_array_equal(x, y, name)


class TestDeterminism:
    settings = MappingProxyType(
        {"workers": 5, "steps": 200, "compute": LogNormal(1.0, 0.5), "update": 0.1, "servers": 3}
    )

    def test_the_seed_decides(self):
        for one, other in zip(simulate(**self.settings).chains, simulate(**self.settings).chains, strict=True):
            assert_same(one, other)

    def test_seeds_and_servers_differ(self):
        chains = simulate(**self.settings).chains + simulate(**self.settings, seed=1).chains
        assert len({chain.time[-1] for chain in chains}) == 6

    def test_a_chain_does_not_depend_on_how_many_there_are(self):
        assert_same(simulate(**self.settings).chains[0], chain_of(**self.settings | {"servers": 1}))

    def test_the_largest_seed(self):
        assert simulate(**self.settings, seed=2**64 - 1).seed == 2**64 - 1


class TestTakingTurns:
    @pytest.mark.parametrize("workers", [1, 2, 3, 7, 32])
    @pytest.mark.parametrize(
        "link", [FREE, Network(latency=0.2), SLOW_LINK, UNEVEN], ids=["free", "latency", "slow", "uneven"]
    )
    @pytest.mark.parametrize(("seconds", "busy"), [(1.0, 0.0), (1.0, 0.1), (0.1, 1.0), (0.0, 0.3), (1 / 3, 1 / 7)])
    def test_the_closed_form_is_the_simulation(self, workers, link, seconds, busy):
        """Whatever limits the rate: workers, link or server."""
        short = chain_of(workers=workers, steps=150, compute=seconds, network=link, update=busy)
        events = by_events(workers=workers, steps=150, compute=seconds, network=link, update=busy)
        assert_same(short, events)

    def test_also_when_nothing_takes_any_time(self):
        short = chain_of(workers=4, steps=50, compute=0.0)
        assert_same(short, by_events(workers=4, steps=50, compute=0.0))

    def test_workers_take_turns_and_are_one_round_behind(self):
        chain = chain_of(workers=4, steps=100)
        assert chain.worker.tolist() == [0, 1, 2, 3] * 25
        assert chain.staleness.tolist() == [0, 1, 2] + [3] * 97
        assert chain.applied_twice() == 0

    @pytest.mark.parametrize("bound", [3, 4, None])
    def test_a_bound_that_nobody_meets_changes_nothing(self, bound):
        assert_same(chain_of(workers=4, steps=50, max_staleness=bound), chain_of(workers=4, steps=50))

    def test_a_tighter_bound_drops(self):
        chain = chain_of(workers=4, steps=50, max_staleness=2)
        assert not chain.accepted.all()
        assert chain.updates().staleness.max() == 2


class TestRates:
    """With constant times the slowest of workers, server and link sets the pace."""

    @staticmethod
    def seconds_per_update(workers, compute, link=FREE, busy=0.0):
        rounds = 60
        times = chain_of(workers=workers, steps=rounds * workers, compute=compute, network=link, update=busy).time
        return (times[-1] - times[rounds // 2 * workers - 1]) / (rounds // 2 * workers)

    @pytest.mark.parametrize("workers", [1, 2, 5, 20, 100])
    @pytest.mark.parametrize("busy", [0.0, 0.05, 0.5])
    @pytest.mark.parametrize(
        "link", [FREE, Network(latency=0.25), SLOW_LINK, UNEVEN], ids=["free", "latency", "slow", "uneven"]
    )
    def test_constant_times(self, workers, busy, link):
        cycle = 1.0 + busy + 2 * link.latency + link.transfer + link.gradient_transfer
        expected = max(cycle / workers, busy, link.transfer, link.gradient_transfer)
        assert self.seconds_per_update(workers, Constant(1.0), link, busy) == pytest.approx(expected, rel=1e-9)

    @pytest.mark.parametrize("law", [Exponential(1.0), LogNormal(1.0)])
    def test_a_saturated_server_never_rests(self, law):
        """64 workers offer 64 gradients a second to a server that takes 10."""
        times = chain_of(workers=64, steps=1000, compute=law, update=0.1).time
        np.testing.assert_allclose(np.diff(times[500:]), 0.1, rtol=1e-9)

    def test_a_saturated_link_never_rests(self):
        times = chain_of(workers=64, steps=1000, compute=Exponential(1.0), network=SLOW_LINK).time
        np.testing.assert_allclose(np.diff(times[500:]), SLOW_LINK.transfer, rtol=1e-9)

    def test_latency_adds_twice_to_the_cycle_of_a_lone_worker(self):
        settings = {"workers": 1, "steps": 100, "compute": Exponential(1.0), "update": 0.1}
        near, far = chain_of(**settings), chain_of(**settings, network=0.7)
        np.testing.assert_allclose(far.time - near.time, 2 * 0.7 * np.arange(1, 101), rtol=1e-9)

    def test_a_lone_worker_is_never_stale_and_its_cycles_add_up(self):
        law = LogNormal(1.0)
        chain = chain_of(workers=1, steps=100, compute=law, network=SLOW_LINK, update=0.2, seed=3)
        cycles = [law.seconds(3, 0, 0, k) + 2 * 0.03 + 2 * 0.1 + 0.2 for k in range(100)]
        assert not chain.staleness.any()
        np.testing.assert_allclose(chain.time, np.cumsum(cycles), rtol=1e-9)


class TestMemorylessWorkers:
    """Exponential times and no delays: arrivals are a Poisson process whose marks are the workers, each equally likely.

    So a worker's staleness is geometric with mean W − 1. The mean over L gradients telescopes to W − 1 less the sum of
    how long ago each worker came last, over L: coupon collecting backwards, with mean W(W−1) and variance W²(W−1)/2.
    """

    workers, steps = 12, 60_000

    @pytest.fixture
    def chain(self):
        return chain_of(workers=self.workers, steps=self.steps, compute=Exponential(3.0), seed=8)

    def test_mean_staleness(self, chain):
        w, count = self.workers, self.steps
        expected, error = (w - 1) * (1 - w / count), w * np.sqrt((w - 1) / 2) / count
        assert abs(chain.staleness.mean() - expected) < LIMIT * error
        assert error < 1e-3 * expected

    def test_law_of_staleness(self, chain):
        observed = chain.staleness[chain.worker == 0][1:]
        values = np.arange(0, 40)
        law = stats.geom(1 / self.workers, loc=-1)
        expected = np.append(law.pmf(values), law.sf(values[-1])) * len(observed)
        counts = np.bincount(np.minimum(observed, 40), minlength=41)
        assert stats.chisquare(counts, expected).pvalue > FALSE_ALARM

    def test_arrivals_are_poisson_and_workers_equally_likely(self, chain):
        gaps = np.diff(chain.time)
        assert stats.kstest(gaps, stats.expon(scale=3.0 / self.workers).cdf).pvalue > FALSE_ALARM
        assert stats.chisquare(np.bincount(chain.worker)).pvalue > FALSE_ALARM


class TestStragglers:
    settings = MappingProxyType({"workers": 6, "steps": 3000, "seed": 2})

    def test_they_slow_nobody_else(self):
        plain = chain_of(**self.settings, compute=Exponential(1.0))
        slowed = chain_of(**self.settings, compute=Exponential(1.0, factors={4: 10.0}))

        def arrivals(chain, worker):
            return chain.time[chain.worker == worker]

        for worker in range(6):
            before, after = arrivals(plain, worker), arrivals(slowed, worker)
            common = min(len(before), len(after))
            assert common > 30
            factor = 10.0 if worker == 4 else 1.0
            np.testing.assert_allclose(after[:common], factor * before[:common], rtol=1e-12)

    def test_their_gradients_are_the_stale_ones(self):
        chain = chain_of(**self.settings, compute=LogNormal(1.0, factors={4: 10.0}))
        slow = chain.staleness[chain.worker == 4]
        rest = chain.staleness[(chain.worker != 4) & (chain.version > 20)]
        assert slow[1:].min() > rest.max()


@pytest.mark.parametrize("workers", [1, 4, 9])
@pytest.mark.parametrize("bound", [0, 1, 3, 10, 40])
class TestBound:
    """A tenth of the gradients would be far too stale without a bound: one worker is ten times slower."""

    def chain(self, workers, bound, policy):
        law = Exponential(1.0, factors={0: 10.0})
        return chain_of(workers=workers, steps=2000, compute=law, update=0.01, max_staleness=bound, policy=policy)

    def test_drop(self, workers, bound):
        chain = self.chain(workers, bound, "drop")
        assert chain.steps == 2000
        assert chain.updates().staleness.max() <= bound
        np.testing.assert_array_equal(chain.accepted, chain.staleness <= bound)
        assert (~chain.accepted).any() == (workers > 1)
        dropped = np.flatnonzero(~chain.accepted)
        np.testing.assert_array_equal(chain.version[dropped + 1], chain.version[dropped])  # the version stays
        assert chain.applied_twice() == 0

    def test_wait(self, workers, bound):
        chain = self.chain(workers, bound, "wait")
        assert chain.accepted.all()
        assert len(chain) == 2000
        assert chain.staleness.max() <= bound
        assert chain.applied_twice() == 0
        assert set(chain.worker) == set(range(workers))


def test_a_dropped_gradient_costs_the_server_nothing():
    """Gradients queue, so a dropped one is done with the moment the update before it is."""
    chain = chain_of(workers=8, steps=300, compute=0.1, update=1.0, max_staleness=2)
    spacing = np.diff(chain.time)
    np.testing.assert_allclose(spacing[chain.accepted[1:]], 1.0, rtol=1e-12)
    assert (~chain.accepted).sum() > 300
    assert not spacing[~chain.accepted[1:]].any()


def test_waiting_for_a_wide_bound_costs_nothing():
    settings = {"workers": 4, "steps": 500, "compute": LogNormal(1.0, 0.1)}
    free = chain_of(**settings)
    assert free.staleness.max() < 10
    assert_same(free, chain_of(**settings, max_staleness=100, policy="wait"))


def test_versions_and_counts_are_those_of_the_protocol():
    """A worker reads the version that its last gradient made, or left, and takes its next minibatch."""
    chain = chain_of(workers=5, steps=1000, compute=Exponential(1.0), update=0.3, max_staleness=6)
    for worker in range(5):
        mine = np.flatnonzero(chain.worker == worker)
        np.testing.assert_array_equal(chain.count[mine], np.arange(len(mine)))
        read = (chain.version - chain.staleness)[mine]
        np.testing.assert_array_equal(read[1:], (chain.version + chain.accepted)[mine][:-1])
        assert read[0] == 0
    assert (np.diff(chain.time) >= 0).all()


@pytest.mark.parametrize("policy", ["drop", "wait"])
def test_a_thousand_workers(policy):
    bound = None if policy == "drop" else 2500
    chain = chain_of(workers=1024, steps=100_000, compute=Exponential(1.0), max_staleness=bound, policy=policy)
    assert chain.steps == 100_000
    assert len(np.unique(chain.worker)) == 1024


def test_the_seed_of_a_run_decides_who_is_fast_on_the_inline_engine():
    engine, kernel = sg.engines.Inline(compute=sg.Exponential(1.0)), sg.SGLD(step_size=0.01)
    settings = {"steps": 50, "workers": 4, "engine": engine, "progress": False}
    orders = [sg.sample(small_model(), kernel, seed=seed, **settings).trace.chains[0].worker for seed in (0, 1, 1)]
    assert orders[0].tolist() != orders[1].tolist() == orders[2].tolist()


@pytest.mark.parametrize("law", [Exponential(1.0), Constant(1.0)])
@pytest.mark.parametrize("bound", [None, 1])
def test_a_limit_on_gradients_cuts_the_trace_off_and_changes_nothing_before(law, bound):
    settings = {"workers": 4, "steps": 500, "compute": law, "max_staleness": bound}
    whole, cut, longer = chain_of(**settings), chain_of(**settings, gradients=300), chain_of(**settings, gradients=3000)
    assert len(cut) == 300
    for (name, of_whole), of_cut in zip(whole.columns().items(), cut.columns().values(), strict=True):
        if of_whole is not None:
            np.testing.assert_array_equal(of_whole[:300], of_cut, name)
    assert_same(longer, whole)


def test_a_limit_on_gradients_that_is_none_is_refused():
    with pytest.raises(sg.ArgumentError, match="gradients"):
        simulate(workers=1, steps=10, gradients=0)
