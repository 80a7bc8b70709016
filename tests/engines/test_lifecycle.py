"""The life of workers as plain data: events in, decisions out, no clock and no waiting."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stalegrad.engines import FaultPolicy, Lifecycle
from stalegrad.engines.lifecycle import LEAST_WAIT, Abandon, Fault, GiveUp, Replace, State


def replace(worker, incarnation, kind, details):
    return Replace(Fault(worker, kind, details), incarnation)


def lived(policy, events, workers=2, needs_all=False):
    """A lifecycle after ``(time, event, worker, ...)``, and each event's answer that is not empty."""
    lifecycle = Lifecycle(workers, policy, needs_all=needs_all)
    lifecycle.begin(0.0)
    answers = []
    for now, event, *rest in events:
        if event == "tick":
            answer = list(lifecycle.tick(now))
        elif event == "usable":
            answer = lifecycle.usable(*rest)
        elif event == "failed":
            answer = lifecycle.failed(*rest, "why", now)
        else:
            answer = getattr(lifecycle, event)(*rest, now)
        if answer:
            answers.append(answer)
    return lifecycle, answers


STATES = {
    "nothing": ([], State.STARTING),
    "ready": ([(1, "ready", 0)], State.READY),
    "assigned": ([(1, "ready", 0), (2, "assigned", 0)], State.COMPUTING),
    "delivered": ([(1, "ready", 0), (2, "assigned", 0), (3, "delivered", 0)], State.READY),
    "delivered one of two": (
        [(1, "ready", 0), (2, "assigned", 0), (2, "assigned", 0), (3, "delivered", 0)], State.COMPUTING),
    "delivered both": (
        [(1, "ready", 0), (2, "assigned", 0), (2, "assigned", 0), (3, "delivered", 0), (4, "delivered", 0)],
        State.READY),
    "ready for more": ([(1, "ready", 0), (2, "assigned", 0), (3, "ready", 0)], State.COMPUTING),
    "delivered unasked": ([(1, "ready", 0), (2, "delivered", 0)], State.READY),
    "failed": ([(1, "ready", 0), (2, "assigned", 0), (3, "failed", 0, "raised")], State.STARTING),
    "failed and ready again": ([(1, "ready", 0), (3, "failed", 0, "raised"), (4, "ready", 0)], State.READY),
    "failed too often": ([(1, "failed", 0, "died"), (2, "failed", 0, "died")], State.GIVEN_UP),
}  # fmt: skip


@pytest.mark.parametrize(("events", "state"), STATES.values(), ids=STATES)
def test_states(events, state):
    lifecycle, _ = lived(FaultPolicy(restarts=1), events)
    assert lifecycle.state(0) is state
    assert lifecycle.state(1) is State.STARTING


PATIENT = FaultPolicy(patience=5.0, start=60.0, silence=10.0)
CLOCK = {
    "a worker that computes may take its patience": (
        [(1, "ready", 0), (1, "assigned", 0), (6.0, "tick"), (6.1, "tick")],
        [[0], [replace(0, 1, "hung", "no answer for 5.1 s")]]),
    "each answer is waited for anew": (
        [(1, "ready", 0), (1, "assigned", 0), (1, "assigned", 0), (5, "delivered", 0), (9, "tick"), (11, "tick")],
        [[0], [replace(0, 1, "hung", "no answer for 6.0 s")]]),
    "one that has no work is not waited for": ([(1, "ready", 0), (1, "ready", 1), (1000, "tick")], [[0], [1]]),
    "one that starts may take longer": (
        [(1, "ready", 1), (60, "tick"), (61, "tick")], [[1], [replace(0, 1, "hung", "no answer for 61.0 s")]]),
    "silence counts from the first heartbeat": (
        [(1, "heartbeat", 0), (11, "tick"), (12, "tick")], [[replace(0, 1, "died", "no sign of life for 11.0 s")]]),
    "a replacement begins anew": (
        [(1, "heartbeat", 0), (12, "tick"), (50, "tick")], [[replace(0, 1, "died", "no sign of life for 11.0 s")]]),
    "heartbeats do not replace answers": (
        [(1, "ready", 0), (1, "assigned", 0), (6, "heartbeat", 0), (7, "tick")],
        [[0], [replace(0, 1, "hung", "no answer for 6.0 s")]]),
}  # fmt: skip


