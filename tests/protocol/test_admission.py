"""The protocol as plain data: who may fly, what lands, what is refused."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stalegrad._internal.errors import ArgumentError
from stalegrad.protocol.admission import Admission, Assignment, Landing, Refusal
from stalegrad.protocol.chain_trace import ChainTrace
from stalegrad.protocol.past import Past


def joined(workers, **settings):
    admission = Admission(**settings)
    for worker in range(workers):
        admission.join(worker)
    return admission


def test_everybody_starts_from_version_zero_with_its_own_first_minibatch():
    assert joined(3).release() == [Assignment(worker, 0, 0) for worker in range(3)]


def test_staleness_counts_the_updates_since_the_worker_read():
    admission = joined(3)
    admission.release()
    assert [admission.land(worker) for worker in (0, 1, 2)] == [Landing(0, True), Landing(1, True), Landing(2, True)]
    assert admission.release() == [Assignment(worker, 1, 3) for worker in (0, 1, 2)]


def test_drop_leaves_the_version_and_hands_out_the_current_one():
    admission = joined(2, max_staleness=1)
    admission.release()
    for _ in range(2):
        admission.land(0)
        admission.release()
    assert admission.land(1) == Landing(2, False)
    assert admission.version == 2
    assert admission.release() == [Assignment(1, 1, 2)]


def test_wait_holds_the_worker_that_is_ahead():
    admission = joined(2, max_staleness=1, policy="wait")
    admission.release()
    assert admission.land(0) == Landing(0, True)
    assert admission.release() == []  # worker 1 still holds version 0: another update would make it 2 behind
    assert admission.held == (0,)
    assert admission.land(1) == Landing(1, True)
    assert admission.release() == [Assignment(0, 1, 2), Assignment(1, 1, 2)]


def test_wait_with_a_bound_of_zero_is_one_worker_at_a_time():
    admission = joined(3, max_staleness=0, policy="wait")
    for turn in range(6):
        (assignment,) = admission.release()
        assert assignment.worker == turn % 3
        assert admission.land(assignment.worker) == Landing(0, True)


def test_a_death_releases_those_who_were_held_for_it():
    admission = joined(2, max_staleness=1, policy="wait")
    admission.release()
    admission.land(0)
    assert admission.release() == []
    admission.leave(1)
    assert admission.release() == [Assignment(0, 1, 1)]


def test_a_replacement_goes_on_with_the_next_minibatch():
    admission = joined(1)
    admission.release()
    admission.leave(0)
    admission.join(0)
    assert admission.release() == [Assignment(0, 1, 0)]


@given(
    workers=st.integers(1, 6),
    bound=st.integers(0, 8),
    policy=st.sampled_from(["drop", "wait"]),
    choices=st.lists(st.integers(0, 10**6), min_size=1, max_size=200),
)
def test_whatever_the_order_the_bound_holds_and_somebody_can_always_go_on(workers, bound, policy, choices):
    admission = joined(workers, max_staleness=bound, policy=policy)
    admission.release()
    for choice in choices:
        flying = admission.flying
        assert flying, "nobody computes: deadlock"
        landing = admission.land(flying[choice % len(flying)].worker)
        assert landing.accepted == (landing.staleness <= bound)
        if policy == "wait":
            assert landing.accepted
        admission.release()
        assert len(admission.flying) + len(admission.held) == workers


@pytest.mark.parametrize(
    ("message", "reason"),
    [
        ((9, 0, 0), "not known"),
        ((0, 0, 5), "read version 5"),
        ((1, 0, 0), "again"),
        ((0, 3, 0), "asked for was"),
    ],
)
def test_refuses_what_it_did_not_ask_for(message, reason):
    admission = joined(2)
    admission.release()
    admission.expect(1, 0, 0)
    admission.land(1)
    with pytest.raises(Refusal, match=reason):
        admission.expect(*message)


def test_after_a_past_the_version_counts_accepted_gradients_and_minibatches_go_on():
    past = ChainTrace(
        worker=np.array([0, 1, 0]), count=np.array([0, 0, 1]), staleness=np.array([0, 1, 0]),
        accepted=np.array([True, False, True]),
    )  # fmt: skip
    admission = joined(3, max_staleness=0, past=Past.of(past))
    assert admission.release() == [Assignment(0, 2, 2), Assignment(1, 1, 2), Assignment(2, 0, 2)]


def test_refuses_to_join_twice():
    admission = joined(1)
    with pytest.raises(Refusal, match="joined already"):
        admission.join(0)


def test_wait_needs_a_bound():
    with pytest.raises(ArgumentError, match="max_staleness=None"):
        Admission(policy="wait")


def test_whoever_loses_a_gradient_goes_on_with_a_new_epoch():
    admission = joined(3, epoch=4)
    admission.release()
    admission.leave(0)
    admission.join(0)
    admission.abandon(1)
    admission.land(2)
    assert admission.release() == [Assignment(0, 4, 1), Assignment(1, 4, 1), Assignment(2, 1, 1)]
