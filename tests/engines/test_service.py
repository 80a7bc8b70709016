"""The service loop over a scripted link and a scripted clock: no threads, no processes, no waiting."""

import threading

import numpy as np
import pytest

import stalegrad as sg
from stalegrad.admission import Admission
from stalegrad.chain import Chain
from stalegrad.engines.service import Care, Delivery, Failure, Ready, Service, WorkersLost
from stalegrad.server import Gradient, Server
from stalegrad.testing import small_model
from stalegrad.worker import Worker

KERNEL = sg.SGLD(step_size=0.002)


class ScriptedLink:
    """Workers answer in the order in which they were asked, except for what ``script`` says at given receives.

    ``script[i](link)`` may return an arrival to deliver in place of the i-th one, or None to let time pass.
    """

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
        if worker in self.dead:
            return
        values = np.empty_like(point)
        Worker(self.model, 5, 0, worker).compute(point.copy(), count, values)
        gradient = Gradient(worker, count, version, values)
        self.queue.append(Delivery(worker, self.incarnation[worker], 0.001, gradient))

    def receive(self, timeout):
        self.calls += 1
        if self.calls in self.script:
            return self.script[self.calls](self)
        if not self.queue:
            self.time += timeout
            return None
        self.time += 0.001
        return self.queue.pop(0)

    def discard(self, worker):
        self.log.append(("discard", worker))

    def close(self):
        self.log.append("closed")


def serve(link, *, workers=2, steps=60, care=None):
    draws = []
    chain = Chain(KERNEL, link.model.initial()[None], 5, 0)
    server = Server(chain, Admission(), steps, lambda _, chain, gradient: draws.append(chain.position[0].copy()))
    service = Service(0, server, link, workers, care or Care(), threading.Event(), lambda: link.time)
    try:
        service.run()
    finally:
        assert link.log[-1] == "closed"
        replayed = sg.replay(sg.Trace((server.trace,), seed=5), link.model, KERNEL) if draws else None
        if replayed:
            np.testing.assert_array_equal(replayed.draws[0], draws)
    return service


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
    service = serve(link, care=Care(restarts=0))
    trace = service.server.trace
    assert trace.steps == 60
    assert (trace.worker[20:] == 0).all()
    assert [event.kind for event in service.events] == ["died"]
    assert ("start", 1, 1) not in link.log


def test_what_a_replaced_worker_still_sends_is_ignored():
    late_message = []

    def die(link):
        late_message.extend(arrival for arrival in link.queue if arrival.worker == 1)
        link.queue = [arrival for arrival in link.queue if arrival.worker != 1]
        return Failure(1, 0, "died", "for the test")

    link = ScriptedLink({11: die, 16: lambda link: late_message[0]})
    service = serve(link)
    assert late_message
    assert ("start", 1, 1) in link.log
    assert service.server.refusals == []
    assert service.server.trace.applied_twice() == 0


def test_a_worker_that_does_not_answer_is_found_by_the_clock_alone():
    def fall_silent(link):
        link.dead.update({0, 1})
        link.queue.clear()
        return

    def wake(link):
        link.dead.clear()
        return

    link = ScriptedLink({20: fall_silent, 40: wake})
    service = serve(link, care=Care(patience=2.0, restarts=30))
    hung = [event for event in service.events if event.kind == "hung"]
    assert {event.worker for event in hung} == {0, 1}
    assert all("no answer for 2." in event.details for event in hung)
    assert service.server.trace.steps == 60


def test_faults_in_a_row_are_bounded_but_not_faults_in_all():
    """Thirty deaths with good gradients in between are fine with one restart; two in a row are not."""

    def die(link):
        worker = 0
        link.queue = []
        return Failure(worker, link.incarnation[worker], "died", "again")

    spread = ScriptedLink({10 * i: die for i in range(1, 31)})
    assert len(serve(spread, workers=1, steps=250, care=Care(restarts=1)).events) == 30
    with pytest.raises(WorkersLost, match=r"all workers of chain 0 .* failing 2 times in a row; the last one died"):
        serve(ScriptedLink({10: die, 11: die}), workers=1, care=Care(restarts=1))


def test_where_workers_come_and_go_a_death_is_no_fault():
    def die(link):
        link.queue = []
        return Failure(0, link.incarnation[0], "died", "again")

    link = ScriptedLink(dict.fromkeys(range(10, 20), die))
    service = serve(link, workers=1, care=Care(restarts=0, elastic=True))
    assert [event.kind for event in service.events] == ["died"] * 10

    def fail(link):
        return Failure(0, link.incarnation[0], "raised", "again")

    with pytest.raises(WorkersLost, match="the last one raised"):
        serve(ScriptedLink({10: fail}), workers=1, care=Care(restarts=0, elastic=True))


def test_an_empty_place_is_not_waited_for():
    """An hour passes before anybody comes."""

    def wait(link):
        link.time += 3600.0

    link = ScriptedLink({1: wait, 2: lambda link: Ready(0, 0)}, late=[0])
    assert serve(link, workers=1, care=Care(patience=1.0, start=None)).events == []
    with pytest.raises(WorkersLost, match="the last one hung"):
        serve(ScriptedLink(dict.fromkeys(range(1, 9), wait), late=[0]), workers=1, care=Care(patience=1.0))


@pytest.mark.parametrize("care", [{"patience": 0}, {"patience": -1.0}, {"restarts": -1}, {"restarts": 1.5}])
def test_care_is_checked(care):
    with pytest.raises(sg.ArgumentError):
        Care(**care)