@pytest.mark.parametrize(("events", "answers"), CLOCK.values(), ids=CLOCK)
def test_deadlines(events, answers):
    assert lived(PATIENT, events)[1] == answers


def test_without_limits_nothing_is_late():
    _, answers = lived(FaultPolicy(), [(1, "ready", 0), (1, "assigned", 0), (10**9, "tick")])
    assert answers == [[0]]
    _, answers = lived(FaultPolicy(patience=1.0, start=None), [(10**9, "tick")])
    assert answers == []


REASON = "all workers of chain 0 were given up after failing 2 times in a row; the last one died: why"
FAULTS = {
    "in a row": (
        FaultPolicy(restarts=1), [(1, "failed", 0, "died"), (2, "failed", 0, "died")],
        [replace(0, 1, "died", "why"), GiveUp(Fault(0, "died", "why"))]),
    "with a good gradient in between": (
        FaultPolicy(restarts=1), [(1, "failed", 0, "died"), (2, "usable", 0), (3, "failed", 0, "raised")],
        [replace(0, 1, "died", "why"), replace(0, 2, "raised", "why")]),
    "of the last worker": (
        FaultPolicy(restarts=1), [(1, "failed", 0, "died"), (1, "failed", 1, "died")] * 2,
        [replace(0, 1, "died", "why"), replace(1, 1, "died", "why"), GiveUp(Fault(0, "died", "why")),
         Abandon(Fault(1, "died", "why"), REASON)]),
    "where workers come and go": (
        FaultPolicy(restarts=0, elastic=True),
        [(1, "failed", 0, "died"), (2, "failed", 0, "died"), (3, "failed", 0, "raised")],
        [replace(0, 1, "died", "why"), replace(0, 2, "died", "why"), GiveUp(Fault(0, "raised", "why"))]),
}  # fmt: skip


@pytest.mark.parametrize(("policy", "events", "decisions"), FAULTS.values(), ids=FAULTS)
def test_faults(policy, events, decisions):
    assert lived(policy, events)[1] == decisions


def test_a_worker_whose_part_nobody_else_can_take_over_ends_the_chain():
    _, (decision,) = lived(FaultPolicy(restarts=0), [(1, "failed", 1, "hung")], needs_all=True)
    assert isinstance(decision, Abandon)
    assert decision.reason.startswith(
        "worker 1, whose part no other worker can take over, of chain 0 was given up after"
    )


def test_where_all_are_needed_all_begin_together():
    lifecycle, answers = lived(
        FaultPolicy(), [(1, "ready", 1), (2, "ready", 0), (3, "failed", 0, "died")], needs_all=True
    )
    assert answers[0] == [0, 1]
    assert lifecycle.ready(0, 4) == [0]  # later each for itself


def test_who_is_absent_and_who_is_current():
    lifecycle, _ = lived(FaultPolicy(restarts=1), [(1, "ready", 0)], workers=3)
    lifecycle.heartbeat(1, 1.0)
    assert lifecycle.absent == 1
    assert lifecycle.present_seconds(3.0) == 2.0
    lifecycle.failed(0, "died", "why", 4.0)
    assert lifecycle.absent == 2
    assert not lifecycle.is_current(0, 0)
    assert lifecycle.is_current(0, 1)
    lifecycle.failed(0, "died", "why", 5.0)
    assert not lifecycle.is_current(0, 1)


EVENTS = st.tuples(st.sampled_from(["ready", "assigned", "delivered", "usable", "failed", "heartbeat", "tick"]),
                   st.integers(0, 2), st.floats(0, 20))  # fmt: skip


