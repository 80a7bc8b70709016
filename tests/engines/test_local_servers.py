"""Servers side by side in one process: when one fails the others end, and what became of all is put together."""

import threading
from types import SimpleNamespace

import numpy as np
import pytest

from stalegrad.engines import WorkersLost
from stalegrad.engines.base import Event, Timing
from stalegrad.engines.local_servers import ChainResult, outcome_of, run_side_by_side, total
from stalegrad.protocol.chain_trace import ChainTrace

LONG = 60.0  # seconds, which only a test that fails waits for


def trace(rows):
    zeros = np.zeros(rows, np.int32)
    return ChainTrace(zeros, np.arange(rows), zeros, np.ones(rows, bool), np.full(rows, 0.1))


class Scripted:
    """A server that does what it is told in place of advancing a chain."""

    def __init__(self, index, does):
        self.index, self.events, self.timing, self.trace, self.run = index, [], Timing(), trace(index + 1), does


def run(*scripts):
    """The outcome of servers that are called with what ends the run early."""
    job = SimpleNamespace(settings=SimpleNamespace(servers=len(scripts)), past=(), hurry=lambda: None, stop_requests=[])
    return run_side_by_side(job, lambda s, stop, clock: Scripted(s, lambda: scripts[s](stop)))


@pytest.mark.parametrize("place", [0, 1])
def test_a_chain_that_fails_ends_the_others(place):
    told = []

    def fail(stop):
        raise WorkersLost("for the test")

    scripts = [lambda stop: told.append(stop.wait(LONG))] * 2
    scripts.insert(place, fail)
    outcome = run(*scripts)
    assert told == [True, True]
    assert str(outcome.failure) == "for the test"
    assert not outcome.interrupted
    assert [len(chain) for chain in outcome.chains] == [1, 2, 3]


def test_what_nobody_expects_is_raised_and_ends_the_others():
    told = []

    def fail(stop):
        raise ZeroDivisionError("for the test")

    with pytest.raises(ZeroDivisionError):
        run(fail, lambda stop: told.append(stop.wait(LONG)))
    assert told == [True]


def test_servers_run_at_the_same_time():
    """Each waits for the other."""
    barrier = threading.Barrier(2)
    assert run(*[lambda stop: barrier.wait(LONG)] * 2).failure is None


def test_faults_of_all_chains_are_in_the_order_of_their_time():
    early, late, between = (Event(time, 0, 0, "died", "for the test") for time in (1.0, 5.0, 3.0))
    results = [ChainResult(trace(1), [early, late], Timing()), ChainResult(trace(1), [between], Timing())]
    assert outcome_of(results, interrupted=False, failure=None).events == (early, between, late)


def test_servers_share_the_time_of_the_run_and_add_up_the_rest():
    first = Timing(wall=3.0, gradients=2.0, waiting=1.0, updates=0.5, count=7, damaged=1, repeated=2, sent_again=3)
    second = Timing(wall=4.0, gradients=3.0, waiting=0.25, updates=0.25, count=8, damaged=4, repeated=5, sent_again=6)
    assert total([first, second]) == Timing(
        wall=4.0, gradients=5.0, waiting=1.25, updates=0.75, count=15, damaged=5, repeated=7, sent_again=9
    )
