"""Traces made from a law of staleness, and what a trace can be asked."""

import numpy as np
import pytest
from scipy import stats

from stalegrad import Trace, TraceError
from stalegrad.engines.simulation import simulate
from stalegrad.protocol.chain_trace import ChainTrace
from stalegrad.protocol.trace_builder import TraceBuilder

FALSE_ALARM = 1e-6


def chain_of(worker, count, staleness, accepted, **more):
    return ChainTrace(np.array(worker), np.array(count), np.array(staleness), np.array(accepted, bool), **more)


class TestFromStaleness:
    def test_values_beyond_the_start_are_cut(self):
        (chain,) = Trace.from_staleness([5, 0, 5, 1, 2, 5, 6]).chains
        assert chain.staleness.tolist() == [0, 0, 2, 1, 2, 5, 6]
        assert chain.accepted.all()
        assert chain.version.tolist() == list(range(7))

    def test_every_gradient_has_a_minibatch_of_its_own(self):
        (chain,) = Trace.from_staleness([3] * 50).chains
        assert chain.applied_twice() == 0
        assert chain.count.tolist() == list(range(50))

    def test_a_row_is_a_chain(self):
        trace = Trace.from_staleness(np.array([[0, 1, 1], [0, 0, 2]], np.uint8), seed=7)
        assert [chain.staleness.tolist() for chain in trace.chains] == [[0, 1, 1], [0, 0, 2]]
        assert (len(trace), trace.seed) == (2, 7)
        assert {chain.steps for chain in trace.chains} == {3}

    def test_step_sizes_and_times_are_left_open(self):
        (chain,) = Trace.from_staleness([0, 0]).chains
        assert chain.step_size is None
        assert chain.time is None


def test_constant_staleness():
    trace = Trace.constant_staleness(3, 6, chains=2, seed=9)
    assert [chain.staleness.tolist() for chain in trace.chains] == [[0, 1, 2, 3, 3, 3]] * 2
    assert trace.seed == 9
    assert Trace.constant_staleness(0, 4).chains[0].staleness.tolist() == [0] * 4


class TestRandomStaleness:
    law = np.array([0.5, 0.0, 0.2, 0.3])

    def draws(self, weights=law, steps=50_000, **options):
        return np.stack([chain.staleness for chain in Trace.random_staleness(weights, steps, **options).chains])

    def test_it_follows_its_law_and_forgets_the_last_value(self):
        draws = self.draws(chains=2, seed=11)[:, len(self.law) :]  # past the start, where nothing is cut
        possible = np.flatnonzero(self.law)
        assert set(np.unique(draws)) == set(possible)
        for chain in draws:
            observed = np.bincount(chain, minlength=len(self.law))[possible]
            assert stats.chisquare(observed, len(chain) * self.law[possible]).pvalue > FALSE_ALARM
            pairs = np.histogram2d(chain[:-1], chain[1:], bins=np.arange(-0.5, len(self.law)))[0]
            assert stats.chi2_contingency(pairs[np.ix_(possible, possible)]).pvalue > FALSE_ALARM

    def test_the_chi_square_would_notice_another_law(self):
        observed = np.bincount(self.draws(weights=[0.52, 0, 0.19, 0.29])[0])[[0, 2, 3]]
        expected = self.law[[0, 2, 3]] * observed.sum()
        assert stats.chisquare(observed, expected).pvalue < FALSE_ALARM

    def test_weights_need_not_sum_to_one(self):
        np.testing.assert_array_equal(self.draws(seed=5), self.draws(weights=10 * self.law, seed=5))
        huge = self.draws(weights=[1e308, 1e308, 1e308], steps=3000, seed=5)
        assert np.bincount(huge[0]).min() > 800

    def test_mass_on_one_value_is_that_value(self):
        np.testing.assert_array_equal(self.draws(weights=[0, 0, 7, 0, 0], steps=100)[0][2:], 2)

    def test_the_seed_decides_and_chains_differ(self):
        one, other = self.draws(chains=2, seed=2**64 - 1), self.draws(chains=2, seed=2**64 - 1)
        np.testing.assert_array_equal(one, other)
        assert (one[0] != one[1]).mean() > 0.5
        assert (one[0] != self.draws(seed=4)[0]).mean() > 0.5


