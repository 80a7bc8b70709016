"""The server loop over a scripted link and a scripted clock: no threads, no processes, no waiting."""

import threading

import numpy as np
import pytest

import stalegrad as sg
from stalegrad.engines import Delivery, Failure, FaultPolicy, LastSeen, Link, Ready, ServerLoop, WorkersLost
from stalegrad.protocol.admission import Admission
from stalegrad.protocol.chain import Chain
from stalegrad.protocol.server import Gradient, Server
from stalegrad.protocol.worker import Worker
from stalegrad.testing import small_model

KERNEL = sg.SGLD(step_size=0.002)


class ScriptedLink(Link):
    """Workers answer in the order in which they were asked, except for what ``script`` says at given receives.

    ``script[i](link)`` may return an arrival to deliver in place of the i-th one, or None to let time pass.
    """

    slow = 0.001  # seconds from one arrival to the next

    def __init__(self, script=None, late=(), dead=()):
        self.model = small_model()
        self.script, self.late, self.dead = script or {}, set(late), set(dead)
        self.queue, self.log, self.time, self.calls = [], [], 0.0, 0

    def start(self, worker, incarnation):
        self.log.append(("start", worker, incarnation))
        self.incarnation = getattr(self, "incarnation", {}) | {worker: incarnation}
        if worker not in self.late:
            self.queue.append(Ready(worker, incarnation))

    def send(self, assignment, point):
        worker, count, version = assignment
        self.log.append(("send", worker))
        if worker in self.dead:
            return
        values = np.empty_like(point)
        Worker(self.model, 5, 0, worker).compute(point.copy(), count, values)
        gradient = Gradient(worker, count, version, values)
        self.queue.append(Delivery(worker, self.incarnation[worker], 0.001, gradient))

    def receive(self, timeout):
        self.calls += 1
        assert self.calls < 10_000, "nobody has work, and the loop waits for ever"
        if self.calls in self.script:
            return self.script[self.calls](self)
        if not self.queue:
            self.time += timeout
            return None
        self.time += self.slow
        return self.queue.pop(0)

    def discard(self, worker, kind):
        self.log.append(("discard", worker))

    def close(self):
        self.log.append("closed")


def serve(link, *, workers=2, steps=60, policy=None, admission=None, prepares=False):
    draws = []
    chain = Chain(KERNEL, link.model.initial()[None], 5, 0)
    server = Server(
        chain, admission or Admission(), steps, lambda _, chain, gradient: draws.append(chain.position[0].copy())
    )
    loop = ServerLoop(
        0, server, link, workers, policy or FaultPolicy(), threading.Event(), lambda: link.time, prepares=prepares
    )
    try:
        loop.run()
    finally:
        assert link.log[-1] == "closed"
        replayed = sg.replay(sg.Trace((server.trace,), seed=5), link.model, KERNEL) if draws else None
        if replayed:
            np.testing.assert_array_equal(replayed.draws[0], draws)
    return loop


def test_workers_may_join_late():
    link = ScriptedLink({30: lambda link: Ready(1, 0)}, late=[1])
    trace = serve(link).server.trace
    first = int(np.flatnonzero(trace.worker == 1)[0])
    assert first > 20
    assert (trace.worker[:first] == 0).all()
    assert trace.staleness[first:].max() == 1


def test_workers_may_leave_early():
    def leave(link):
        link.dead.add(1)
        link.queue = [arrival for arrival in link.queue if arrival.worker != 1]
        return Failure(1, 0, "died", "left")

    link = ScriptedLink({20: leave})
    loop = serve(link, policy=FaultPolicy(restarts=0))
    trace = loop.server.trace
    assert trace.steps == 60
    assert (trace.worker[20:] == 0).all()
    assert [event.kind for event in loop.events] == ["died"]
    assert ("start", 1, 1) not in link.log


def test_who_was_held_for_a_worker_that_dies_is_sent_work():
    """With a bound of 0 one computes at a time: when it dies, the other is told at once."""

    def die(link):
        (lost,) = {arrival.worker for arrival in link.queue if isinstance(arrival, Delivery)}
        link.queue = [arrival for arrival in link.queue if arrival.worker != lost]
        link.dead.add(lost)
        return Failure(lost, 0, "died", "for the test")

    loop = serve(ScriptedLink({20: die}), policy=FaultPolicy(restarts=0), admission=Admission(0, "wait"))
    assert loop.server.trace.steps == 60


def test_a_worker_that_is_about_to_be_replaced_is_sent_nothing():
    def spoil(link):
        delivery = next(arrival for arrival in link.queue if isinstance(arrival, Delivery))
        link.queue.remove(delivery)
        link.spoilt = delivery.worker
        return delivery._replace(gradient=delivery.gradient._replace(values=delivery.gradient.values * np.nan))

    link = ScriptedLink({20: spoil})
    loop = serve(link)
    assert [event.kind for event in loop.events] == ["refused"]
    discarded = link.log.index(("discard", link.spoilt))
    assert ("send", link.spoilt) not in link.log[discarded - 1 : discarded]
    assert link.log[discarded:].index(("start", link.spoilt, 1)) < link.log[discarded:].index(("send", link.spoilt))


def test_what_a_replaced_worker_still_sends_is_ignored():
    late_message = []

    def die(link):
        late_message.extend(arrival for arrival in link.queue if arrival.worker == 1)
        link.queue = [arrival for arrival in link.queue if arrival.worker != 1]
        return Failure(1, 0, "died", "for the test")

    link = ScriptedLink({11: die, 16: lambda link: late_message[0]})
    loop = serve(link)
    assert late_message
    assert ("start", 1, 1) in link.log
    assert loop.server.refusals == []
    assert loop.server.trace.applied_twice() == 0