@given(st.lists(EVENTS, max_size=60), st.booleans())
def test_whatever_happens_incarnations_grow_and_faults_in_a_row_are_bounded(events, needs_all):
    """Every decision is about a worker that is not given up; incarnations go up one by one."""
    policy = FaultPolicy(patience=5.0, restarts=2, start=20.0, silence=8.0)
    lifecycle, now = Lifecycle(3, policy, needs_all=needs_all), 0.0
    lifecycle.begin(now)
    incarnations, given_up, faults = [0, 0, 0], set(), [0, 0, 0]
    for event, worker, seconds in events:
        now += seconds
        if worker in given_up and event != "tick":
            continue
        decisions = []
        if event == "tick":
            decisions = list(lifecycle.tick(now))
        elif event == "failed":
            decisions = [lifecycle.failed(worker, "raised", "why", now)]
        elif event == "usable":
            lifecycle.usable(worker)
            faults[worker] = 0
        elif event == "assigned" and lifecycle.state(worker) is State.STARTING:
            continue  # nobody does
        else:
            getattr(lifecycle, event)(worker, now)
        for decision in decisions:
            who = decision.fault.worker
            assert who not in given_up
            faults[who] += 1
            if isinstance(decision, Replace):
                incarnations[who] += 1
                assert decision.incarnation == incarnations[who]
                assert faults[who] <= policy.restarts
                assert lifecycle.state(who) is State.STARTING
            else:
                given_up.add(who)
                assert faults[who] == policy.restarts + 1
                assert isinstance(decision, Abandon) == (needs_all or len(given_up) == 3)
    for worker in range(3):
        assert lifecycle.is_current(worker, incarnations[worker]) == (worker not in given_up)