class TestChainTrace:
    """Two workers; the second gradient of worker 1 is dropped, and its third was read at version 2."""

    chain = chain_of(
        worker=[0, 1, 1, 0, 1],
        count=[0, 0, 1, 1, 2],
        staleness=[0, 1, 2, 1, 1],
        accepted=[1, 1, 0, 1, 1],
        step_size=np.array([0.1, 0.1, np.nan, 0.2, 0.3]),
        time=np.arange(5.0),
        scanned=np.array([1, 1, 0, 0, 1]),
        gradient_seconds=np.array([0.5, 0.6, 0.7, 0.8, 0.9], np.float32),
    )

    def test_version_counts_accepted_gradients(self):
        assert self.chain.version.tolist() == [0, 1, 2, 2, 3]
        assert (len(self.chain), self.chain.steps) == (5, 4)

    def test_updates_are_the_accepted_rows_of_every_column(self):
        updates = self.chain.updates()
        assert updates.worker.tolist() == [0, 1, 0, 1]
        assert updates.count.tolist() == [0, 0, 1, 2]
        assert updates.staleness.tolist() == [0, 1, 1, 1]
        assert updates.step_size.tolist() == [0.1, 0.1, 0.2, 0.3]
        assert updates.time.tolist() == [0, 1, 3, 4]
        assert updates.scanned.tolist() == [1, 1, 0, 1]
        np.testing.assert_allclose(updates.gradient_seconds, [0.5, 0.6, 0.8, 0.9], rtol=1e-6)
        assert updates.accepted.all()

    @pytest.mark.parametrize(("updates", "rows"), [(0, 0), (1, 1), (2, 2), (3, 4), (4, 5)])
    def test_a_head_ends_with_an_accepted_gradient(self, updates, rows):
        head = self.chain.head(updates)
        assert (len(head), head.steps) == (rows, updates)
        for name, column in self.chain.columns().items():
            np.testing.assert_array_equal(getattr(head, name), column[:rows], name)

    def test_applied_twice_looks_at_accepted_gradients_only(self):
        assert self.chain.applied_twice() == 0
        assert chain_of([0, 0, 1, 0], [0, 0, 0, 0], [0, 1, 1, 3], [1, 1, 1, 1]).applied_twice() == 2
        assert chain_of([0, 0], [0, 0], [0, 1], [1, 0]).applied_twice() == 0

    def test_an_empty_chain(self):
        empty = TraceBuilder().build()
        assert (len(empty), empty.steps, empty.applied_twice(), len(empty.version)) == (0, 0, 0, 0)

    def test_the_builder_leaves_out_what_was_never_given(self):
        builder = TraceBuilder()
        builder.append(3, 0, 0, True, np.nan, 1.5, -1, np.nan)
        builder.append(4, 0, 1, False, np.nan, 2.5, -1, np.nan)
        built = builder.build()
        assert built.step_size is built.scanned is None
        assert built.time.tolist() == [1.5, 2.5]
        assert built.accepted.tolist() == [True, False]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"count": np.arange(3)}, "columns differ in length"),
        ({"time": np.arange(3.0)}, "columns differ in length"),
        ({"worker": None}, "column worker is NoneType"),
        ({"worker": [0, 0]}, "column worker is list"),
        ({"worker": np.array([0, -1])}, "column worker reaches outside 0 to 65535"),
        ({"worker": np.array([0, 2**16])}, "column worker reaches outside"),
        ({"count": np.array([0, 2**32])}, "column count reaches outside"),
        ({"staleness": np.array([0.0, 1.0])}, r"column staleness is float64 of shape \(2,\)"),
        ({"staleness": np.zeros((2, 1), int)}, r"column staleness is int64 of shape \(2, 1\)"),
        ({"staleness": np.array([1, 0])}, "a version that did not exist"),
        ({"staleness": np.array([0, 2])}, "a version that did not exist"),
        ({"staleness": np.array([0, -1])}, "a version that did not exist"),
        ({"accepted": np.array([1, 1])}, "column accepted is int64"),
        ({"step_size": np.array([1, 1])}, "column step_size is int64"),
        ({"step_size": np.array([0.1, 0.0])}, "step size that is not a finite number > 0"),
        ({"step_size": np.array([0.1, np.nan])}, "step size that is not a finite number > 0"),
        ({"step_size": np.array([np.inf, 0.1])}, "step size that is not a finite number > 0"),
    ],
)
def test_columns_that_contradict_each_other_are_refused(changes, message):
    sound = {
        "worker": np.zeros(2, int),
        "count": np.arange(2),
        "staleness": np.array([0, 1]),
        "accepted": np.ones(2, bool),
    }
    assert ChainTrace(**sound).steps == 2
    with pytest.raises(TraceError, match=message):
        ChainTrace(**sound | changes)


def test_a_trace_without_a_record_has_as_many_workers_as_sent_something():
    assert Trace.constant_staleness(2, 10).workers == 1
    assert simulate(workers=3, steps=10).workers == 3