def test_a_worker_that_does_not_answer_is_found_by_the_clock_alone():
    def fall_silent(link):
        link.dead.update({0, 1})
        link.queue.clear()
        return

    def wake(link):
        link.dead.clear()
        return

    link = ScriptedLink({20: fall_silent, 40: wake})
    loop = serve(link, policy=FaultPolicy(patience=2.0, restarts=30))
    hung = [event for event in loop.events if event.kind == "hung"]
    assert {event.worker for event in hung} == {0, 1}
    assert all("no answer for 2." in event.details for event in hung)
    assert loop.server.trace.steps == 60


def test_faults_in_a_row_are_bounded_but_not_faults_in_all():
    """Thirty deaths with good gradients in between are fine with one restart; two in a row are not."""

    def die(link):
        worker = 0
        link.queue = []
        return Failure(worker, link.incarnation[worker], "died", "again")

    spread = ScriptedLink({10 * i: die for i in range(1, 31)})
    assert len(serve(spread, workers=1, steps=250, policy=FaultPolicy(restarts=1)).events) == 30
    with pytest.raises(WorkersLost, match=r"all workers of chain 0 .* failing 2 times in a row; the last one died"):
        serve(ScriptedLink({10: die, 11: die}), workers=1, policy=FaultPolicy(restarts=1))


def test_where_workers_come_and_go_a_death_is_no_fault():
    def die(link):
        link.queue = []
        return Failure(0, link.incarnation[0], "died", "again")

    link = ScriptedLink(dict.fromkeys(range(10, 20), die))
    loop = serve(link, workers=1, policy=FaultPolicy(restarts=0, elastic=True))
    assert [event.kind for event in loop.events] == ["died"] * 10

    def fail(link):
        return Failure(0, link.incarnation[0], "raised", "again")

    with pytest.raises(WorkersLost, match="the last one raised"):
        serve(ScriptedLink({10: fail}), workers=1, policy=FaultPolicy(restarts=0, elastic=True))


def test_an_empty_place_is_not_waited_for():
    """Ten minutes pass before anybody comes."""
    link = ScriptedLink({3000: lambda link: Ready(0, 0)}, late=[0])
    assert serve(link, workers=1, policy=FaultPolicy(patience=1.0, start=None)).events == []
    assert link.time > 599
    with pytest.raises(WorkersLost, match="the last one hung"):
        serve(ScriptedLink(late=[0]), workers=1, policy=FaultPolicy(patience=1.0))


@pytest.mark.parametrize("heartbeats", [False, True])
def test_a_run_that_stood_still_finds_nobody_late(heartbeats):
    """An hour passes in which nothing ran; then everybody goes on as if nothing had been. It is no worker's fault."""

    class Beating(ScriptedLink):
        beat = 0.0

        def last_seen(self):
            if not heartbeats:
                return []
            age, self.beat = self.time - self.beat, self.time  # that of before the hour is looked at after it
            return [LastSeen(worker, 0, age) for worker in (0, 1)]

    def stand_still(link):
        link.time += 3600.0

    link = Beating(dict.fromkeys((20, 40, 41), stand_still))
    assert serve(link, policy=FaultPolicy(patience=2.0, silence=2.0)).events == []
    assert link.time > 3 * 3600

    def one_dies(link):
        link.dead.add(1)
        link.queue = [arrival for arrival in link.queue if arrival.worker != 1]
        link.time += 3600.0

    link = ScriptedLink({20: one_dies})
    link.slow = 0.1
    loop = serve(link, policy=FaultPolicy(patience=2.0, restarts=0))
    assert [(event.kind, event.worker) for event in loop.events] == [("hung", 1)]  # found all the same, a little later


def test_a_worker_that_has_fallen_silent_is_noticed():
    """Worker 1 was last seen at 1 s, which is two seconds ago when it is found dead; worker 0 is seen all the time."""

    class Beating(ScriptedLink):
        slow = 0.1

        def last_seen(self):
            return [LastSeen(0, 0, 0.0), LastSeen(1, 0, max(0.0, self.time - 1.0))]

    loop = serve(Beating(), policy=FaultPolicy(silence=2.0, restarts=0))
    assert [(event.kind, event.worker) for event in loop.events] == [("died", 1)]
    assert 3.0 < loop.events[0].time < 4.0


def test_the_seconds_of_all_gradients_are_added_up():
    """Each of them took a millisecond; the rest of the time for which workers were there they have waited."""
    loop = serve(ScriptedLink(), steps=60)
    assert loop.timing.count == 60
    assert loop.timing.gradients == pytest.approx(60 * 0.001)
    present = loop.lifecycle.present_seconds(loop.timing.wall)
    assert loop.timing.waiting == pytest.approx(present - 60 * 0.001)


@pytest.mark.parametrize("policy", [{"patience": 0}, {"patience": -1.0}, {"restarts": -1}, {"restarts": 1.5}])
def test_the_policy_is_checked(policy):
    with pytest.raises(sg.ArgumentError):
        FaultPolicy(**policy)


def test_the_noise_of_the_next_update_is_made_in_idle_moments(monkeypatch):
    """When nothing has arrived; and the run replays to the bit, as all of these do."""
    made, prepare = [], Chain.prepare_noise
    monkeypatch.setattr(Chain, "prepare_noise", lambda chain: made.append(chain.version) or prepare(chain))
    serve(ScriptedLink(), workers=1, prepares=True)
    assert not made  # there always was something
    serve(ScriptedLink({call: lambda link: None for call in range(2, 200, 2)}), workers=1, prepares=True)
    assert made == list(range(60))