class TestAskingAgain:
    """When an answer is taken for lost, by the time that answers took before."""

    def computing(self, taken=(), policy=None):
        """A worker that has answered in these times, and was asked again at 100."""
        lifecycle = Lifecycle(1, policy or FaultPolicy())
        lifecycle.begin(0.0)
        lifecycle.ready(0, 1.0)
        for k, seconds in enumerate(taken):
            lifecycle.assigned(0, 10.0 + k)
            lifecycle.timed(0, seconds, 10.0 + k + seconds)
            lifecycle.delivered(0, 10.0 + k + seconds)
        lifecycle.assigned(0, 100.0)
        return lifecycle

    def asked(self, lifecycle, until, begun=100.0):
        """When it is asked again, looked at every millisecond."""
        return [round(t - begun, 3) for k in range(round(until * 1000)) if lifecycle.overdue(t := begun + k / 1000)]

    def test_after_half_as_long_again_as_answers_take_then_after_twice_as_long(self):
        assert self.asked(self.computing([0.1] * 99), 2.0) == pytest.approx([0.15, 0.3, 0.6, 1.2], abs=2e-3)

    def test_later_where_answers_differ(self):
        """It is three of four that are not asked for when they take as long as others do, whatever the fourth takes."""
        for rare in (0.2, 20.0):
            lifecycle = self.computing([0.05, 0.1, 0.1, 0.1, 0.05, 0.1, 0.1, rare] * 99)
            assert 0.14 < lifecycle.next_overdue() - 100.0 < 0.23

    def test_after_a_moment_if_nothing_is_known(self):
        assert self.asked(self.computing(), 1.5) == pytest.approx([0.25, 0.5, 1.0], abs=2e-3)
        starting = Lifecycle(1, FaultPolicy())
        starting.begin(0.0)
        assert self.asked(starting, 1.5, begun=0.0) == pytest.approx([0.25, 0.5, 1.0], abs=2e-3)

    def test_never_at_once(self):
        assert self.asked(self.computing([1e-5] * 9), 0.02)[0] == pytest.approx(LEAST_WAIT, abs=1e-3)

    def test_before_the_patience_ends(self):
        lifecycle = self.computing([10.0] * 9, FaultPolicy(patience=8.0))
        assert lifecycle.next_overdue() == 100.5
        assert self.asked(lifecycle, 7.9) == pytest.approx([0.5, 1.0, 2.0, 4.0], abs=2e-3)
        (decision,) = lifecycle.tick(108.1)
        assert decision.fault.kind == "hung"

    def test_who_is_expected_to_do_nothing_is_not_asked(self):
        lifecycle = self.computing([0.05])
        lifecycle.delivered(0, 100.05)
        assert lifecycle.next_overdue() == float("inf")
        assert self.asked(lifecycle, 2.0) == []

    def test_what_was_asked_twice_tells_how_long_it_took_from_the_question_that_it_answers(self):
        """So that messages that got lost change nothing."""
        lifecycle = self.computing([0.1] * 9)
        for k in range(9):
            begun = 100.0 + 10 * k
            assert self.asked(lifecycle, 3.0, begun)[0] == pytest.approx(0.15, abs=2e-3)
            lifecycle.timed(0, 0.1, begun + 3.0)
            lifecycle.delivered(0, begun + 3.0)
            lifecycle.assigned(0, begun + 10.0)

    def test_answers_that_are_slow_and_not_lost_are_soon_waited_for(self):
        """A link that takes half a second: to ask again at every answer would only fill it."""
        lifecycle, again = self.computing([0.02] * 9), []
        for k in range(60):
            begun = 100.0 + k
            again.append(len(self.asked(lifecycle, 0.5, begun)))
            lifecycle.timed(0, 0.5, begun + 0.5)
            lifecycle.delivered(0, begun + 0.5)
            lifecycle.assigned(0, begun + 1.0)
        assert again[0] > 1
        assert sum(again[20:]) == 0

    def test_how_long_it_took_does_not_count_what_nobody_looked(self):
        """Else a worker whose laptop slept for an hour would wait for minutes for an answer that got lost."""
        lifecycle = self.computing([0.05] * 9)
        before = lifecycle.next_overdue() - 100.0
        lifecycle.suspended(3600.0)
        lifecycle.timed(0, 3600.05, 3700.05)
        lifecycle.delivered(0, 3700.05)
        lifecycle.assigned(0, 3800.0)
        assert lifecycle.next_overdue() - 3800.0 == pytest.approx(before, rel=0.1)

    def test_time_in_which_nobody_looked_does_not_count(self):
        lifecycle = self.computing([0.1] * 9, FaultPolicy(patience=8.0))
        lifecycle.suspended(3600.0)
        assert lifecycle.overdue(3700.1) == []
        assert list(lifecycle.tick(3707.0)) == []
        assert lifecycle.overdue(3700.3) == [0]
        assert [decision.fault.kind for decision in lifecycle.tick(3708.1)] == ["hung"]


def test_answers_that_were_dealt_with_elsewhere_count_as_if_they_had_come_one_by_one():
    """Faults are forgotten, the mean of answers follows, and who was sent more work is waited for from then on."""
    policy, begin = FaultPolicy(patience=5.0), [(1, "ready", 0), (1, "ready", 1), (1, "assigned", 0)]
    together, _ = lived(policy, begin)
    one_by_one, _ = lived(policy, begin)
    together.exchanged(0, 3, 0.5, 2.5)
    for now in (1.5, 2.0, 2.5):
        one_by_one.timed(0, 0.5, now)
        one_by_one.delivered(0, now)
        one_by_one.usable(0)
        one_by_one.assigned(0, now)
    assert together.state(0) is one_by_one.state(0) is State.COMPUTING
    assert together.next_overdue() == pytest.approx(one_by_one.next_overdue())
    assert list(together.tick(7.4)) == []
    assert [decision.fault.kind for decision in together.tick(7.6)] == ["hung"]
    together.exchanged(1, 1, 0.5, None)
    assert together.state(1) is State.READY
